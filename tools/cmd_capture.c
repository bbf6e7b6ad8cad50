/* capture - a golden from an oracle: ids, top lists decode- and prefill-shaped, the oracle's own noise, provenance */
#include "goldens/exchange.h"
#include "goldens/logits.h"
#include "goldens/store.h"
#include "harness/capture.h"
#include "harness/models/load.h"
#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern const struct command command_capture;

struct options {
    const char *oracle, *model, *battery, *repeats, *top_k, *output, *arm, *force, *logits, *command;
};

static int number(const char *name, const char *text, int lo, int hi, int *out, struct err *e)
{
    char *end;
    long v = strtol(text, &end, 10);
    if (*end || end == text || v < lo || v > hi)
        return FAIL(e, E_USAGE, "--%s %s: a number from %d to %d is expected", name, text, lo, hi);
    *out = (int)v;
    return OK;
}

static void show(void *arg, const char *prompt, int done, int total)
{
    (void)prompt;
    tool_progress(arg, "capturing", done, total);
}

static int battery_of(struct store *s, const char *name, struct battery **b, struct err *e)
{
    size_t n = strlen(name);
    return n > 5 && !strcmp(name + n - 5, ".json") ? battery_read(name, b, e) : store_battery_get(s, name, b, e);
}

static int print(const struct tool *t, const struct golden *g, int64_t id, const char *output)
{
    int tokens = 0, same = 0, rows = 0, repeats = 0, equal = 0;
    for (int i = 0; i < g->prompts; i++) {
        tokens += g->prompt[i].n;
        rows += g->prompt[i].decode.rows;
        same += g->prompt[i].rows_equal > 0 ? g->prompt[i].rows_equal : 0;
        repeats += g->prompt[i].repeats;
        equal += g->prompt[i].repeats_equal;
    }
    if (t->json) {
        json_t *o = json_pack("{s:I,s:s,s:s,s:s,s:s,s:i,s:i,s:{s:i,s:i,s:i,s:i}}", "golden", (json_int_t)id, "status",
                              "pending", "model", g->model, "battery", g->battery, "arm", g->arm, "prompts", g->prompts,
                              "tokens", tokens, "noise", "repeats", repeats, "repeats_equal", equal, "rows", rows,
                              "decode_rows_equal_prefill_rows", same);
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
    } else {
        printf("golden %lld (pending): model %s, battery %s, arm %s, %d prompts, %d tokens\n", (long long)id, g->model,
               g->battery, g->arm, g->prompts, tokens);
        printf("noise    %d of %d repeats equal in ids and logits; prefill = decode in %d of %d rows\n", equal, repeats,
               same, rows);
        printf("use it   assay run --engine native --model %s --battery %s --golden %s\n", g->model, g->battery,
               g->arm);
        if (output)
            printf("written  %s\n", output);
    }
    return OK;
}

/* The ledger says by which command, and how long it took. */
static int enter(struct store *s, const struct golden *g, int64_t id, const char *command, double seconds,
                 struct err *e)
{
    json_t *what, *list = NULL, *o;
    const char *sha256 = "";
    size_t i;
    int rc = store_golden_list(s, g->model, g->battery, NULL, &list, e);
    json_array_foreach(list, i, o)
    {
        if (json_integer_value(json_object_get(o, "id")) == id)
            sha256 = json_string_value(json_object_get(o, "golden"));
    }
    what = json_pack("{s:s,s:s,s:f,s:O?}", "captured", sha256, "command", command, "seconds", seconds, "oracle",
                     json_object_get(g->header, "oracle"));
    json_decref(list);
    if (rc) {
        json_decref(what);
        return rc;
    }
    rc = what ? store_ledger_add(s, "capture", what, e) : FAIL(e, E_INPUT, "a command that is not UTF-8");
    json_decref(what);
    return rc;
}

struct whole {
    uint16_t *row;
    size_t rows, room;
    int vocab, failed;
};

