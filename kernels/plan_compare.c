#include "kernels/plan_compare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLICES_MAX = 1024, RUN = 64 /* columns that every tile keeps together */ };

/* How one element is summed: slices in k, and the warp rows that each is split among. */
struct sum {
    int warps, count;
    struct gemm_slice slice[SLICES_MAX]; /* t0 and t1 in k, not in k-tiles */
};

static const struct gemm_launch *launch_of(const struct gemm_plan *p, int row)
{
    const struct gemm_launch *l = p->launch;
    for (int i = 0; i < p->launches && p->launch[i].first_row <= row; i++)
        l = &p->launch[i];
    return l;
}

/* Place of a row in its launch: the grouped operator's alignment deals the rows of one expert to 32 lanes. */
static int position_of(const struct gemm_plan *p, const struct gemm_launch *l, int row)
{
    int m = p->shape.m, lanes = 32, lane = row % lanes, full = m / lanes, rest = m % lanes;
    if (p->shape.route == ROUTE_DENSE || p->shape.experts > 1 || m >= 1024)
        return row - l->first_row;
    return lane * full + (lane < rest ? lane : rest) + row / lanes;
}

/* Whether the first 8 of 64 columns have channelwise scale and bias fused; spec marlin-numerics 5.4. */
static int is_fused(const struct gemm_plan *p, int row)
{
    const struct gemm_launch *l = launch_of(p, row);
    return (p->shape.act == ACT_F16 || p->native_code) && position_of(p, l, row) % l->block_rows >= 8;
}

static void find_sum(const struct gemm_plan *p, int row, int column, struct sum *s)
{
    const struct gemm_launch *l = launch_of(p, row);
    int block = position_of(p, l, row) / l->block_rows;
    int tile = (block < l->par ? block : l->par - 1) * l->NT + column / l->tn;
    s->warps = l->tk / 32;
    s->count = plan_slices(l, tile, s->slice, SLICES_MAX);
    for (int i = 0; i < s->count && i < SLICES_MAX; i++)
        s->slice[i].t0 *= l->tk, s->slice[i].t1 *= l->tk;
}

static int same_sum(const struct sum *a, const struct sum *b)
{
    if (a->warps != b->warps || a->count != b->count)
        return 0;
    for (int i = 0; i < a->count && i < SLICES_MAX; i++)
        if (a->slice[i].t0 != b->slice[i].t0 || a->slice[i].t1 != b->slice[i].t1)
            return 0;
    return 1;
}

static void say_sum(const struct sum *a, const struct sum *b, struct plan_difference *d)
{
    char head[96];
    snprintf(head, sizeof head, "row %d, columns %d..%d:", d->row, d->column, d->column + RUN - 1);
    if (a->warps != b->warps) {
        snprintf(
            d->why, sizeof d->why,
            "%s tile: k-tiles of %d are split among %d warp rows, k-tiles of %d among %d; other chains, other fold",
            head, 32 * a->warps, a->warps, 32 * b->warps, b->warps);
        return;
    }
    if (a->count != b->count) {
        snprintf(d->why, sizeof d->why, "%s slices: %d against %d are added across CTAs", head, a->count, b->count);
        return;
    }
    int i = 0;
    while (i < a->count - 1 && a->slice[i].t0 == b->slice[i].t0)
        i++;
    snprintf(d->why, sizeof d->why, "%s slices: number %d from the bottom covers k [%d,%d) against [%d,%d)", head,
             i + 1, a->slice[i].t0, a->slice[i].t1, b->slice[i].t0, b->slice[i].t1);
}

static void compare_sums(const struct gemm_plan *a, const struct gemm_plan *b, struct plan_difference *d)
{
    static __thread struct sum x, y;
    int routes = a->shape.m * a->shape.topk, slices = 1;
    for (int row = 0; row < routes; row++)
        for (int column = 0; column < a->shape.n; column += RUN) {
            int width = a->shape.n - column < RUN ? a->shape.n - column : RUN;
            find_sum(a, row, column, &x);
            find_sum(b, row, column, &y);
            int same = same_sum(&x, &y);
            slices = x.count > slices ? x.count : slices;
            d->elements += width;
            d->same += same ? width : 0;
            if (same || d->row >= 0)
                continue;
            d->row = row, d->column = column;
            if (!*d->why)
                say_sum(&x, &y, d);
        }
    d->reduce = a->shape.reduce != b->shape.reduce && slices > 1;
    if (d->reduce && !*d->why)
        snprintf(d->why, sizeof d->why, "reduction: %s against %s between the slices of a tile",
                 reduce_name(a->shape.reduce), reduce_name(b->shape.reduce));
}

static int family(int sm)
{
    return sm >= 90;
}

void plan_compare(const struct gemm_plan *a, const struct gemm_plan *b, struct plan_difference *d)
{
    const struct gemm_shape *s = &a->shape, *t = &b->shape;
    *d = (struct plan_difference){.row = -1, .column = -1};
    if (s->m != t->m || s->n != t->n || s->k != t->k || s->topk != t->topk) {
        d->operands = 1;
        snprintf(d->why, sizeof d->why, "shape: m %d n %d k %d against m %d n %d k %d: other products", s->m, s->n,
                 s->k, t->m, t->n, t->k);
        return;
    }
    d->operands = s->format != t->format || s->act != t->act || s->group != t->group;
    if (d->operands)
        snprintf(d->why, sizeof d->why, "operands: %s group %d %s against %s group %d %s: other products",
                 format_name(s->format), s->group, activation_name(s->act), format_name(t->format), t->group,
                 activation_name(t->act));
    d->tensor_core = family(a->sm) != family(b->sm);
    if (d->tensor_core && !*d->why)
        snprintf(d->why, sizeof d->why,
                 "tensor core: sm_%d adds %s, sm_%d %s: every step with bits below that rounds otherwise", a->sm,
                 family(a->sm) ? "16 products at 25 fraction bits" : "8 + 8 products at 24 fraction bits", b->sm,
                 family(b->sm) ? "16 products at 25 fraction bits" : "8 + 8 products at 24 fraction bits");
    compare_sums(a, b, d);
    for (int row = 0; row < s->m && s->format == WF_U4B8 && !s->group && !d->write_out; row++)
        d->write_out = a->native_code != b->native_code || is_fused(a, row) != is_fused(b, row);
    if (d->write_out && !*d->why)
        snprintf(
            d->why, sizeof d->why,
            "write-out: with a bias, other elements have scale and bias fused (rows in a block, or the code, differ)");
}

int plan_working_ctas(const struct gemm_launch *l)
{
    if (l->dp)
        return l->grid;
    int64_t positions = (int64_t)l->T * l->R;
    return (int)((positions + l->iters - 1) / l->iters);
}

int plan_busiest_tile(const struct gemm_launch *l)
{
    int best = 0, most = 0;
    for (int t = l->dp * l->grid; t < l->par * l->NT; t++)
        if (plan_slices(l, t, NULL, 0) > most)
            best = t, most = plan_slices(l, t, NULL, 0);
    return best;
}
