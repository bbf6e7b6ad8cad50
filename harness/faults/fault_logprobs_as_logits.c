/* Log-probabilities are handed over as if they were logits. */
#include "harness/fault.h"

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        struct view *v = &a[s].view;
        for (int i = 0; i < v->rows * v->top_k; i++)
            v->top_values[i] -= (float)v->logsumexp[i / v->top_k];
        changed += v->rows > 0;
    }
    return changed;
}

FAULT(logprobs_as_logits) = {.name = "logprobs_as_logits",
                             .summary = "log-probabilities are handed over as logits",
                             .where = "adapter",
                             .answer = answer};
