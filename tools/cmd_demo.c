/* assay demo - the shipped models by the routes that apply, judged against the shipped goldens, in one table */
#include "tools/run_text.h"
#include "tools/session.h"

#include "goldens/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: assay demo [--battery B] [--all]\n"
    "\n"
    "Runs the batteries smoke and strict on the six shipped models with the native CPU engine, by every route, "
    "against\n"
    "goldens captured with vLLM on an H200. Route dense is what the oracle ran (experts are grouped in both): its "
    "rows\n"
    "decide the exit status. The other routes sum in another order and are shown for comparison.\n"
    "\n"
    "  --battery B   only that battery\n"
    "  --all         route par1 on strict too\n"
    "\n"
    "Exit status: 0 when every row of route dense is PASS, else the status of the worst one.\n";

static const char *const models[] = {"tiny-dense-nvfp4", "tiny-dense-mxfp4", "tiny-dense-int4g128",
                                     "tiny-moe-nvfp4",   "tiny-moe-mxfp4",   "tiny-moe-int4g128"};
static const char *const routes[] = {"dense", "grouped", "par1"};
static const char *const batteries[] = {"smoke", "strict"};

static int run(struct tool *t, int argc, char **argv);

COMMAND(demo) = {.name = "demo",
                 .summary = "the shipped models by every route, in one table",
                 .usage = usage,
                 .order = 2,
                 .run = run};

static long num(const json_t *o, const char *key)
{
    return (long)json_integer_value(json_object_get(o, key));
}

static void print_head(void)
{
    printf("%-20s %-7s %-8s %7s %11s %10s %6s %9s %6s  %-13s  %s\n", "model", "battery", "route", "prompts", "tokens",
           "logits", "roots", "worst nat", "ULP", "verdict", "counters");
}

/* Quantised layers by route, where any ran or should have. */
static void print_counters(const json_t *counters)
{
    const char *name;
    json_t *c;
    json_object_foreach((json_t *)counters, name, c)
    {
        int routed = strstr(name, "gemms") && strcmp(name, "plain_gemms");
        if (routed && (num(c, "ran") || num(c, "expected")))
            printf("  %s=%ld (expected %ld)", name, num(c, "ran"), num(c, "expected"));
    }
    putchar('\n');
}

/* The widest gap of the free and the forced run. */
static double widest(const json_t *o, const char *key)
{
    double forced = json_number_value(json_object_get(json_object_get(o, "forced"), key));
    return fmax(json_number_value(json_object_get(o, key)), forced);
}

static void print_row(const struct tool *t, const char *route, const json_t *o)
{
    const char *verdict = json_string_value(json_object_get(o, "verdict"));
    const json_t *logits = json_object_get(o, "logits");
    char prompts[32], tokens[32], rows[48];
    snprintf(prompts, sizeof prompts, "%ld/%ld", num(o, "prompts_exact"), num(o, "prompts"));
    snprintf(tokens, sizeof tokens, "%ld/%ld", num(o, "tokens_equal"), num(o, "tokens"));
    snprintf(rows, sizeof rows, "%ld/%ld", num(logits, "decode_rows_equal") + num(logits, "prefill_rows_equal"),
             num(logits, "decode_rows") + num(logits, "prefill_rows"));
    printf("%-20s %-7s %-8s %7s %11s %10s %6zu %9.5g %6.3g  ", json_string_value(json_object_get(o, "model")),
           json_string_value(json_object_get(o, "battery")), route, prompts, tokens, rows,
           json_array_size(json_object_get(o, "roots")), widest(o, "worst_gap_nats"), widest(o, "worst_gap_ulp"));
    run_text_verdict(stdout, t, verdict);
    printf("%*s", strlen(verdict) < 13 ? (int)(13 - strlen(verdict)) : 0, "");
    print_counters(json_object_get(o, "counters"));
    fflush(stdout);
}

