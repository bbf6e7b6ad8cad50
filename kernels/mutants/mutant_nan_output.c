#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->nan_output = 1;
}

MUTANT(nan_output) = {
    .name = "nan_output", .summary = "one element of every GEMM is NaN", .where = "gemm", .apply = apply};
