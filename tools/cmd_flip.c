/* flip - may this default change? The gate: gathers the evidence, says what is missing, and edits only on a yes */
#include "tools/gate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command command_flip;

static const char *text(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

/* Flags that were flipped, newest first. */
static int recent_flips(const struct gate *g, const char **name, int max, json_t **ledger, struct err *e)
{
    int n = 0;
    if (store_ledger_list(g->store, "flip", ledger, e))
        return 0;
    for (size_t i = json_array_size(*ledger); i > 0 && n < max; i--) {
        const json_t *w = json_object_get(json_array_get(*ledger, i - 1), "what");
        if (json_is_true(json_object_get(w, "applied")))
            name[n++] = text(w, "flag");
    }
    return n;
}

static int begin(struct gate *g, const char *word, const char *policy, struct err *e)
{
    const char *recent[32];
    json_t *ledger = NULL;
    if (flags_read(g->tool->data_dir, &g->flags, e) || flags_parse(&g->flags, word, &g->flag, &g->on, e) ||
        flags_may_flip(g->flag, g->on, e) || policy_read(g->tool->data_dir, policy, &g->policy, e))
        return e->code;
    if (!policy_has(&g->policy, g->flag))
        return FAIL(e, E_USAGE, "policy %s is about %s, which has no flag %s", g->policy.name, g->policy.engine,
                    g->flag->name);
    if (tool_store(g->tool, &g->store, e))
        return e->code;
    int n = recent_flips(g, recent, 32, &ledger, e);
    g->sets = gate_sets(&g->flags, &g->policy, g->flag, g->on, recent, n, g->set);
    json_decref(ledger);
    return e->code;
}

/* Parity on every set; what is about the whole engine on the prospective defaults alone. */
static int gather(struct gate *g, struct err *e)
{
    static int (*const whole[CHECK_COUNT])(struct gate *, const struct gate_set *, struct err *) = {
        [CHECK_DETERMINISM] = gate_determinism, [CHECK_GRAPH] = gate_graph,   [CHECK_BATCH] = gate_batch,
        [CHECK_MUTANTS] = gate_mutants,         [CHECK_MEMORY] = gate_memory, [CHECK_BENCH] = gate_bench};
    for (int i = 0; i < g->sets; i++)
        if (gate_parity(g, &g->set[i], e))
            return e->code;
    for (int c = 0; c < CHECK_COUNT; c++) {
        if (g->policy.not_applicable[c]) {
            struct gate_item *i = gate_add(g, (enum gate_check)c, &g->set[0], "", e);
            if (!i)
                return e->code;
            gate_say(i, OUTCOME_NOT_APPLICABLE, "%s", g->policy.not_applicable[c]);
        } else if (whole[c] && whole[c](g, &g->set[0], e)) {
            return e->code;
        }
    }
    return OK;
}

static int decide(const struct gate *g)
{
    enum outcome o[GATE_ITEMS];
    for (int i = 0; i < g->items; i++)
        o[i] = g->item[i].outcome;
    return gate_decide(o, g->items);
}

static json_t *items_json(const struct gate *g)
{
    json_t *list = json_array();
    for (int k = 0; k < g->items; k++) {
        const struct gate_item *i = &g->item[k];
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s,s:b,s:I,s:s}", "check", gate_check_name(i->check),
                                              "set", i->set, "about", i->about, "outcome", outcome_name(i->outcome),
                                              "reused", i->reused, "run_number", (json_int_t)i->run, "text", i->text));
    }
    return list;
}

/* A sentence for each thing that stands in the way. */
static json_t *missing_json(const struct gate *g)
{
    json_t *list = json_array();
    for (int k = 0; k < g->items; k++) {
        const struct gate_item *i = &g->item[k];
        char line[900];
        if (i->outcome == OUTCOME_OK || i->outcome == OUTCOME_NOT_APPLICABLE)
            continue;
        snprintf(line, sizeof line, "%s, %s, %s: %s: %s", gate_check_name(i->check), i->set, i->about,
                 outcome_name(i->outcome), i->text);
        json_array_append_new(list, json_string(line));
    }
    return list;
}

static void print_table(const struct gate *g)
{
    printf("flip      %s: %s -> %s\npolicy    %s: %s\nflags     %s\n\n", g->flag->name, flag_value(g->flag->on),
           flag_value(g->on), g->policy.name, g->policy.summary, g->flags.path);
    printf("%-12s %-24s %-26s %-14s %s\n", "check", "flags", "about", "outcome", "evidence");
    for (int k = 0; k < g->items; k++) {
        const struct gate_item *i = &g->item[k];
        printf("%-12s %-24s %-26s %-14s %s%s\n", gate_check_name(i->check), i->set, i->about, outcome_name(i->outcome),
               i->text, i->reused ? " [from the store]" : "");
    }
}

