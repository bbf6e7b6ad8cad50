#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->early_stop = 1;
}

MUTANT(early_stop) = {.name = "early_stop", .summary = "sequences end one id early", .where = "engine", .apply = apply};
