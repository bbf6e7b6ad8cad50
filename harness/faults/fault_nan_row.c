/* One value of every logits list is NaN, the ids are right. */
#include "harness/fault.h"

#include <math.h>

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        struct view *v = &a[s].view;
        for (int i = 0; i < v->rows && v->top_k; i++)
            v->top_values[(size_t)i * (size_t)v->top_k] = NAN;
        changed += v->rows > 0 && v->top_k;
    }
    return changed;
}

FAULT(nan_row) = {
    .name = "nan_row", .summary = "the largest logit of every row is NaN", .where = "adapter", .answer = answer};
