#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->drop_bos = 1;
}

MUTANT(dropped_bos) = {
    .name = "dropped_bos", .summary = "the first id of a prompt is not fed", .where = "engine", .apply = apply};
