#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->scale_group = 1;
}

MUTANT(scale_of_next_group) = {
    .name = "scale_of_next_group", .summary = "scales come from the next group", .where = "weight", .apply = apply};