static int run_one(const struct tool *t, struct store *store, int model, int battery, int route, json_t **summary,
                   enum run_verdict *v, struct err *e)
{
    char flag[32], again[160], *flags[] = {flag};
    struct session s = {0};
    struct run_result result = {0};
    snprintf(flag, sizeof flag, "route=%s", routes[route]);
    snprintf(again, sizeof again, "assay run --engine native %s --model %s --battery %s", flag, models[model],
             batteries[battery]);
    struct session_spec spec = {
        .engine = "native", .model = models[model], .battery = batteries[battery], .flag = flags, .flags = 1};
    int rc = session_open(t, store, &spec, &s, e);
    struct run_options o = {.store = store,
                            .engine = s.engine,
                            .golden = s.golden,
                            .golden_sha256 = s.golden_sha256,
                            .battery = s.battery,
                            .model = s.model,
                            .model_sha256 = s.model_sha256,
                            .commit = s.build,
                            .again = again};
    if (rc == OK && (rc = run_battery(&o, &result, e)) == OK) {
        *summary = json_incref(result.summary);
        *v = result.judgement.verdict;
    }
    run_result_free(&result);
    session_close(&s);
    return rc;
}

/* par1 differs from grouped by its clamp alone; the short battery shows it. */
static int routes_on(int battery, int all)
{
    return battery == 0 || all ? 3 : 2;
}

static int judge_all(const struct tool *t, struct store *store, const char *only, int all, json_t *list, int *status,
                     struct err *e)
{
    int done = 0, total = 0;
    for (int b = 0; b < 2; b++)
        total += !only || !strcmp(only, batteries[b]) ? 6 * routes_on(b, all) : 0;
    for (int b = 0; b < 2; b++)
        for (int m = 0; m < 6 && (!only || !strcmp(only, batteries[b])); m++)
            for (int r = 0; r < routes_on(b, all); r++) {
                json_t *o = NULL;
                enum run_verdict v = RV_NO_EVIDENCE;
                tool_progress(t, models[m], done, total);
                if (run_one(t, store, m, b, r, &o, &v, e))
                    return e->code;
                done++;
                if (r == 0 && v != RV_PASS && run_verdict_exit_status(v, 1) > *status)
                    *status = run_verdict_exit_status(v, 1);
                if (!t->json)
                    print_row(t, routes[r], o);
                json_array_append_new(list, o);
            }
    return OK;
}

static void print_foot(const json_t *list, int status)
{
    const json_t *worst = NULL, *o;
    size_t i;
    json_array_foreach((json_t *)list, i, o)
    {
        if (!worst || json_array_size(json_object_get(o, "roots")) > json_array_size(json_object_get(worst, "roots")))
            worst = o;
    }
    printf("\nlogits: rows whose stored values equal the oracle's in every bit, decode-shaped and prefill-shaped.\n"
           "Route dense is what the oracle ran; grouped and par1 sum in another order, and the razor weighs what\n"
           "comes out differently. %s\n\n",
           status ? "NOT every row of route dense is PASS." : "Every row of route dense is PASS.");
    printf("look closer:  assay list\n");
    if (worst && json_array_size(json_object_get(worst, "roots"))) {
        const json_t *root = json_array_get(json_object_get(worst, "roots"), 0);
        printf("              assay show %ld\n              assay explain %ld %s\n", num(worst, "run"),
               num(worst, "run"), json_string_value(json_object_get(root, "prompt")));
    }
    printf("              assay run --engine native route=dense --model %s --battery strict\n", models[0]);
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *only = NULL, *all = NULL;
    const struct option_spec spec[] = {{"battery", "B", &only}, {"all", NULL, &all}, {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words);
    int status = 3, n = words ? tool_options(t, &command_demo, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    struct store *store = NULL;
    json_t *list = json_array();
    if (n < 0)
        goto out;
    status = 0;
    if (n)
        FAIL(&e, E_USAGE, "unexpected word \"%s\"", words[0]);
    else if (only && strcmp(only, batteries[0]) && strcmp(only, batteries[1]))
        FAIL(&e, E_USAGE, "--battery %s: must be smoke or strict", only);
    if (e.code == OK && tool_store(t, &store, &e) == OK) {
        if (!t->json)
            print_head();
        judge_all(t, store, only, all != NULL, list, &status, &e);
    }
    if (e.code)
        status = tool_fail(t, "demo", &e);
    else if (t->json)
        json_dumpf(list, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17)), putchar('\n');
    else
        print_foot(list, status);
out:
    json_decref(list);
    store_close(store);
    free(words);
    return status;
}
