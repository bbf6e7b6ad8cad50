#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->fold_left = 1;
}

MUTANT(fold_left) = {.name = "fold_left", .summary = "warp rows fold from the left", .where = "gemm", .apply = apply};