static void keep_whole(void *arg, const uint16_t *logits, int vocab)
{
    struct whole *w = arg;
    if (w->rows == w->room && !w->failed) {
        size_t room = w->room ? 2 * w->room : 256;
        uint16_t *more = realloc(w->row, room * (size_t)vocab * sizeof *more);
        w->failed = !more;
        w->row = more ? more : w->row;
        w->room = more ? room : w->room;
    }
    w->vocab = vocab;
    if (!w->failed)
        memcpy(w->row + w->rows++ * (size_t)vocab, logits, (size_t)vocab * sizeof *logits);
}

/* The golden's full rows as a record that bears its hash as a name. */
static int put_whole(struct store *s, const struct golden *g, const struct whole *w, struct err *e)
{
    char name[SHA256_HEX_SIZE], sha256[SHA256_HEX_SIZE], *text;
    uint8_t hash[SHA256_BYTES];
    size_t bytes;
    void *packed;
    if (w->failed)
        return FAIL(e, E_NOMEM, "out of memory for %zu rows of logits", w->rows);
    if (golden_text(g, &text, &bytes, e))
        return e->code;
    sha256_of(text, bytes, hash);
    sha256_hex(hash, name);
    free(text);
    if (logits_pack(w->row, NULL, (int)w->rows, w->vocab, &packed, &bytes, e))
        return e->code;
    int rc = store_record_put(s, "logits", name, packed, bytes, NULL, sha256, e);
    free(packed);
    return rc;
}

static void free_streams(struct stream *all, int n)
{
    for (int i = 0; all && i < n; i++)
        stream_free(&all[i]);
    free(all);
}

/* The ids that a finished run emitted, in the battery's order. */
static int load_run(struct store *s, const struct options *o, const struct battery *b, int64_t *run,
                    struct stream **out, struct err *e)
{
    char *end;
    json_t *object = NULL;
    *run = strtoll(o->force, &end, 10);
    if (*end || *run < 1)
        return FAIL(e, E_USAGE, "--force %s: the number of a run is expected", o->force);
    if (store_run_get(s, *run, &object, e))
        return e->code;
    const char *battery = json_string_value(json_object_get(object, "battery_sha256"));
    int same = battery && !strcmp(battery, b->sha256);
    json_decref(object);
    if (!same)
        return FAIL(e, E_USAGE, "run %lld is not of battery %s as it is now", (long long)*run, b->name);
    if (!(*out = calloc((size_t)b->prompts + 1, sizeof **out)))
        return FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; i < b->prompts; i++) {
        int found;
        if (store_stream_get(s, *run, b->prompt[i].name, PHASE_FREE, &(*out)[i], &found, e))
            return e->code;
        if (!found || !(*out)[i].n)
            return FAIL(e, E_MISSING, "run %lld has no answer for prompt %s", (long long)*run, b->prompt[i].name);
    }
    return OK;
}

/* An oracle on the arm's own ids: evidence that `assay ratify` looks for. */
static int force(struct tool *t, struct store *s, const struct options *o, struct capture_spec *spec, struct err *e)
{
    struct golden *g = NULL;
    struct stream *ids = NULL;
    char name[40], sha256[SHA256_HEX_SIZE], *text = NULL;
    size_t bytes;
    int64_t run;
    if (load_run(s, o, spec->battery, &run, &ids, e))
        goto out;
    spec->forced = ids;
    snprintf(name, sizeof name, "run:%lld", (long long)run);
    if (capture_golden(spec, &g, e))
        goto out;
    json_object_set_new(g->header, "forced_run", json_integer(run));
    if (golden_text(g, &text, &bytes, e) || store_record_put(s, "forced", name, text, bytes, NULL, sha256, e))
        goto out;
    printf(t->json ? "{\"evidence\":\"%s\",\"run\":%lld}\n"
                   : "evidence %.12s: the oracle was fed the ids of run %lld\n",
           sha256, (long long)run);
out:
    free(text);
    golden_free(g);
    free_streams(ids, spec->battery->prompts);
    return e->code;
}

