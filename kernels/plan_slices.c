/* plan_slices - who sums which part of a tile; the GPU's part shares this file, so it depends on nothing else */
#include "kernels/plan.h"

int plan_slices(const struct gemm_launch *l, int tile, struct gemm_slice *out, int max)
{
    int whole = l->dp * l->grid;
    if (tile < whole) {
        if (max > 0)
            out[0] = (struct gemm_slice){tile % l->grid, 0, l->T};
        return 1;
    }
    int64_t lo = (int64_t)(tile - whole) * l->T, hi = lo + l->T;
    int top = (int)(lo / l->iters), bottom = (int)((hi - 1) / l->iters);
    for (int cta = bottom, i = 0; cta >= top && i < max; cta--, i++) {
        int64_t from = (int64_t)cta * l->iters, to = from + l->iters;
        out[i] = (struct gemm_slice){cta, (int)((from > lo ? from : lo) - lo), (int)((to < hi ? to : hi) - lo)};
    }
    return bottom - top + 1;
}

int plan_is_atomic(const struct gemm_plan *p, const struct gemm_launch *l)
{
    return p->shape.reduce == REDUCE_ATOMIC && (int64_t)((l->rows + 63) / 64) * p->shape.n <= 2048;
}
