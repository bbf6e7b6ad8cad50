/* assay run - a battery through an engine, judged against a golden */
#include "tools/run_text.h"
#include "tools/session.h"

#include "goldens/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOTS_SHOWN 10

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
    "\n"
    "Exit status: 0 PASS or PASS_BY_RAZOR, 1 FAIL, 2 usage, 3 error, 4 NO_EVIDENCE, 5 VOID.\n";

struct options {
    const char *engine, *model, *battery, *golden, *strict, *fresh, *threads, *witness;
};

static void show_progress(void *arg, int done, int total)
{
    tool_progress(arg, "prompts", done, total);
}

/* The command line again, quoted where a shell would need it. */
static char *command_again(int argc, char **argv)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f)
        return NULL;
    fputs("assay", f);
    for (int i = 0; i < argc; i++) {
        const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
        if (*argv[i] && strspn(argv[i], plain) == strlen(argv[i])) {
            fprintf(f, " %s", argv[i]);
            continue;
        }
        fputs(" '", f);
        for (const char *c = argv[i]; *c; c++)
            fprintf(f, *c == '\'' ? "'\\''" : "%c", *c);
        fputc('\'', f);
    }
    fclose(f);
    return text;
}

static int check(const struct options *o, int *threads, struct err *e)
{
    char *end = "";
    if (!o->engine || !o->model || !o->battery)
        return FAIL(e, E_USAGE, "--engine, --model and --battery are needed; `assay run --help` explains them");
    long n = o->threads ? strtol(o->threads, &end, 10) : 0;
    if (*end || n < 0 || n > 1024)
        return FAIL(e, E_USAGE, "--threads %s: a number from 0 to 1024 is needed", o->threads);
    *threads = (int)n;
    return OK;
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
    if (t->json) {
        json_dumpf(result.summary, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
        putchar('\n');
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

static int run(struct tool *t, int argc, char **argv)
{
    struct options o = {0};
    const struct option_spec spec[] = {
        {"engine", "E", &o.engine},   {"model", "M", &o.model},     {"battery", "B", &o.battery},
        {"golden", "ARM", &o.golden}, {"strict", NULL, &o.strict},  {"fresh", NULL, &o.fresh},
        {"threads", "N", &o.threads}, {"witness", "E", &o.witness}, {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words), *again = command_again(argc, argv);
    int status = 3, n = words ? tool_options(t, &command_run, argc, argv, spec, words, &status) : -1, threads = 0;
    struct err e = {0};
    struct session s = {0};
    struct store *store = NULL;
    if (n < 0)
        goto out;
    struct session_spec ss = {o.engine, o.model, o.battery, o.golden, o.witness, words, n, 0};
    if (check(&o, &threads, &e) || tool_store(t, &store, &e))
        goto out;
    ss.threads = threads;
    if (session_open(t, store, &ss, &s, &e))
        goto out;
    status = judge(t, &s, &o, again, &e);
out:
    if (e.code != OK)
        status = tool_fail(t, "run", &e);
    session_close(&s);
    store_close(store);
    free(words);
    free(again);
    return status;
}
