/* The adapter leaves out the first id of a prompt. */
#include "harness/fault.h"

static int ask(struct engine_request *q, struct sequence *seq)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        int drop = seq[s].prompts > 1;
        seq[s].prompt += drop;
        seq[s].prompts -= drop;
        changed += drop;
    }
    return changed;
}

FAULT(adapter_dropped_bos) = {.name = "adapter_dropped_bos",
                              .summary = "the adapter leaves out the first id of a prompt",
                              .where = "adapter",
                              .ask = ask};
