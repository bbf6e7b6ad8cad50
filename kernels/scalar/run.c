/* Runs a plan element by element; spec marlin-numerics 3.3, 4, 5, 6 and 9. */
#include "kernels/scalar/scalar.h"

#include <stdlib.h>

enum { SLICES_MAX = 512, ATOMIC_MAX = 2 };

struct expert_operands {
    uint16_t *b;  /* [n,k]; NULL until needed */
    float global; /* factor of the accumulator */
};

struct job {
    const struct scalar_problem *p;
    const struct gemm_shape *s;
    const struct scalar_mutation *x;
    struct tensor_core core;
    float max_scale;
    struct expert_operands *expert;
};

/* Where one element stands. */
struct place {
    const struct gemm_launch *l;
    int position, block_row; /* in the launch; in its row block */
    int row_a, row_c, column, expert;
};

/* Partial sum of one slice: a chain a warp row, then the fold. */
static float slice_sum(const struct job *j, const struct place *at, const struct gemm_slice *s)
{
    const uint16_t *a = j->p->a + (long)at->row_a * j->p->lda;
    const uint16_t *b = j->expert[at->expert].b + (long)at->column * j->s->k;
    int tk = at->l->tk, warps = tk / 32;
    float acc[4];
    for (int w = 0; w < warps; w++) {
        acc[w] = 0;
        for (int t = s->t0; t < s->t1; t++)
            for (int h = 0; h < 2; h++) {
                int k = t * tk + 32 * w + 16 * h;
                acc[w] = scalar_mma(&j->core, j->s->act, acc[w], a + k, b + k, 16);
            }
    }
    if (warps == 2)
        return acc[0] + acc[1];
    if (j->x->fold_left)
        return ((acc[0] + acc[1]) + acc[2]) + acc[3];
    return acc[0] + (acc[1] + (acc[3] + acc[2]));
}

static int bias_is_fused(const struct job *j, const struct place *at)
{
    return (j->s->act == ACT_F16 || j->p->plan->native_code) && !(at->block_row < 8 && at->column % 64 < 8);
}

/* Section 5.2; with_bias is 0 for the slices of an atomic tile that are not the top one. */
static uint16_t write_out(const struct job *j, const struct place *at, float acc, int with_bias)
{
    enum activation act = j->s->act;
    const uint16_t *bias = j->p->bias && with_bias ? j->p->bias + (long)at->expert * j->s->n + at->column : NULL;
    float global = j->expert[at->expert].global;
    int nvfp4 = j->s->format == WF_NVFP4;
    if (nvfp4 && !j->p->route_weight && !j->x->global_after)
        acc = acc * global;
    uint16_t r = scalar_round(acc, act);
    if (nvfp4 && !j->p->route_weight && j->x->global_after)
        r = scalar_round(scalar_widen(r, act) * global, act);
    if (j->s->format == WF_U4B8 && !j->s->group) {
        uint16_t scale = ((const uint16_t *)j->p->w[at->expert].scales)[at->column];
        if (bias && bias_is_fused(j, at)) {
            r = scalar_fma(r, scale, *bias, act);
            bias = NULL;
        } else {
            r = scalar_mul(r, scale, act);
        }
    }
    if (bias)
        r = scalar_add(r, *bias, act);
    if (j->p->route_weight) {
        float tw = j->p->route_weight[at->row_c];
        r = scalar_mul(r, scalar_round(nvfp4 ? tw * global : tw, act), act);
    }
    return r;
}

static uint16_t ordered(const struct job *j, const struct place *at, const struct gemm_slice *slice, int count)
{
    float run = 0;
    for (int i = 0; i < count; i++) {
        float v = slice_sum(j, at, &slice[j->x->top_first ? count - 1 - i : i]);
        run = i ? v + run : v;
        if (j->x->first_slice_wins)
            break;
        if (j->s->reduce == REDUCE_F16 && i < count - 1)
            run = (float)scalar_widen(scalar_round(run, j->s->act), j->s->act);
    }
    return write_out(j, at, run, 1);
}

