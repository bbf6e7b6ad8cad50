/* Logits rows arrive as zeros, the ids are right. */
#include "harness/fault.h"

#include <string.h>

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        struct view *v = &a[s].view;
        memset(v->top_values, 0, (size_t)v->rows * (size_t)v->top_k * sizeof *v->top_values);
        changed += v->rows > 0;
    }
    return changed;
}

FAULT(zero_rows) = {
    .name = "zero_rows", .summary = "logits rows arrive as zeros", .where = "adapter", .answer = answer};
