/* oplog - what every op of some forward steps gave, from an engine or from a recorded trace, and where two differ */
#ifndef ASSAY_BISECT_OPLOG_H
#define ASSAY_BISECT_OPLOG_H

#include "harness/engine.h"

struct op_record {
    int step, layer; /* layer -1: not in a layer */
    char op[24];
    int rows, cols;
    int same_inputs; /* everything that it read was fed from another log */
    uint16_t *data;  /* bf16, owned */
};

struct op_log {
    struct op_record *record; /* in the order of execution */
    int n, room;
};

void op_log_free(struct op_log *l); /* zeroed is fine */

/* Adds a copy of the record; data may be NULL for what nobody looked at. */
int op_log_add(struct op_log *l, const struct op_record *r, struct err *e);

/* Feeds prompt, then the ids of `forced` one by one: one step each. With `feed` (NULL: none) every op's output is
 * recorded and then replaced by what it is in that log, so that each op reads the other side's values. E_UNSUPPORTED
 * when the engine has no taps, or cannot be fed. */
int op_log_engine(struct engine *g, const int32_t *prompt, int prompts, const int32_t *forced, int forceds,
                  const struct op_log *feed, struct op_log *out, struct err *e);

/* Lets the engine decode on its own; out NULL is fine. Caller frees both. */
int op_log_free_run(struct engine *g, const int32_t *prompt, int prompts, int max_new, struct op_log *out,
                    struct stream *emitted, struct err *e);

struct op_difference {
    const struct op_record *a, *b;
    int other_shape; /* rows or columns differ: nothing below is counted */
    long elements, differ;
    long first;      /* element that differs first; -1: none */
    int max_ulp;     /* largest distance in bf16 steps; INT32_MAX where a non-finite value meets another */
    double relative; /* L2 norm of the difference over that of a; NaN where something is not finite */
};

/* Compares what both have, in b's order. Returns the number of compared ops (diff holds at most max). */
int op_log_compare(const struct op_log *a, const struct op_log *b, struct op_difference *diff, int max);

static inline int op_differs(const struct op_difference *d)
{
    return d->other_shape || d->differ;
}

#endif
