/* At the position where the two best are furthest apart the second best is emitted: a root no razor excuses. */
#include "harness/fault.h"

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        struct view *v = &a[s].view;
        int at = -1;
        float widest = 0;
        for (int i = 0; i < v->rows && v->top_k > 1 && q->mode == MODE_GENERATE; i++) {
            const float *x = v->top_values + (size_t)i * (size_t)v->top_k;
            if (x[0] - x[1] > widest) {
                widest = x[0] - x[1];
                at = i;
            }
        }
        if (at < 0)
            continue;
        a[s].ids[at] = v->top_ids[(size_t)at * (size_t)v->top_k + 1];
        changed++;
    }
    return changed;
}

FAULT(swap_best) = {.name = "swap_best",
                    .summary = "the two best are swapped at a root, where they are furthest apart",
                    .where = "adapter",
                    .answer = answer};
