/* Emitted ids are read one position late, as an adapter does that takes the token after the one asked for. */
#include "harness/fault.h"

#include <string.h>

static int answer(const struct engine_request *q, struct stream *a)
{
    int changed = 0;
    for (int s = 0; s < q->seqs; s++) {
        if (q->mode != MODE_GENERATE || a[s].n < 2)
            continue;
        memmove(a[s].ids, a[s].ids + 1, (size_t)(a[s].n - 1) * sizeof *a[s].ids);
        changed++;
    }
    return changed;
}

FAULT(shift_by_one) = {
    .name = "shift_by_one", .summary = "emitted ids are read one position late", .where = "adapter", .answer = answer};
