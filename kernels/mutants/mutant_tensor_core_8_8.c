#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->narrow_steps = 1;
}

MUTANT(tensor_core_8_8) = {.name = "tensor_core_8_8",
                           .summary = "the tensor core adds 8 and 8 products",
                           .where = "tensor_core",
                           .apply = apply};
