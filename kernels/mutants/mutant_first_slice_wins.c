#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->first_slice_wins = 1;
}

MUTANT(first_slice_wins) = {
    .name = "first_slice_wins", .summary = "only the bottom slice counts", .where = "gemm", .apply = apply};
