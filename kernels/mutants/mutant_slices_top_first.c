#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->top_first = 1;
}

MUTANT(slices_top_first) = {
    .name = "slices_top_first", .summary = "slices are combined smallest k first", .where = "gemm", .apply = apply};
