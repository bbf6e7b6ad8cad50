#include "harness/native/session.h"

#include <stdlib.h>
#include <string.h>

static void free_rows(struct native_session *s)
{
    void *all[] = {s->x,     s->residual, s->qkv,       s->attention, s->gate_up,       s->inner,        s->router,
                   s->slots, s->position, s->route_ids, s->sorted,    s->block_experts, s->route_weights};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void *cells(size_t rows, size_t width)
{
    return calloc(rows * width + 64, sizeof(uint16_t));
}

int session_rows(struct native_session *s, int rows, struct err *e)
{
    s->rows = rows;
    if (rows <= s->capacity)
        return OK;
    const struct model_config *c = &s->n->model->config;
    size_t r = (size_t)rows, topk = c->experts ? (size_t)c->topk : 1;
    size_t inner = (size_t)(c->experts ? c->expert_intermediate : c->intermediate);
    size_t routes = r * topk, experts = c->experts ? (size_t)c->experts : 1;
    size_t widest = inner * topk > (size_t)c->hidden ? inner * topk : (size_t)c->hidden;
    free_rows(s);
    s->capacity = 0;
    s->x = cells(r, (size_t)c->hidden);
    s->residual = cells(r, (size_t)c->hidden);
    s->qkv = cells(r, (size_t)(c->heads + 2 * c->kv_heads) * HEAD_DIM);
    s->attention = cells(r, (size_t)c->heads * HEAD_DIM);
    s->gate_up = cells(routes, 2 * inner);
    s->inner = cells(r, widest);
    s->router = cells(r, experts);
    s->slots = cells(routes, (size_t)c->hidden);
    s->position = calloc(r, sizeof(int32_t));
    s->route_ids = calloc(routes, sizeof(int32_t));
    s->route_weights = calloc(routes, sizeof(float));
    s->sorted = calloc(routes + 64 * (experts + 1), sizeof(int32_t)); /* padding: a block of 64 an expert at most */
    s->block_experts = calloc(routes + experts + 1, sizeof(int32_t));
    if (!s->x || !s->residual || !s->qkv || !s->attention || !s->gate_up || !s->inner || !s->router || !s->slots ||
        !s->position || !s->route_ids || !s->route_weights || !s->sorted || !s->block_experts)
        return FAIL(e, E_NOMEM, "out of memory for %d rows", rows);
    s->capacity = rows;
    return OK;
}

int session_scratch(struct native_session *s, size_t bytes, struct err *e)
{
    if (bytes <= s->scratch_bytes)
        return OK;
    free(s->scratch);
    s->scratch_bytes = 0;
    bytes = (bytes + 4095) / 4096 * 4096;
    s->scratch = aligned_alloc(64, bytes);
    if (!s->scratch)
        return FAIL(e, E_NOMEM, "out of memory for %zu bytes of scratch", bytes);
    s->scratch_bytes = bytes;
    return OK;
}

struct kv_cache *session_cache(struct native_session *s, int sequence, int layer, int kv_head)
{
    const struct model_config *c = &s->n->model->config;
    return s->cache + ((size_t)sequence * (size_t)c->layers + (size_t)layer) * (size_t)c->kv_heads + kv_head;
}

static int reserve_sequence(struct native_session *s, int sequence, struct err *e)
{
    const struct model_config *c = &s->n->model->config;
    int capacity = kv_capacity(s->positions);
    size_t each = (kv_bytes(capacity) + 63) / 64 * 64;
    char *memory = aligned_alloc(64, each * (size_t)(c->layers * c->kv_heads));
    if (!memory)
        return FAIL(e, E_NOMEM, "out of memory for the cache of sequence %d", sequence);
    s->cache_memory[sequence] = memory;
    for (int i = 0; i < c->layers * c->kv_heads; i++)
        kv_init(session_cache(s, sequence, 0, 0) + i, memory + each * (size_t)i, capacity);
    return OK;
}

int native_session_open(const struct native *n, int sequences, int positions, struct team *team,
                        struct native_session **out, struct err *e)
{
    const struct model_config *c = &n->model->config;
    if (positions > n->rope_rows)
        return FAIL(e, E_INPUT, "%d positions; the model has rotary rows for %d", positions, n->rope_rows);
    struct native_session *s = calloc(1, sizeof *s);
    if (!s)
        return FAIL(e, E_NOMEM, "out of memory");
    s->n = n;
    s->team = team;
    s->sequences = sequences;
    s->positions = positions;
    s->length = calloc((size_t)sequences, sizeof *s->length);
    s->cache = calloc((size_t)(sequences * c->layers * c->kv_heads), sizeof *s->cache);
    s->cache_memory = calloc((size_t)sequences, sizeof *s->cache_memory);
    if (!s->length || !s->cache || !s->cache_memory) {
        FAIL(e, E_NOMEM, "out of memory for %d sequences", sequences);
        goto out;
    }
    for (int i = 0; i < sequences; i++)
        if (reserve_sequence(s, i, e))
            goto out;
    *out = s;
    return OK;
out:
    native_session_close(s);
    return e->code;
}

void native_session_close(struct native_session *s)
{
    if (!s)
        return;
    for (int i = 0; s->cache_memory && i < s->sequences; i++)
        free(s->cache_memory[i]);
    free(s->cache_memory);
    free(s->cache);
    free(s->length);
    free(s->scratch);
    free_rows(s);
    free(s);
}

void native_session_tap(struct native_session *s, native_tap *tap, void *arg)
{
    s->tap = tap;
    s->tap_arg = arg;
}

void native_reset(struct native_session *s, int sequence)
{
    const struct model_config *c = &s->n->model->config;
    s->length[sequence] = 0;
    for (int i = 0; i < c->layers * c->kv_heads; i++) {
        struct kv_cache *k = session_cache(s, sequence, 0, 0) + i;
        if (k->special) /* old keys are never visible, but must be finite */
            kv_init(k, k->key, k->capacity);
        k->n = 0;
    }
}

const struct native_counts *native_counts(const struct native_session *s)
{
    return &s->counts;
}

struct native_counts native_expected(const struct native *n, int64_t steps)
{
    const struct model_config *c = &n->model->config;
    int64_t linears = 0, grouped = 0, plain = 0;
    for (int i = 0; i < c->layers; i++) {
        const struct native_layer *l = &n->layer[i];
        const struct packed_weight *dense[4] = {&l->qkv, &l->o, &l->gate_up, &l->down};
        for (int j = 0; j < (c->experts ? 2 : 4); j++)
            *(dense[j]->format == WF_PLAIN ? &plain : &linears) += 1;
        if (c->experts) {
            plain += 1; /* the router */
            *(l->w13->format == WF_PLAIN ? &plain : &grouped) += 2;
        }
    }
    struct native_counts e = {.plain_gemms = plain * steps, .steps = steps};
    enum gemm_route r = n->o.route;
    e.dense_gemms = r == ROUTE_DENSE ? linears * steps : 0;
    e.grouped_gemms = (r == ROUTE_GROUPED ? linears + grouped : r == ROUTE_DENSE ? grouped : 0) * steps;
    e.par1_gemms = r == ROUTE_PAR1 ? (linears + grouped) * steps : 0;
    return e;
}