static int confirmed(const struct gate *g)
{
    char line[16] = "";
    if (!isatty(STDIN_FILENO) || g->tool->json)
        return 0;
    printf("\nchange the default of %s to %s in %s? [y/N] ", g->flag->name, flag_value(g->on), g->flags.path);
    fflush(stdout);
    return fgets(line, sizeof line, stdin) && (line[0] == 'y' || line[0] == 'Y');
}

/* The ledger first: what it granted and the file does not say yet, the same command finishes. */
static int conclude(struct gate *g, int status, int apply, const char *by, json_t **row, struct err *e)
{
    json_t *set = json_object();
    for (int k = 0; k < g->flags.flags; k++)
        if (policy_has(&g->policy, &g->flags.flag[k]))
            json_object_set_new(set, g->flags.flag[k].name, json_string(flag_value(g->set[0].on[k])));
    *row = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:b,s:o,s:o,s:o}", "flag", g->flag->name, "from",
                     flag_value(g->flag->on), "to", flag_value(g->on), "decision", status ? "refused" : "granted",
                     "policy", g->policy.name, "policy_sha256", g->policy.sha256, "by", by, "applied", apply,
                     "defaults", set, "evidence", items_json(g), "missing", missing_json(g));
    int rc = *row ? store_ledger_add(g->store, "flip", *row, e) : FAIL(e, E_NOMEM, "out of memory");
    return rc || !apply ? rc : flags_flip(&g->flags, g->flag, g->on, e);
}

static void print_end(const struct gate *g, const json_t *row, int status, int applied)
{
    json_t *m;
    size_t i;
    if (status)
        printf("\nREFUSED, exit status %d; in the way:\n", status);
    json_array_foreach(json_object_get(row, "missing"), i, m) printf("  %s\n", json_string_value(m));
    if (!status && applied)
        printf("\nGRANTED: %s is %s by default now; %s\n", g->flag->name, flag_value(g->on), g->flags.path);
    else if (!status)
        printf("\nGRANTED, and nothing is changed without a yes (--yes)\n");
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *policy = "cpu", *yes = NULL, *by = "";
    const struct option_spec spec[] = {{"policy", "P", &policy}, {"yes", NULL, &yes}, {"by", "WHO", &by}, {0}};
    char *words[64];
    int status, n = argc <= 64 ? tool_options(t, &command_flip, argc, argv, spec, words, &status) : -1, apply = 0;
    struct err e = {0};
    json_t *row = NULL;
    struct gate *g = n < 0 ? NULL : calloc(1, sizeof *g);
    if (!g)
        return n < 0 && argc <= 64 ? status : 2;
    g->tool = t;
    status = 3;
    if (n != 1)
        FAIL(&e, E_USAGE, "one FLAG=VALUE is expected");
    else if (!begin(g, words[0], policy, &e) && !gather(g, &e)) {
        status = decide(g);
        if (!t->json)
            print_table(g);
        apply = !status && (yes || confirmed(g));
        if (!conclude(g, status, apply, by, &row, &e) && !t->json)
            print_end(g, row, status, apply);
        else if (!e.code)
            json_dumpf(row, stdout, JSON_COMPACT), putchar('\n');
    }
    json_decref(row);
    store_close(g->store);
    policy_free(&g->policy);
    flags_free(&g->flags);
    free(g);
    return e.code ? tool_fail(t, "flip", &e) : status;
}

COMMAND(flip) = {
    .name = "flip",
    .summary = "the gate: may this default change?",
    .usage =
        "usage: assay flip FLAG=on|off [--policy P] [--by WHO] [--yes]\n"
        "\n"
        "Takes the defaults with FLAG changed, alone and paired with flags that were flipped lately, through "
        "everything that\n"
        "policy P (batteries/policies/P.json, default cpu) asks for. Evidence of this build, model, battery and "
        "golden that\n"
        "the store holds is reused, the rest is made and stored piece by piece: a gate that was killed goes on "
        "where it\n"
        "stopped. The decision and its evidence become a ledger row. batteries/flags.json is edited only when it is "
        "granted\n"
        "and the answer is yes.\n"
        "\n"
        "Exit status: 0 granted, 1 refused: something failed, 2 usage (also a flag that cannot be flipped), 3 "
        "error,\n"
        "4 refused: evidence is missing or not ratified, 5 refused: a measurement is VOID.\n",
    .order = 60,
    .run = run,
};
