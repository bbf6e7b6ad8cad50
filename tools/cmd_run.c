/* assay run - a battery through an engine, judged against a golden; or a part of it, or only what it would cost */
#include "harness/run/estimate.h"
#include "tools/run_text.h"
#include "tools/shards.h"

#include "goldens/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOTS_SHOWN 10
#define JOBS_MAX    1024

static const char usage[] =
    "usage: assay run --engine E [flag=value ...] --model M --battery B [options]\n"
    "\n"
    "Takes battery B through engine E, stores every answer, then judges them against the golden of (M, B): free run,\n"
    "forced run (the golden's own ids are fed, every position is judged), counters, razor. A run that died goes on\n"
    "where it stopped.\n"
    "\n"
    "  --engine E      native[:cpu|:cuda], replay:FILE, ...\n"
    "  flag=value      the engine's flags, for native: route=dense|grouped|par1 reduce=f32|f16 gpu=h200|gb10\n"
    "  --model M       a shipped or fetched model, or a folder\n"
    "  --battery B     a battery in the store, or a .json file\n"
    "  --golden ARM    the golden of that arm instead of the active one\n"
    "  --strict        benign differences (PASS_BY_RAZOR) give exit status 1\n"
    "  --fresh         start over, though an unfinished run of the same kind is stored\n"
    "  --witness E     an engine that gives the oracle's own bits; tells the gap of ids outside the golden's lists\n"
    "  --threads N     0: one a CPU\n"
    "  --jobs N        N processes over N shards, then one verdict\n"
    "  --shard I/N     only the prompts of that shard, into --store FILE, without a verdict: `assay store merge` "
    "joins\n"
    "                  the shards, and the same command without --shard judges them. A prompt's shard depends on the\n"
    "                  prompt and on N alone; from N to N+1 it stays or goes to the new one\n"
    "  --goldens STORE with --shard: goldens and batteries are read there, and the shard's store holds answers alone\n"
    "  --estimate      tokens, multiplications, memory, seconds on this machine by a dry run; with --shard I/N also\n"
    "                  those of that shard and of the largest of N\n"
    "\n"
    "Exit status: 0 PASS or PASS_BY_RAZOR (a shard: all its prompts are answered), 1 FAIL, 2 usage, 3 error,\n"
    "4 NO_EVIDENCE, 5 VOID.\n";

struct options {
    const char *engine, *model, *battery, *golden, *strict, *fresh, *threads, *witness, *shard, *jobs, *estimate,
        *goldens;
    struct shard part; /* n 0: none */
    int thread_count, job_count;
};

static void show_progress(void *arg, int done, int total)
{
    tool_progress(arg, "prompts", done, total);
}

static int set_number(const char *option, const char *text, int lo, int hi, int *out, struct err *e)
{
    char *end = "";
    long n = text ? strtol(text, &end, 10) : lo;
    if (*end || n < lo || n > hi || (text && end == text))
        return FAIL(e, E_USAGE, "--%s %s: a number from %d to %d is needed", option, text, lo, hi);
    *out = (int)n;
    return OK;
}

static int check(struct options *o, struct err *e)
{
    if (!o->engine || !o->model || !o->battery)
        return FAIL(e, E_USAGE, "--engine, --model and --battery are needed; `assay run --help` explains them");
    if (o->jobs && (o->shard || o->estimate))
        return FAIL(e, E_USAGE, "--jobs makes shards itself: not with --shard or --estimate");
    if (o->goldens && (!o->shard || o->estimate))
        return FAIL(e, E_USAGE, "--goldens goes with --shard; a whole run has them in its own store");
    if (o->shard && shard_parse(o->shard, &o->part, e))
        return e->code;
    return set_number("threads", o->threads, 0, 1024, &o->thread_count, e)
               ? e->code
               : set_number("jobs", o->jobs, 1, JOBS_MAX, &o->job_count, e);
}

static void print_json(const json_t *o)
{
    json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    putchar('\n');
}

