/* One forward step of the native engine: rows of any sequences through every layer, op by op. */
#include "harness/native/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void show_rows(struct native_session *s, int layer, const char *op, uint16_t *data, int rows, int cols)
{
    if (s->tap)
        s->tap(s->tap_arg, layer, op, data, rows, cols);
}

static void show(struct native_session *s, int layer, const char *op, uint16_t *data, int cols)
{
    show_rows(s, layer, op, data, s->rows, cols);
}

/* Some columns of wider rows; copied, there and back, only when somebody looks. */
static void show_columns(struct native_session *s, int layer, const char *op, uint16_t *data, int stride, int cols)
{
    size_t width = (size_t)cols * sizeof *data;
    uint16_t *copy = s->tap ? malloc((size_t)s->rows * width) : NULL;
    if (!copy)
        return;
    for (int r = 0; r < s->rows; r++)
        memcpy(copy + (size_t)r * (size_t)cols, data + (size_t)r * (size_t)stride, width);
    show(s, layer, op, copy, cols);
    for (int r = 0; r < s->rows; r++)
        memcpy(data + (size_t)r * (size_t)stride, copy + (size_t)r * (size_t)cols, width);
    free(copy);
}

static const struct mutation *mutation_of(const struct native *n)
{
    return n->o.mutated ? &n->o.mutation : NULL;
}

static enum gemm_reduce reduce_of(const struct native *n)
{
    return n->o.mutated && n->o.mutation.reduce16 ? REDUCE_F16 : n->o.reduce;
}

/* The sorted routes of a dense layer that goes through the grouped operator: one expert, one route a row. */
static int single_expert(struct native_session *s, int m, int block_rows)
{
    int deterministic;
    memset(s->route_ids, 0, (size_t)m * sizeof *s->route_ids);
    return op_align(m, 1, block_rows, s->route_ids, s->sorted, s->block_experts, &deterministic);
}

static int run_problem(struct native_session *s, struct gemm_problem *p, const struct gemm_shape *shape, struct err *e)
{
    if (plan_make(shape, &s->n->gpu, &s->plan, e))
        return e->code;
    p->plan = &s->plan;
    p->mutation = mutation_of(s->n);
    if (session_scratch(s, gemm_scratch_bytes(p, team_members(s->team)), e))
        return e->code;
    return gemm_run(p, s->scratch, s->team, e);
}

/* y[m,n] = x[m,k] W, by the route of the engine. */
static int linear(struct native_session *s, const struct packed_weight *w, const uint16_t *x, uint16_t *y,
                  struct err *e)
{
    int m = s->rows;
    if (w->format == WF_PLAIN) {
        s->counts.plain_gemms++;
        if (session_scratch(s, linear_scratch_bytes(w, m, team_members(s->team)), e))
            return e->code;
        return linear_run(w, s->n->gpu.sm, m, x, w->k_used, y, w->n_used, s->scratch, s->team, e);
    }
    struct gemm_shape shape = {.route = s->n->o.route,
                               .m = m,
                               .n = w->n,
                               .k = w->k,
                               .format = w->format,
                               .act = w->act,
                               .group = w->group,
                               .experts = 1,
                               .topk = 1,
                               .reduce = reduce_of(s->n)};
    struct gemm_problem p = {.w = w, .a = x, .lda = w->k_used, .c = y, .ldc = w->n_used};
    if (shape.route != ROUTE_DENSE) {
        shape.block_rows = plan_block_rows(m, 1, 1);
        shape.blocks = single_expert(s, m, shape.block_rows);
        p.sorted_routes = s->sorted;
        p.block_experts = s->block_experts;
    }
    *(shape.route == ROUTE_DENSE     ? &s->counts.dense_gemms
      : shape.route == ROUTE_GROUPED ? &s->counts.grouped_gemms
                                     : &s->counts.par1_gemms) += 1;
    return run_problem(s, &p, &shape, e);
}

