/* Each logits row is that of the position after it. */
#include "harness/fault.h"

#include <string.h>

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        struct view *v = &a[s].view;
        size_t k = (size_t)v->top_k, rows = v->rows > 1 ? (size_t)v->rows - 1 : 0;
        memmove(v->top_ids, v->top_ids + k, rows * k * sizeof *v->top_ids);
        memmove(v->top_values, v->top_values + k, rows * k * sizeof *v->top_values);
        memmove(v->logsumexp, v->logsumexp + 1, rows * sizeof *v->logsumexp);
        changed += rows > 0;
    }
    return changed;
}

FAULT(row_of_next_position) = {.name = "row_of_next_position",
                               .summary = "logits rows are those of the next position",
                               .where = "adapter",
                               .answer = answer};
