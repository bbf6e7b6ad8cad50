/* mutants - runs a battery through one wrong engine, adapter or golden and says what became of it */
#ifndef ASSAY_TOOLS_MUTANTS_H
#define ASSAY_TOOLS_MUTANTS_H

#include "tools/command.h"

#include <jansson.h>

enum fate {
    FATE_BY_VERDICT, /* FAIL, NO_EVIDENCE, VOID */
    FATE_BY_IDS,     /* ids differ; the razor excuses each, --strict and the gate do not */
    FATE_BY_LOGITS,  /* logits rows are no longer the oracle's */
    FATE_BY_PROBE,   /* the battery hides it, single GEMMs on cancelling inputs do not */
    FATE_SURVIVED,
    FATE_NEVER_RAN, /* was not applied: proves nothing */
    FATE_COUNT
};

struct subject {
    const struct mutant *mutant; /* one of the two */
    const struct fault *fault;
    const char *name, *summary, *where;
    int control;
};

/* The i-th of all mutants and faults; 0 when there are fewer. */
int subject_at(int i, struct subject *x);
int subject_find(const char *name, struct subject *x);
const char *fate_name(enum fate f);
/* All killed, the controls alive. */
int fate_as_it_must_be(const struct subject *x, enum fate f);

struct mutants_spec {
    const char *model, *battery, *golden; /* golden NULL: the active one */
    char *const *flag;                    /* of the native engine */
    int flags;
};

/* The right engine first: what it is equal in, a killed mutant is not. E_MISSING: it does not pass itself. */
int mutants_baseline(const struct tool *t, struct store *store, const struct mutants_spec *spec, json_t **baseline,
                     struct err *e);

/* row: {mutant, where, summary, control, fate, verdict, run, applied, logits, probe}. New reference. */
int subject_run(const struct tool *t, struct store *store, const struct mutants_spec *spec, const json_t *baseline,
                const struct subject *x, enum fate *fate, json_t **row, struct err *e);

#endif
