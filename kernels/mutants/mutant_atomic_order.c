/* One of the orders that unordered 16-bit adds may take: the reverse of the ordered one. */
#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->reduce16 = 1;
    m->top_first = 1;
}

MUTANT(atomic_order) = {.name = "atomic_order",
                        .summary = "slices are added in 16 bits in an order that atomic adds could take",
                        .where = "gemm",
                        .apply = apply};
