/* assay bisect - the first op whose bytes differ between two arms, or between a recorded trace and an arm */
#include "goldens/exchange.h"
#include "harness/models/load.h"
#include "reports/bisect.h"
#include "tools/arms.h"
#include "tools/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay bisect --arm A [flag=value ...] --arm B [flag=value ...] --model M [options]\n"
    "       assay bisect --trace FILE --arm B [flag=value ...] --model M [options]\n"
    "       assay bisect --record FILE --arm A [flag=value ...] --model M [options]\n"
    "\n"
    "Feeds both sides the same ids and compares what every op of every layer gives, bit by bit: names the first step,\n"
    "layer and op that differ, and how the difference grows from there. Then one side's ops are fed what the other\n"
    "side's gave: an op that still gives other bytes is wrong by itself, whatever came before it.\n"
    "\n"
    "  --arm E          an engine with taps (native); its flags stand behind it\n"
    "  --trace FILE     the first side is a recorded trace (.safetensors, .safetensors.zst), of vLLM's modules on a "
    "GPU\n"
    "                   or written by --record on another machine\n"
    "  --record FILE    writes what the one arm's ops give as such a trace\n"
    "  --model M        a shipped or fetched model, or a folder; a trace of --record names its own\n"
    "  --battery B      whose prompts are fed (smoke); one after the other until something differs\n"
    "  --prompt P       that prompt alone\n"
    "  --steps N        forward steps that are looked into, the prompt's included (4)\n"
    "  --all            a line for every op\n"
    "  --html FILE      a page with the drawing and all figures; --svg FILE: the drawing\n"
    "  --threads N      0: one a CPU\n"
    "\n"
    "Exit status: 0 no difference (or the trace is written), 1 a difference is found, 2 usage, 3 error, 4 "
    "NO_EVIDENCE:\n"
    "a model, trace or prompt is missing, or the sides show no op in common.\n";

static int run(struct tool *t, int argc, char **argv);

COMMAND(bisect) = {.name = "bisect",
                   .summary = "the first layer and op whose bytes differ, and by how much",
                   .usage = usage,
                   .order = 45,
                   .run = run};

struct options {
    const char *trace, *record, *model, *battery, *prompt, *steps, *all, *html, *svg, *threads;
    int step_count, thread_count;
    struct arm_words arm[ARMS_MAX];
    int arms;
};

/* All that is opened; closed together. */
struct opened {
    struct model *model;
    struct store *store;
    struct battery *battery;
    struct engine *engine[ARMS_MAX];
    struct trace trace;
    char *again, identity[SHA256_HEX_SIZE];
};

static int set_number(const char *option, const char *text, int lo, int hi, int standard, int *out, struct err *e)
{
    char *end = "";
    long n = text ? strtol(text, &end, 10) : standard;
    if (*end || (text && end == text) || n < lo || n > hi)
        return FAIL(e, E_USAGE, "--%s %s: a number from %d to %d is needed", option, text, lo, hi);
    *out = (int)n;
    return OK;
}

static int check(struct options *o, int words, char **word, struct err *e)
{
    int wanted = o->trace || o->record ? 1 : 2;
    if (words)
        return FAIL(e, E_USAGE, "unexpected word \"%s\"; an arm's flags stand right behind its --arm", word[0]);
    if (o->trace && o->record)
        return FAIL(e, E_USAGE, "--trace reads and --record writes: one of them");
    if (o->arms != wanted)
        return FAIL(e, E_USAGE, "%d arm%s given, %d needed%s; `assay bisect --help` explains them", o->arms,
                    o->arms == 1 ? "" : "s", wanted, wanted == 2 ? " (or one and --trace FILE)" : "");
    if (o->trace && (o->battery || o->prompt))
        return FAIL(e, E_USAGE, "--trace brings its own ids: not with --battery or --prompt");
    if (o->record && (o->html || o->svg))
        return FAIL(e, E_USAGE, "--record compares nothing: not with --html or --svg");
    if (set_number("steps", o->steps, 1, 4096, 4, &o->step_count, e))
        return e->code;
    return set_number("threads", o->threads, 0, 1024, 0, &o->thread_count, e);
}