/* One of the two expert GEMMs; topk routes a row of x, C has a row a route. */
static int experts(struct native_session *s, const struct packed_weight *w, int rows, int topk, int block_rows,
                   int blocks, const uint16_t *x, uint16_t *y, const float *route_weight, struct err *e)
{
    enum gemm_route route = s->n->o.route == ROUTE_PAR1 ? ROUTE_PAR1 : ROUTE_GROUPED;
    struct gemm_shape shape = {.route = route,
                               .m = rows,
                               .n = w->n,
                               .k = w->k,
                               .format = w->format,
                               .act = w->act,
                               .group = w->group,
                               .experts = s->n->model->config.experts,
                               .topk = topk,
                               .reduce = reduce_of(s->n),
                               .block_rows = block_rows,
                               .blocks = blocks};
    struct gemm_problem p = {.w = w,
                             .a = x,
                             .lda = w->k_used,
                             .c = y,
                             .ldc = w->n_used,
                             .sorted_routes = s->sorted,
                             .block_experts = s->block_experts,
                             .route_weight = route_weight};
    *(route == ROUTE_PAR1 ? &s->counts.par1_gemms : &s->counts.grouped_gemms) += 1;
    return run_problem(s, &p, &shape, e);
}

/* Plain experts (an unquantised checkpoint): each expert's rows by plain linears, in route order. */
static int plain_experts(struct native_session *s, const struct packed_weight *w, int topk, const uint16_t *x,
                         uint16_t *y, int weighted, struct err *e)
{
    const struct model_config *c = &s->n->model->config;
    int routes = s->rows * c->topk;
    s->counts.plain_gemms++;
    for (int i = 0; i < c->experts; i++)
        for (int r = 0; r < routes; r++) {
            if (s->route_ids[r] != i)
                continue;
            if (session_scratch(s, linear_scratch_bytes(&w[i], 1, 1), e) ||
                linear_run(&w[i], s->n->gpu.sm, 1, x + (size_t)(r / topk) * (size_t)w->k_used, w->k_used,
                           y + (size_t)r * (size_t)w->n_used, w->n_used, s->scratch, NULL, e))
                return e->code;
            uint16_t *row = y + (size_t)r * (size_t)w->n_used;
            for (int j = 0; weighted && j < w->n_used; j++)
                row[j] = session_bf16(session_f32(row[j]) * session_f32(session_bf16(s->route_weights[r])));
        }
    return OK;
}

static int moe(struct native_session *s, int layer, struct err *e)
{
    const struct native_layer *l = &s->n->layer[layer];
    const struct model_config *c = &s->n->model->config;
    int rows = s->rows, routes = rows * c->topk, inner = c->expert_intermediate, deterministic;
    if (linear(s, &l->router, s->x, s->router, e))
        return e->code;
    show(s, layer, "router", s->router, c->experts);
    op_route(&s->n->hw, rows, c->experts, c->topk, c->norm_topk, s->router, s->route_ids, s->route_weights);
    int plain = l->w13->format == WF_PLAIN, block_rows = plan_block_rows(rows, c->topk, c->experts);
    int blocks = op_align(routes, c->experts, block_rows, s->route_ids, s->sorted, s->block_experts, &deterministic);
    if (plain ? plain_experts(s, l->w13, c->topk, s->x, s->gate_up, 0, e)
              : experts(s, l->w13, rows, c->topk, block_rows, blocks, s->x, s->gate_up, NULL, e))
        return e->code;
    show_rows(s, layer, "experts_w13", s->gate_up, routes, 2 * inner);
    op_silu_mul(routes, inner, s->gate_up, s->inner, s->n->silu);
    show_rows(s, layer, "experts_silu_mul", s->inner, routes, inner);
    if (plain ? plain_experts(s, l->w2, 1, s->inner, s->slots, 1, e)
              : experts(s, l->w2, routes, 1, block_rows, blocks, s->inner, s->slots, s->route_weights, e))
        return e->code;
    show_rows(s, layer, "experts_w2", s->slots, routes, c->hidden);
    op_slot_sum(rows, c->topk, c->hidden, s->slots, s->x);
    show(s, layer, "moe", s->x, c->hidden);
    return OK;
}

static int mlp(struct native_session *s, int layer, struct err *e)
{
    const struct native_layer *l = &s->n->layer[layer];
    const struct model_config *c = &s->n->model->config;
    if (c->experts)
        return moe(s, layer, e);
    if (linear(s, &l->gate_up, s->x, s->gate_up, e))
        return e->code;
    show(s, layer, "gate_up_proj", s->gate_up, 2 * c->intermediate);
    op_silu_mul(s->rows, c->intermediate, s->gate_up, s->inner, s->n->silu);
    show(s, layer, "silu_mul", s->inner, c->intermediate);
    if (linear(s, &l->down, s->inner, s->x, e))
        return e->code;
    show(s, layer, "down_proj", s->x, c->hidden);
    return OK;
}

