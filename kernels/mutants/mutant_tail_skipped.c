#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->skip_tail = 1;
}

MUTANT(tail_skipped) = {
    .name = "tail_skipped", .summary = "the last block of k is dropped", .where = "gemm", .apply = apply};
