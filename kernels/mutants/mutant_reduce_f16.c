#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->reduce16 = 1;
}

MUTANT(reduce_f16) = {.name = "reduce_f16",
                      .summary = "slices are rounded to 16 bits between the adds, not kept in fp32",
                      .where = "gemm",
                      .apply = apply};