static int element(const struct job *j, const struct place *at, uint16_t *c, struct err *e)
{
    struct gemm_slice slice[SLICES_MAX];
    int block = at->position / at->l->block_rows, column_tile = at->column / at->l->tn;
    int tile = j->x->par_regrouped ? column_tile * at->l->par + block : block * at->l->NT + column_tile;
    int count = plan_slices(at->l, tile, slice, SLICES_MAX);
    if (count > SLICES_MAX)
        return FAIL(e, E_UNSUPPORTED, "a tile of %d slices: %d at most", count, SLICES_MAX);
    if (count == 1 || !plan_is_atomic(j->p->plan, at->l)) {
        *c = ordered(j, at, slice, count);
        return OK;
    }
    if (count > ATOMIC_MAX)
        return FAIL(e, E_UNSUPPORTED, "atomic adds of %d slices have no single result, only a set of possible ones",
                    count);
    uint16_t value[ATOMIC_MAX];
    for (int i = 0; i < count; i++)
        value[i] = write_out(j, at, slice_sum(j, at, &slice[i]), i == count - 1);
    scalar_atomic_set(value, count, j->s->act, c, 1);
    return OK;
}

static int load_expert(struct job *j, int expert, struct err *e)
{
    struct expert_operands *x = &j->expert[expert];
    if (x->b)
        return OK;
    x->b = malloc((size_t)j->s->n * (size_t)j->s->k * sizeof *x->b);
    if (!x->b)
        return FAIL(e, E_NOMEM, "operands of %d x %d: out of memory", j->s->n, j->s->k);
    scalar_operands(j->s, &j->p->w[expert], j->max_scale, j->x, x->b, &x->global);
    return OK;
}

static int row(struct job *j, struct place *at, uint16_t *c, struct err *e)
{
    at->block_row = at->position % at->l->block_rows;
    if (load_expert(j, at->expert, e))
        return e->code;
    for (at->column = 0; at->column < j->s->n; at->column++)
        if (element(j, at, &c[(long)at->row_c * j->s->n + at->column], e))
            return e->code;
    return OK;
}

static int run_dense(struct job *j, uint16_t *c, struct err *e)
{
    for (int i = 0; i < j->p->plan->launches; i++) {
        struct place at = {.l = &j->p->plan->launch[i]};
        for (; at.position < at.l->rows; at.position++) {
            at.row_a = at.row_c = at.l->first_row + at.position;
            if (row(j, &at, c, e))
                return e->code;
        }
    }
    return OK;
}

static int run_grouped(struct job *j, uint16_t *c, struct err *e)
{
    struct place at = {.l = &j->p->plan->launch[0]};
    for (; at.position < at.l->par * at.l->block_rows; at.position++) {
        at.expert = j->p->block_experts[at.position / at.l->block_rows];
        at.row_c = j->p->sorted_routes[at.position];
        if (at.expert < 0 || at.row_c >= j->s->m * j->s->topk)
            continue;
        at.row_a = at.row_c / j->s->topk;
        if (row(j, &at, c, e))
            return e->code;
    }
    return OK;
}

int scalar_gemm_run(const struct scalar_problem *p, uint16_t *c, struct err *e)
{
    static const struct scalar_mutation none = {0};
    struct err local = {0};
    struct job j = {.p = p, .s = &p->plan->shape, .x = p->mutation ? p->mutation : &none};
    if (!e)
        e = &local;
    j.core = scalar_tensor_core(p->plan->sm);
    if (j.x->fraction)
        j.core.fraction = j.x->fraction;
    if (j.x->halves)
        j.core.products = 8;
    j.expert = calloc((size_t)j.s->experts, sizeof *j.expert);
    if (!j.expert)
        return FAIL(e, E_NOMEM, "%d experts: out of memory", j.s->experts);
    for (int i = 0; i < j.s->experts && j.s->format == WF_NVFP4; i++) {
        float most = scalar_max_scale(p->w[i].scales, (long)j.s->n * (j.s->k / 16));
        j.max_scale = most > j.max_scale ? most : j.max_scale;
    }
    if (j.s->route == ROUTE_DENSE)
        run_dense(&j, c, e);
    else
        run_grouped(&j, c, e);
    for (int i = 0; i < j.s->experts; i++)
        free(j.expert[i].b);
    free(j.expert);
    return e->code;
}
