/* The inverted control of adapters: every answer passes through and stays what it is. */
#include "harness/fault.h"

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        changed += a[s].n > 0;
    }
    return changed;
}

FAULT(adapter_control) = {.name = "adapter_control",
                          .summary = "applied to every answer, changes nothing",
                          .where = "adapter",
                          .control = 1,
                          .answer = answer};
