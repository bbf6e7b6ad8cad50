#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->swap_best = 1;
}

MUTANT(second_best) = {.name = "second_best",
                       .summary = "the second best id is emitted where it is within one step of bf16",
                       .where = "engine",
                       .apply = apply};
