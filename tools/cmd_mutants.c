/* mutants - what a battery kills, what survives, what never ran */
#include "kernels/mutant.h"
#include "tools/command.h"
#include "tools/session.h"

#include <stdio.h>
#include <string.h>

extern const struct command command_mutants;

enum fate { BY_VERDICT, BY_LOGITS, SURVIVED, NEVER_RAN };

static const char *const fates[] = {"killed by the verdict", "killed by the logits", "SURVIVED", "NEVER RAN"};

static long figure(const json_t *o, const char *group, const char *key)
{
    return (long)json_integer_value(json_object_get(json_object_get(o, group), key));
}

static enum fate fate_of(const json_t *o, const char *verdict)
{
    const json_t *applied = json_object_get(json_object_get(o, "counters"), "mutant_applied");
    if (json_integer_value(json_object_get(applied, "ran")) <= 0)
        return NEVER_RAN;
    if (strcmp(verdict, "PASS") && strcmp(verdict, "PASS_BY_RAZOR"))
        return BY_VERDICT;
    if (figure(o, "logits", "decode_rows_equal") < figure(o, "logits", "decode_rows") ||
        figure(o, "logits", "prefill_rows_equal") < figure(o, "logits", "prefill_rows"))
        return BY_LOGITS;
    return SURVIVED;
}

static int run_one(const struct tool *t, struct store *store, const char *model, const char *battery,
                   const struct mutant *m, json_t **row, enum fate *fate, struct err *e)
{
    char flag[100], again[300], *flags[] = {flag};
    struct session s = {0};
    struct run_result r = {0};
    snprintf(flag, sizeof flag, "mutant=%s", m->name);
    snprintf(again, sizeof again, "assay run --engine native %s --model %s --battery %s", flag, model, battery);
    struct session_spec spec = {.engine = "native", .model = model, .battery = battery, .flag = flags, .flags = 1};
    int rc = session_open(t, store, &spec, &s, e);
    struct run_options o = {.store = store,
                            .engine = s.engine,
                            .golden = s.golden,
                            .golden_sha256 = s.golden_sha256,
                            .battery = s.battery,
                            .model = s.model,
                            .model_sha256 = s.model_sha256,
                            .commit = s.build,
                            .again = again,
                            .fresh = 1};
    if (!rc && !(rc = run_battery(&o, &r, e))) {
        const char *verdict = run_verdict_name(r.judgement.verdict);
        *fate = fate_of(r.summary, verdict);
        *row = json_pack("{s:s,s:s,s:s,s:b,s:s,s:s,s:I,s:O}", "mutant", m->name, "where", m->where, "summary",
                         m->summary, "control", m->control, "fate", fates[*fate], "verdict", verdict, "run",
                         (json_int_t)r.run, "logits", json_object_get(r.summary, "logits"));
    }
    run_result_free(&r);
    session_close(&s);
    return rc;
}

static int run_all(const struct tool *t, struct store *store, const char *model, const char *battery, json_t *list,
                   int *bad, struct err *e)
{
    int total = 0;
    for (int i = 0; mutant_all[i]; i++)
        total++;
    for (int i = 0; mutant_all[i]; i++) {
        const struct mutant *m = mutant_all[i];
        json_t *row = NULL;
        enum fate fate = NEVER_RAN;
        tool_progress(t, m->name, i, total);
        if (run_one(t, store, model, battery, m, &row, &fate, e))
            return e->code;
        *bad += m->control ? fate != SURVIVED : fate == SURVIVED || fate == NEVER_RAN;
        if (!t->json)
            printf("%-24s %-12s %-22s %-14s %s\n", m->name, m->where, fates[fate],
                   json_string_value(json_object_get(row, "verdict")), m->summary);
        json_array_append_new(list, row);
    }
    tool_progress(t, "mutants", total, total);
    return OK;
}

static void list_all(const struct tool *t)
{
    json_t *list = json_array();
    for (int i = 0; mutant_all[i]; i++) {
        const struct mutant *m = mutant_all[i];
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:b}", "mutant", m->name, "where", m->where, "summary",
                                              m->summary, "control", m->control));
        if (!t->json)
            printf("%-24s %-12s %s\n", m->name, m->where, m->summary);
    }
    if (t->json)
        json_dumpf(list, stdout, JSON_COMPACT);
    json_decref(list);
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *model = "tiny-dense-nvfp4", *battery = "smoke", *only_list = NULL;
    const struct option_spec spec[] = {
        {"model", "M", &model}, {"battery", "B", &battery}, {"list", NULL, &only_list}, {0}};
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_mutants, argc, argv, spec, words, &status) : -1, bad = 0;
    struct err e = {0};
    struct store *store = NULL;
    if (n < 0)
        return argc <= 64 ? status : 2;
    if (only_list) {
        list_all(t);
        return 0;
    }
    json_t *list = json_array();
    if (n)
        FAIL(&e, E_USAGE, "no words are expected");
    else if (!tool_store(t, &store, &e))
        run_all(t, store, model, battery, list, &bad, &e);
    store_close(store);
    if (!e.code && t->json)
        json_dumpf(list, stdout, JSON_COMPACT);
    else if (!e.code)
        printf("\n%s on %s: %zu mutants, %d not as they must be (all killed, the control alive)\n", battery, model,
               json_array_size(list), bad);
    json_decref(list);
    return e.code ? tool_fail(t, "mutants", &e) : bad != 0;
}

COMMAND(mutants) = {
    .name = "mutants",
    .summary = "what a battery kills, what survives, what never ran",
    .usage = "usage: assay mutants [--model tiny-dense-nvfp4] [--battery smoke] [--list]\n"
             "\nRuns the battery through deliberately wrong engines. A mutant is killed by the verdict, or by logits "
             "that are no\n"
             "longer the oracle's bits; one that survives or never ran, and a control that dies, give exit status 1.\n"
             "Options: --store FILE, --json.\n",
    .order = 40,
    .run = run,
};
