#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->fraction = -1;
}

MUTANT(tensor_core_f24) = {.name = "tensor_core_f24",
                           .summary = "the tensor core keeps 24 bits below the largest exponent",
                           .where = "tensor_core",
                           .apply = apply};
