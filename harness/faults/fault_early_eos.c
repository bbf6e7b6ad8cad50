/* A sequence ends in the middle, as if the end of sequence had been seen. */
#include "harness/fault.h"

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        if (q->mode != MODE_GENERATE || a[s].n < 2)
            continue;
        a[s].n /= 2;
        a[s].view.rows = a[s].view.rows < a[s].n ? a[s].view.rows : a[s].n;
        a[s].finish = FINISH_STOP;
        changed++;
    }
    return changed;
}

FAULT(early_eos) = {.name = "early_eos",
                    .summary = "sequences end in the middle with an end of sequence",
                    .where = "adapter",
                    .answer = answer};
