/* mutants - what a battery kills, what survives, what never ran */
#include "tools/mutants.h"

#include "goldens/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_mutants;

static int wanted(const char *only, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = only; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !strncmp(p, name, n))
            return 1;
    return !only;
}

/* Every name of --only must be one. */
static int check_only(const char *only, struct err *e)
{
    struct subject x;
    for (const char *p = only; p && *p; p += strcspn(p, ","), p += *p == ',') {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ","), p);
        if (!subject_find(name, &x))
            return FAIL(e, E_USAGE, "no mutant \"%s\"; `assay mutants --list` names them", name);
    }
    return OK;
}

static void print_row(const struct subject *x, enum fate fate, const json_t *row)
{
    printf("%-22s %-12s %-22s %-14s %s%s\n", x->name, x->where, fate_name(fate),
           json_string_value(json_object_get(row, "verdict")), x->control ? "control: " : "", x->summary);
}

static int run_all(const struct tool *t, struct store *store, const struct mutants_spec *spec, const char *only,
                   json_t *list, int *bad, struct err *e)
{
    struct subject x;
    json_t *baseline = NULL;
    int total = 0, rc = mutants_baseline(t, store, spec, &baseline, e);
    while (subject_at(total, &x))
        total++;
    for (int i = 0; i < total && !rc; i++) {
        json_t *row = NULL;
        enum fate fate = FATE_NEVER_RAN;
        subject_at(i, &x);
        if (!wanted(only, x.name))
            continue;
        tool_progress(t, x.name, i, total);
        if ((rc = subject_run(t, store, spec, baseline, &x, &fate, &row, e)))
            break;
        *bad += !fate_as_it_must_be(&x, fate);
        if (!t->json)
            print_row(&x, fate, row);
        json_array_append_new(list, row);
    }
    json_decref(baseline);
    tool_progress(t, "mutants", total, total);
    return rc;
}

static void list_all(const struct tool *t)
{
    json_t *list = json_array();
    struct subject x;
    for (int i = 0; subject_at(i, &x); i++) {
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:b}", "mutant", x.name, "where", x.where, "summary",
                                              x.summary, "control", x.control));
        if (!t->json)
            printf("%-22s %-12s %s%s\n", x.name, x.where, x.control ? "control: " : "", x.summary);
    }
    if (t->json)
        json_dumpf(list, stdout, JSON_COMPACT);
    json_decref(list);
}

static void print_counts(const json_t *list, const struct mutants_spec *spec, int bad)
{
    int count[FATE_COUNT] = {0};
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) for (int f = 0; f < FATE_COUNT; f++) count[f] +=
        !strcmp(json_string_value(json_object_get(row, "fate")), fate_name((enum fate)f));
    printf("\n%s on %s: %zu mutants and controls:", spec->battery, spec->model, json_array_size(list));
    for (int f = 0; f < FATE_COUNT; f++)
        if (count[f])
            printf(" %d %s,", count[f], fate_name((enum fate)f));
    printf(" %d not as they must be (each applied and killed, the controls alive)\n", bad);
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *model = "tiny-dense-nvfp4", *battery = "smoke", *only_list = NULL, *only = NULL;
    const struct option_spec spec[] = {
        {"model", "M", &model}, {"battery", "B", &battery}, {"list", NULL, &only_list}, {"only", "NAMES", &only}, {0}};
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
    struct mutants_spec m = {.model = model, .battery = battery, .flag = words, .flags = n};
    json_t *list = json_array();
    if (!check_only(only, &e) && !tool_store(t, &store, &e))
        run_all(t, store, &m, only, list, &bad, &e);
    store_close(store);
    if (!e.code && t->json)
        json_dumpf(list, stdout, JSON_COMPACT);
    else if (!e.code)
        print_counts(list, &m, bad);
    json_decref(list);
    return e.code ? tool_fail(t, "mutants", &e) : bad != 0;
}

COMMAND(mutants) = {
    .name = "mutants",
    .summary = "what a battery kills, what survives, what never ran",
    .usage =
        "usage: assay mutants [flag=value ...] [--model tiny-dense-nvfp4] [--battery smoke] [--only A,B] [--list]\n"
        "\nRuns the battery through deliberately wrong kernels, engines, adapters and goldens, after the right "
        "engine. A mutant\n"
        "is killed by the verdict; by ids that differ though the razor excuses each; by logits that are no longer "
        "the\n"
        "oracle's bits; or, where the battery hides it, by single GEMMs on cancelling inputs (the probe). One that "
        "survives\n"
        "or never ran, and a control that dies, give exit status 1; 4 when the right engine itself does not "
        "pass.\n"
        "Options: --store FILE, --json.\n",
    .order = 40,
    .run = run,
};
