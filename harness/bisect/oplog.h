/* oplog - what every op of some forward steps gave, from an engine or from a recorded trace, and where two differ */
#ifndef ASSAY_BISECT_OPLOG_H
#define ASSAY_BISECT_OPLOG_H

#include "harness/engine.h"

struct op_record {
    int step, layer; /* layer -1: not in a layer */
    char op[24];
    int rows, cols;
    uint16_t *data; /* bf16, owned */
};

struct op_log {
    struct op_record *record; /* in the order of execution */
    int n, room;
};

void op_log_free(struct op_log *l); /* zeroed is fine */

/* Feeds prompt, then the ids of `forced` one by one: one step each. E_UNSUPPORTED when the engine has no taps. */
int op_log_engine(struct engine *g, const int32_t *prompt, int prompts, const int32_t *forced, int forceds,
                  struct op_log *out, struct err *e);

/* A trace of vLLM's modules (safetensors, keys stepS/MODULE/outN). Gives the prompt ids as well (caller frees). */
int op_log_trace(const char *path, struct op_log *out, int32_t **prompt, int *prompts, struct err *e);
/* Ids that the trace fed after the prompt. */
int op_trace_forced(const char *path, int32_t **ids, int *n, struct err *e);

struct op_difference {
    const struct op_record *a, *b;
    long elements, differ;
    int max_ulp;     /* largest distance in bf16 steps; INT32_MAX where a non-finite value meets another */
    double relative; /* L2 norm of the difference over that of a; NaN where something is not finite */
};

/* Compares what both have, in a's order. Returns the number of compared ops (diff holds at most max). */
int op_log_compare(const struct op_log *a, const struct op_log *b, struct op_difference *diff, int max);

#endif