static void print_shard(const json_t *o)
{
    size_t i;
    json_t *line;
    printf("shard     %s of %s, %s, %s\n", json_string_value(json_object_get(o, "shard")),
           json_string_value(json_object_get(o, "battery")), json_string_value(json_object_get(o, "model")),
           json_string_value(json_object_get(o, "arm")));
    printf("prompts   %lld/%lld answered, %lld of them by an earlier process\n",
           (long long)json_integer_value(json_object_get(o, "answered")),
           (long long)json_integer_value(json_object_get(o, "prompts")),
           (long long)json_integer_value(json_object_get(o, "resumed")));
    json_array_foreach(json_object_get(o, "missing"), i, line) printf("missing   %s\n", json_string_value(line));
    puts("verdict   none yet: `assay store merge OUT SHARD...`, then the same command without --shard");
}

static int gather(const struct tool *t, const struct session *s, struct store *store, const struct options *o,
                  struct err *e)
{
    struct run_result r;
    if (shard_gather(s, store, o->part, o->fresh != NULL, show_progress, (void *)t, &r, e))
        return err_exit_status(e->code);
    t->json ? print_json(r.summary) : print_shard(r.summary);
    int status = r.status;
    run_result_free(&r);
    return status;
}

static json_t *work_object(const struct estimate *x, const struct work *w)
{
    return json_pack("{s:i,s:I,s:I,s:I,s:o,s:f}", "prompts", w->prompts, "tokens_fed", (json_int_t)w->fed,
                     "tokens_emitted", (json_int_t)w->emitted, "tokens_forced", (json_int_t)w->forced, "gmac",
                     w->macs > 0 ? json_real(w->macs * 1e-9) : json_null(), "seconds", estimate_seconds(x, w));
}

static void print_work(const char *what, const struct estimate *x, const struct work *w)
{
    printf("%-10s%d prompts, %lld tokens fed, %lld emitted, %lld forced", what, w->prompts, (long long)w->fed,
           (long long)w->emitted, (long long)w->forced);
    if (w->macs > 0)
        printf(", %.4g GMAC", w->macs * 1e-9);
    printf(": %.3g s\n", estimate_seconds(x, w));
}

static int estimate(const struct tool *t, const struct session *s, const struct options *o, struct err *e)
{
    struct estimate x;
    if (estimate_run(s->engine, s->golden, s->battery, s->model, o->part, &x, e))
        return err_exit_status(e->code);
    if (t->json) {
        json_t *r = json_pack("{s:s,s:s,s:s,s:I,s:o,s:o}", "model", s->golden->model, "battery", s->battery->name,
                              "arm", s->engine->arm, "memory_bytes", (json_int_t)x.memory_bytes, "all",
                              work_object(&x, &x.all), "dry_run", work_object(&x, &x.dry));
        if (o->shard) {
            json_object_set_new(r, "shard", work_object(&x, &x.shard));
            json_object_set_new(r, "largest_shard", work_object(&x, &x.largest));
        }
        print_json(r);
        json_decref(r);
        return 0;
    }
    printf("estimate  %s, %s, %s\n", s->golden->model, s->battery->name, s->engine->arm);
    print_work("all", &x, &x.all);
    if (o->shard) {
        char name[40];
        snprintf(name, sizeof name, "%.20s", o->shard);
        print_work(name, &x, &x.shard);
        print_work("largest", &x, &x.largest);
    }
    printf("memory    %.0f MiB at most, so far\ndry run   %d prompts, %.3g s, nothing stored\n",
           (double)x.memory_bytes / (1 << 20), x.dry.prompts, x.dry_seconds);
    return 0;
}