static int capture(struct tool *t, const struct options *o, struct capture_spec *spec, struct err *e)
{
    struct store *s = NULL;
    struct model *m = NULL;
    struct battery *b = NULL;
    struct golden *g = NULL;
    struct whole whole = {0};
    char date[11];
    int64_t id = 0;
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y-%m-%d", &tm);
    spec->date = date;
    if (number("repeats", o->repeats, 1, 100, &spec->repeats, e) ||
        number("top-k", o->top_k, 1, 1000, &spec->top_k, e) || tool_store(t, &s, e) || tool_model(t, o->model, &m, e) ||
        battery_of(s, o->battery, &b, e))
        goto out;
    spec->model = m;
    spec->battery = b;
    spec->progress = show;
    spec->progress_arg = t;
    if (o->logits && !o->force) {
        spec->row = keep_whole;
        spec->row_arg = &whole;
    }
    if (o->force) {
        force(t, s, o, spec, e);
        goto out;
    }
    if (capture_golden(spec, &g, e) || store_golden_put(s, g, "pending", &id, e) ||
        enter(s, g, id, o->command, difftime(time(NULL), now), e) || (o->logits && put_whole(s, g, &whole, e)) ||
        (o->output && golden_write(o->output, g, e)))
        goto out;
    print(t, g, id, o->output);
out:
    free(whole.row);
    golden_free(g);
    battery_free(b);
    model_close(m);
    store_close(s);
    return e->code;
}

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {.repeats = "5", .top_k = "20", .arm = "reference"};
    const struct option_spec spec[] = {{"oracle", "O", &o.oracle},   {"model", "M", &o.model},
                                       {"battery", "B", &o.battery}, {"repeats", "K", &o.repeats},
                                       {"top-k", "K", &o.top_k},     {"output", "FILE", &o.output},
                                       {"arm", "NAME", &o.arm},      {"force", "RUN", &o.force},
                                       {"logits", NULL, &o.logits},  {0}};
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_capture, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    char *command = n < 0 ? NULL : command_again(argc, argv);
    o.command = command ? command : "";
    if (n < 0)
        return argc <= 64 ? status : 2;
    struct capture_spec c = {.oracle = o.oracle ? oracle_find(o.oracle) : NULL, .arm = o.arm};
    if (n || !o.oracle || !o.model || !o.battery)
        FAIL(&e, E_USAGE, "--oracle, --model and --battery are needed, and no other words");
    else if (!c.oracle)
        FAIL(&e, E_USAGE, "no oracle \"%s\"; there is: reference", o.oracle);
    else
        capture(t, &o, &c, &e);
    free(command);
    return e.code ? tool_fail(t, "capture", &e) : 0;
}

COMMAND(capture) = {
    .name = "capture",
    .summary = "a golden from an oracle, with the oracle's own noise",
    .usage =
        "usage: assay capture --oracle reference --model M --battery B [options]\n"
        "\nDecodes every prompt greedily, keeps the best logits of every position decode-shaped (token by token) and\n"
        "prefill-shaped (one pass), repeats, compares, and stores the golden with its provenance as pending.\n\n"
        "  --repeats K     passes over every prompt (5)\n"
        "  --top-k K       values kept at a position (20)\n"
        "  --arm NAME      what the golden's arm is called (reference)\n"
        "  --force RUN     do not decode: feed the oracle the ids that a run emitted, token by token and in one pass,\n"
        "                  and keep what it says as evidence for `assay ratify`\n"
        "  --logits        keep every full row too (`assay export logits GOLDEN -o FILE` writes them)\n"
        "  --output FILE   also write assay-golden/1, compressed when it ends in .zst\n"
        "Options: --store FILE, --json.\n",
    .order = 20,
    .run = run,
};
