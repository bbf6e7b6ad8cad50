/* bisect - where two sides part: two engines, or a recorded trace and an engine, on the same ids
 *
 * Two looks. Grown: each side computes on its own; the first op that differs is the first place where the sides part,
 * and after it one sees how the difference grows. Same: one side's every op is fed what the other's ops gave, so that
 * an op is listed only when it gives other bytes for the same inputs; that op itself is wrong.
 */
#ifndef ASSAY_BISECT_BISECT_H
#define ASSAY_BISECT_BISECT_H

#include "harness/bisect/trace.h"

struct bisect_job {
    struct engine *a; /* NULL: `trace` is the one side */
    const struct trace *trace;
    struct engine *b;
    const int32_t *prompt; /* of a trace: its own */
    int prompts;
    int steps;   /* forward steps that are looked into, the prompt's included; a trace has its own */
    int max_new; /* ids that engines emit on their own, to find what no op shows; 0: not looked at */
};

struct bisect {
    struct op_log a, b, fed; /* a is not filled when a trace stands there */
    struct op_difference *grown, *same;
    int growns, sames;
    int first;            /* index into grown, -1: no op differs */
    int fed_is_a;         /* the side that was fed is a, because b cannot be */
    int could_feed;       /* one of them could */
    int unrecorded;       /* ops whose inputs the other side's log does not hold */
    int alone_a, alone_b; /* ops that only one side shows */
    int free_run;         /* grown is of a free run: forced to the same ids, no op differed */
    struct stream emit_a, emit_b;
    int emission;    /* first emitted id that differs, also by its absence; -1: none */
    int32_t *forced; /* ids that were fed after the prompt */
    int forceds;
};

/* Caller frees, also after a failure. E_MISSING: nothing that both sides show. */
int bisect_run(const struct bisect_job *j, struct bisect *b, struct err *e);
void bisect_free(struct bisect *b); /* zeroed is fine */

static inline int bisect_found(const struct bisect *b)
{
    return b->first >= 0 || b->emission >= 0;
}

/* What the ops that give other bytes for the same inputs have in common: one entry a kind of op. */
struct bisect_kind {
    const char *op;
    int wrong, all; /* places */
    int max_ulp;
    const struct op_difference *first;
};

/* Kinds in order of their first wrong place; returns how many (at most max). */
int bisect_kinds(const struct bisect *b, struct bisect_kind *k, int max);

#endif