static void attend_sequence(struct native_session *s, int layer, const struct segment *seg, int at,
                            const struct attention_plan *plan)
{
    const struct model_config *c = &s->n->model->config;
    int group = c->heads / c->kv_heads, width = (c->heads + 2 * c->kv_heads) * HEAD_DIM;
    int first = s->length[seg->sequence];
    const uint16_t *q = s->qkv + (size_t)at * (size_t)width, *k = q + c->heads * HEAD_DIM,
                   *v = k + c->kv_heads * HEAD_DIM;
    for (int h = 0; h < c->kv_heads; h++) {
        struct kv_cache *cache = session_cache(s, seg->sequence, layer, h);
        for (int r = 0; r < seg->rows; r++)
            kv_append(cache, k + (size_t)r * (size_t)width + h * HEAD_DIM,
                      v + (size_t)r * (size_t)width + h * HEAD_DIM);
        struct attention a = {.hw = &s->n->hw,
                              .sm = s->n->gpu.sm,
                              .rows = seg->rows,
                              .group = group,
                              .q = q + h * group * HEAD_DIM,
                              .q_stride = width,
                              .out = s->attention + (size_t)at * (size_t)(c->heads * HEAD_DIM) + h * group * HEAD_DIM,
                              .out_stride = c->heads * HEAD_DIM,
                              .first = first,
                              .block = plan->block,
                              .splits = attention_splits(plan, first + seg->rows),
                              .scale = 0.125,
                              .scratch = s->scratch};
        op_attention(&a, cache);
    }
}

static struct attention_plan plan_attention(const struct native_session *s, const struct segment *seg, int segments)
{
    const struct model_config *c = &s->n->model->config;
    int rows[64], keys[64], longest = 0;
    for (int i = 0; i < segments; i++) {
        rows[i] = seg[i].rows;
        keys[i] = s->length[seg[i].sequence] + seg[i].rows;
        longest = keys[i] > longest ? keys[i] : longest;
    }
    return attention_plan(s->n->gpu.sms, c->kv_heads, c->heads / c->kv_heads, rows, keys, segments, longest);
}

static int attention(struct native_session *s, int layer, const struct segment *seg, int segments, struct err *e)
{
    const struct layer *l = &s->n->model->layer[layer];
    const struct model_config *c = &s->n->model->config;
    int width = (c->heads + 2 * c->kv_heads) * HEAD_DIM;
    uint16_t *q = s->qkv, *k = s->qkv + c->heads * HEAD_DIM;
    if (linear(s, &s->n->layer[layer].qkv, s->x, s->qkv, e))
        return e->code;
    show(s, layer, "qkv_proj", s->qkv, width);
    if (c->qk_norm)
        for (int r = 0; r < s->rows; r++) {
            uint16_t *row = q + (size_t)r * (size_t)width;
            op_rmsnorm(&s->n->hw, c->heads, HEAD_DIM, row, HEAD_DIM, l->q_norm.data, c->norm_eps, row, HEAD_DIM);
            row += c->heads * HEAD_DIM;
            op_rmsnorm(&s->n->hw, c->kv_heads, HEAD_DIM, row, HEAD_DIM, l->k_norm.data, c->norm_eps, row, HEAD_DIM);
        }
    if (c->qk_norm) {
        show_columns(s, layer, "q_norm", q, width, c->heads * HEAD_DIM);
        show_columns(s, layer, "k_norm", k, width, c->kv_heads * HEAD_DIM);
    }
    op_rope(s->rows, c->heads, HEAD_DIM, q, width, s->position, s->n->rope);
    op_rope(s->rows, c->kv_heads, HEAD_DIM, k, width, s->position, s->n->rope);
    show_columns(s, layer, "rotary_q", q, width, c->heads * HEAD_DIM);
    show_columns(s, layer, "rotary_k", k, width, c->kv_heads * HEAD_DIM);
    if (session_scratch(s, op_attention_scratch(0), e))
        return e->code;
    struct attention_plan plan = plan_attention(s, seg, segments);
    for (int i = 0, at = 0; i < segments; at += seg[i++].rows)
        attend_sequence(s, layer, &seg[i], at, &plan);
    show(s, layer, "attn", s->attention, c->heads * HEAD_DIM);
    if (linear(s, &s->n->layer[layer].o, s->attention, s->x, e))
        return e->code;
    show(s, layer, "o_proj", s->x, c->hidden);
    return OK;
}

