#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->global_after = 1;
}

MUTANT(global_after_rounding) = {.name = "global_after_rounding",
                                 .summary = "the NVFP4 global scale is multiplied after the 16-bit rounding",
                                 .where = "gemm",
                                 .apply = apply};