/* A trace of this program names its model; another model's would differ everywhere and say nothing. */
static int check_model(const struct options *o, const struct opened *x, struct err *e)
{
    const char *name = json_string_value(json_object_get(x->trace.about, "model"));
    const char *hash = json_string_value(json_object_get(x->trace.about, "model_sha256"));
    if (!hash || !strcmp(hash, x->identity))
        return OK;
    return FAIL(e, E_MISSING, "%s was recorded with model %s, whose files hash to %.12s; those of %s hash to %.12s",
                o->trace, name ? name : "?", hash, x->model->name, x->identity);
}

static int open_all(const struct tool *t, struct options *o, struct opened *x, struct err *e)
{
    if (o->trace && trace_read(o->trace, &x->trace, e))
        return e->code;
    if (!o->model)
        o->model = json_string_value(json_object_get(x->trace.about, "model"));
    if (!o->model)
        return FAIL(e, E_USAGE, "--model is needed; `assay model list` shows what there is");
    if (tool_model(t, o->model, &x->model, e))
        return e->code;
    model_identity(x->model, x->identity);
    if (check_model(o, x, e))
        return e->code;
    for (int i = 0; i < o->arms; i++) {
        if (engine_open_spec(o->arm[i].engine, o->arm[i].flag, o->arm[i].flags, x->model, t->data_dir, o->thread_count,
                             &x->engine[i], e))
            return e->code;
        tool_warn("engine", x->engine[i]->warning);
    }
    if (o->trace)
        return OK;
    o->battery = o->battery ? o->battery : "smoke";
    size_t n = strlen(o->battery);
    int file = n > 5 && !strcmp(o->battery + n - 5, ".json"); /* needs no store */
    int rc = file ? OK : tool_store(t, &x->store, e);
    return rc ? rc : session_battery(x->store, o->battery, &x->battery, e);
}

static void close_all(struct opened *x)
{
    for (int i = 0; i < ARMS_MAX; i++)
        if (x->engine[i])
            x->engine[i]->ops->close(x->engine[i]);
    trace_free(&x->trace);
    battery_free(x->battery);
    store_close(x->store);
    model_close(x->model);
    free(x->again);
}

/* Index of --prompt, 0 without; -1 with e set. */
static int prompt_index(const struct options *o, const struct battery *b, struct err *e)
{
    for (int i = 0; i < b->prompts; i++)
        if (!o->prompt || !strcmp(b->prompt[i].name, o->prompt))
            return i;
    FAIL(e, E_MISSING, o->prompt ? "battery %s has no prompt \"%s\"" : "battery %s has no prompts", b->name, o->prompt);
    return -1;
}

static int record(const struct options *o, struct opened *x, struct err *e)
{
    struct trace t = {0};
    struct stream emitted = {0};
    int at = prompt_index(o, x->battery, e);
    if (at < 0)
        return e->code;
    const struct battery_prompt *p = &x->battery->prompt[at];
    int rc = op_log_free_run(x->engine[0], p->ids, p->n, o->step_count, NULL, &emitted, e);
    int forced = emitted.n < o->step_count ? emitted.n : o->step_count - 1;
    if (!rc)
        rc = op_log_engine(x->engine[0], p->ids, p->n, emitted.ids, forced, NULL, &t.log, e);
    t.prompt = p->ids;
    t.prompts = p->n;
    t.forced = emitted.ids;
    t.forceds = forced;
    t.about = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "schema", "assay-trace/1", "model", x->model->name, "model_sha256",
                        x->identity, "battery", x->battery->name, "prompt", p->name, "arm", x->engine[0]->arm);
    if (!rc)
        rc = t.about ? trace_write(o->record, &t, e) : FAIL(e, E_NOMEM, "out of memory");
    if (!rc)
        printf("%s: %d ops of %d steps, prompt %s of %s, %s\n", o->record, t.log.n, forced + 1, p->name,
               x->battery->name, x->engine[0]->arm);
    t.prompt = t.forced = NULL;
    trace_free(&t);
    stream_free(&emitted);
    return rc;
}