static int judge(const struct tool *t, const struct session *s, const struct options *o, const char *again,
                 struct err *e)
{
    struct run_result result;
    struct run_options ro = {.store = s->store,
                             .engine = s->engine,
                             .golden = s->golden,
                             .golden_sha256 = s->golden_sha256,
                             .battery = s->battery,
                             .model = s->model,
                             .witness = s->witness,
                             .model_sha256 = s->model_sha256,
                             .commit = s->build,
                             .again = again,
                             .strict = o->strict != NULL,
                             .fresh = o->fresh != NULL,
                             .progress = show_progress,
                             .arg = (void *)t};
    if (run_battery(&ro, &result, e))
        return err_exit_status(e->code);
    if (t->progress && result.resumed)
        fprintf(stderr, "%d prompts were answered by an earlier process\n", result.resumed);
    if (t->json) {
        print_json(result.summary);
    } else {
        struct token_text *tok = token_text_open(t, s->golden->model);
        run_text(stdout, t, result.summary, ROOTS_SHOWN, tok);
        token_text_close(tok);
    }
    int status = result.status;
    run_result_free(&result);
    return status;
}

static int run(struct tool *t, int argc, char **argv);

COMMAND(run) = {.name = "run",
                .summary = "a battery through an engine: free and forced run, verdict, exit status",
                .usage = usage,
                .order = 40,
                .run = run};

/* A shard's store needs the goldens of its model only, or none; a cluster has many such stores. */
static int open_store(const struct tool *t, const struct options *o, struct store **store, struct store **goldens,
                      struct err *e)
{
    const char *slash = strrchr(o->model, '/');
    if (!o->shard || o->estimate)
        return tool_store(t, store, e);
    int rc = store_open(t->store_path, store, e);
    if (!rc && o->goldens)
        return access(o->goldens, F_OK) ? FAIL(e, E_MISSING, "no store at %s", o->goldens)
                                        : store_open(o->goldens, goldens, e);
    return rc ? rc : store_import_model(*store, t->data_dir, slash && slash[1] ? slash + 1 : o->model, e);
}

static int run_jobs(const struct tool *t, const struct session_spec *ss, const struct options *o, struct jobs *j,
                    struct err *e)
{
    struct store *s;
    *j = (struct jobs){.spec = ss, .jobs = o->job_count, .fresh = o->fresh != NULL};
    if (tool_store(t, &s, e)) /* once, before all */
        return e->code;
    store_close(s);
    return jobs_gather(t, j, e);
}

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {0};
    const struct option_spec spec[] = {{"engine", "E", &o.engine},
                                       {"model", "M", &o.model},
                                       {"battery", "B", &o.battery},
                                       {"golden", "ARM", &o.golden},
                                       {"strict", NULL, &o.strict},
                                       {"fresh", NULL, &o.fresh},
                                       {"threads", "N", &o.threads},
                                       {"witness", "E", &o.witness},
                                       {"shard", "I/N", &o.shard},
                                       {"goldens", "STORE", &o.goldens},
                                       {"jobs", "N", &o.jobs},
                                       {"estimate", NULL, &o.estimate},
                                       {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words), *again = command_again(argc, argv);
    int status = 3, n = words ? tool_options(t, &command_run, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct session s = {0};
    struct store *store = NULL, *goldens = NULL;
    struct jobs jobs = {0};
    if (n < 0)
        goto out;
    struct session_spec ss = {o.engine, o.model, o.battery, o.golden, o.witness, words, n, 0};
    if (check(&o, &e))
        goto out;
    ss.threads = o.thread_count;
    if (o.jobs && run_jobs(t, &ss, &o, &jobs, &e))
        goto out;
    if (open_store(t, &o, &store, &goldens, &e) || session_open(t, goldens ? goldens : store, &ss, &s, &e))
        goto out;
    if (o.jobs)
        o.fresh = NULL; /* what was gathered is judged */
    status = o.estimate ? estimate(t, &s, &o, &e)
             : o.shard  ? gather(t, &s, store, &o, &e)
                        : judge(t, &s, &o, again, &e);
    if (o.jobs && !e.code)
        jobs_clear(&jobs);
out:
    if (e.code != OK)
        status = tool_fail(t, "run", &e);
    session_close(&s);
    store_close(store);
    store_close(goldens);
    free(words);
    free(again);
    return status;
}
