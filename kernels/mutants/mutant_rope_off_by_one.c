#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->rope_offset = 1;
}

MUTANT(rope_off_by_one) = {.name = "rope_off_by_one",
                           .summary = "keys and queries are rotated one position further",
                           .where = "op",
                           .apply = apply};
