/* The inverted control: it is applied everywhere and changes nothing, so it must survive. */
#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    (void)m;
}

MUTANT(control) = {
    .name = "control", .summary = "applied, changes nothing", .where = "gemm", .control = 1, .apply = apply};