static int write_form(const char *path, const struct bisect_report *r,
                      void (*form)(FILE *, const struct bisect_report *), struct err *e)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return FAIL(e, E_NOMEM, "out of memory for the report");
    form(f, r);
    int rc = fclose(f) ? FAIL(e, E_NOMEM, "out of memory for the report") : packed_write(path, text, size, e);
    free(text);
    return rc;
}

static int say(const struct tool *t, const struct options *o, const struct bisect_report *r, struct err *e)
{
    if ((o->html && write_form(o->html, r, bisect_html, e)) || (o->svg && write_form(o->svg, r, bisect_svg, e)))
        return e->code;
    if (!t->json) {
        bisect_text(stdout, r, t->width, o->all != NULL);
        return OK;
    }
    json_t *j = bisect_json(r);
    if (!j)
        return FAIL(e, E_NOMEM, "out of memory");
    json_dumpf(j, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    putchar('\n');
    json_decref(j);
    return OK;
}

/* Prompt after prompt until something differs; the last one looked at is reported. */
static int search(const struct tool *t, const struct options *o, struct opened *x, int *status, struct err *e)
{
    struct bisect found = {0};
    const struct battery *b = x->battery;
    char side[1100];
    int first = b ? prompt_index(o, b, e) : 0, last = b && !o->prompt ? b->prompts - 1 : first, i;
    const char *arm = json_string_value(json_object_get(x->trace.about, "arm"));
    snprintf(side, sizeof side, arm ? "%.500s, recorded in %.500s" : "%.0strace %.500s", arm ? arm : "",
             o->trace ? o->trace : "");
    for (i = first; i <= last && first >= 0 && !e->code; i++) {
        struct bisect_job j = {.a = b ? x->engine[0] : NULL,
                               .trace = b ? NULL : &x->trace,
                               .b = x->engine[b ? 1 : 0],
                               .prompt = b ? b->prompt[i].ids : x->trace.prompt,
                               .prompts = b ? b->prompt[i].n : x->trace.prompts,
                               .steps = o->step_count,
                               .max_new = b ? b->max_new_tokens : 0};
        tool_progress(t, "prompts", i - first, last - first + 1);
        bisect_free(&found);
        bisect_run(&j, &found, e);
        if (bisect_found(&found) || i == last)
            break;
    }
    tool_progress(t, "prompts", 1, 1);
    struct bisect_report r = {&found,
                              b ? x->engine[0]->arm : side,
                              x->engine[b ? 1 : 0]->arm,
                              x->model->name,
                              b ? b->name : NULL,
                              b && first >= 0 ? b->prompt[i].name : NULL,
                              b && first >= 0 ? b->prompt[i].n : x->trace.prompts,
                              i - first + 1,
                              x->again};
    if (!e->code && !say(t, o, &r, e))
        *status = bisect_found(&found) ? 1 : 0;
    bisect_free(&found);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {0};
    const struct option_spec spec[] = {{"trace", "FILE", &o.trace},
                                       {"record", "FILE", &o.record},
                                       {"model", "M", &o.model},
                                       {"battery", "B", &o.battery},
                                       {"prompt", "P", &o.prompt},
                                       {"steps", "N", &o.steps},
                                       {"all", NULL, &o.all},
                                       {"html", "FILE", &o.html},
                                       {"svg", "FILE", &o.svg},
                                       {"threads", "N", &o.threads},
                                       {0}};
    struct err e = {0};
    struct opened x = {.again = command_again(argc, argv)};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = -1;
    o.arms = arms_take(&argc, argv, o.arm, &e);
    if (e.code)
        status = tool_fail(t, "bisect", &e);
    else if (words)
        n = tool_options(t, &command_bisect, argc, argv, spec, words, &status);
    if (n >= 0 && !e.code && !check(&o, n, words, &e) && !open_all(t, &o, &x, &e)) {
        if (!o.record)
            search(t, &o, &x, &status, &e);
        else if (!record(&o, &x, &e))
            status = 0;
    }
    if (n >= 0 && e.code)
        status = tool_fail(t, "bisect", &e);
    close_all(&x);
    free(words);
    return status;
}