static int embed(struct native_session *s, const struct segment *seg, int segments, struct err *e)
{
    const struct model *m = s->n->model;
    size_t width = (size_t)m->config.hidden * sizeof(uint16_t);
    int shift = s->n->o.mutation.rope_offset;
    for (int i = 0, at = 0; i < segments; i++)
        for (int r = 0; r < seg[i].rows; r++, at++) {
            int32_t id = seg[i].ids[r], position = s->length[seg[i].sequence] + r;
            if (id < 0 || id >= m->config.vocab)
                return FAIL(e, E_INPUT, "id %d is outside the vocabulary of %d", id, m->config.vocab);
            if (position >= s->positions)
                return FAIL(e, E_INPUT, "position %d is beyond the %d positions of this session", position,
                            s->positions);
            memcpy(s->x + (size_t)at * (size_t)m->config.hidden, (const char *)m->embed.data + (size_t)id * width,
                   width);
            s->position[at] = (position + shift) % s->n->rope_rows;
        }
    if (shift && s->n->o.mutation.applied)
        mutation_applied(&s->n->o.mutation);
    return OK;
}

int native_step(struct native_session *s, const struct segment *seg, int segments, struct err *e)
{
    const struct model *m = s->n->model;
    const struct hw_tables *hw = &s->n->hw;
    int rows = 0, h = m->config.hidden;
    float eps = m->config.norm_eps;
    for (int i = 0; i < segments; i++)
        rows += seg[i].rows;
    if (session_rows(s, rows, e) || embed(s, seg, segments, e))
        return e->code;
    show(s, -1, "embed", s->x, h);
    for (int layer = 0; layer < m->config.layers; layer++) {
        const struct layer *l = &m->layer[layer];
        if (layer) {
            op_add_rmsnorm(hw, rows, h, s->x, s->residual, l->input_norm.data, eps, s->x);
            show(s, layer, "input_residual", s->residual, h);
        } else {
            memcpy(s->residual, s->x, (size_t)rows * (size_t)h * sizeof *s->x);
            op_rmsnorm(hw, rows, h, s->x, h, l->input_norm.data, eps, s->x, h);
        }
        show(s, layer, "input_norm", s->x, h);
        if (attention(s, layer, seg, segments, e))
            return e->code;
        op_add_rmsnorm(hw, rows, h, s->x, s->residual, l->post_norm.data, eps, s->x);
        show(s, layer, "post_residual", s->residual, h);
        show(s, layer, "post_norm", s->x, h);
        if (mlp(s, layer, e))
            return e->code;
    }
    op_add_rmsnorm(hw, rows, h, s->x, s->residual, m->final_norm.data, eps, s->x);
    show(s, -1, "final_residual", s->residual, h);
    show(s, -1, "final_norm", s->x, h);
    for (int i = 0; i < segments; i++)
        s->length[seg[i].sequence] += seg[i].rows;
    s->counts.steps++;
    return OK;
}

int native_logits(struct native_session *s, const int32_t *row, int n, uint16_t *logits, struct err *e)
{
    const struct packed_weight *w = &s->n->head;
    size_t h = (size_t)s->n->model->config.hidden;
    uint16_t *gathered = s->inner; /* free after the last layer; at least as wide as hidden */
    for (int i = 0; i < n; i++)
        memcpy(gathered + (size_t)i * h, s->x + (size_t)row[i] * h, h * sizeof *gathered);
    if (session_scratch(s, linear_scratch_bytes(w, n, team_members(s->team)), e))
        return e->code;
    if (linear_run(w, s->n->gpu.sm, n, gathered, (int)h, logits, w->n_used, s->scratch, s->team, e))
        return e->code;
    if (s->tap)
        s->tap(s->tap_arg, -1, "logits", logits, n, w->n_used);
    return OK;
}
