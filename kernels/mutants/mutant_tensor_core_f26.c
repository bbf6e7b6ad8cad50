#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->fraction = 1;
}

MUTANT(tensor_core_f26) = {.name = "tensor_core_f26",
                           .summary = "the tensor core keeps 26 bits below the largest exponent",
                           .where = "tensor_core",
                           .apply = apply};
