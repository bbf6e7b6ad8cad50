#include "kernels/mutant.h"

static void apply(struct mutation *m)
{
    m->row_shift = 1;
}

MUTANT(row_shifted_stride) = {
    .name = "row_shifted_stride", .summary = "rows of A are read one row further", .where = "gemm", .apply = apply};
