/* Puts a case's operands on the GPU and brings its output back. */
#include "kernels/vectors/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void free_weights(struct vector_gpu *g)
{
    if (*g->key)
        g->part->weight_free(&g->weight);
    g->key[0] = 0;
}

void vector_gpu_free(struct vector_gpu *g)
{
    if (!g->part)
        return;
    free_weights(g);
    void *all[] = {g->a.at,     g->c.at,      g->sorted.at, g->blocks.at, g->route_weight.at, g->route_expert.at,
                   g->count.at, g->scratch.at};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        g->part->release(all[i]);
}

/* Room for `bytes` in one of the case's buffers; what it held is lost when it grows. */
#define ROOM(g, buffer, need, e) room((g)->part, &(g)->buffer.at, &(g)->buffer.bytes, need, e)

static int room(const struct cuda_part *part, void **at, size_t *bytes, size_t need, struct err *e)
{
    if (need <= *bytes)
        return OK;
    part->release(*at);
    *at = NULL, *bytes = 0;
    if (part->alloc(need, at, e))
        return e->code;
    *bytes = need;
    return OK;
}

static void name_weights(const struct vector_case *c, char *key, size_t size)
{
    const struct gemm_shape *s = &c->shape;
    snprintf(key, size, "%d|%d|%d|%d|%d|%d|%d|%d", s->format, s->act, s->n, s->k, c->group, c->kind, s->experts,
             c->bias);
}

static int load_weights(struct vector_gpu *g, const struct vector_case *c, const struct vector_inputs *in,
                        struct err *e)
{
    struct vector_packed packed = {0};
    long wrong = 0;
    int rc = vector_pack(c, in, &packed, e);
    if (!rc)
        rc = g->part->weight_load(packed.w, c->shape.experts, &g->weight, e);
    if (!rc)
        name_weights(c, g->key, sizeof g->key);
    if (!rc && g->check_repack)
        rc = g->part->weight_check(packed.w, &g->weight, &wrong, e);
    g->repacked_wrong += wrong;
    vector_unpack(&packed, c->shape.experts);
    return rc;
}

/* Rows of A at a stride; what lies between rows is NaN. */
static int load_rows(struct vector_gpu *g, const struct vector_case *c, const struct vector_inputs *in, int pad,
                     struct err *e)
{
    size_t k = (size_t)c->shape.k, lda = k + (size_t)pad, m = (size_t)c->shape.m;
    uint16_t *a = malloc(m * lda * 2);
    if (!a)
        return FAIL(e, E_NOMEM, "%s: rows: out of memory", c->id);
    memset(a, 0xff, m * lda * 2);
    for (size_t r = 0; r < m; r++)
        memcpy(a + r * lda, in->a + r * k, k * 2);
    if (!ROOM(g, a, m * lda * 2, e))
        g->part->put(g->a.at, a, m * lda * 2, e);
    free(a);
    return e->code;
}

static int load_routes(struct vector_gpu *g, const struct vector_case *c, const struct vector_inputs *in, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    size_t routes = (size_t)s->m * (size_t)s->topk, capacity = (size_t)s->blocks * (size_t)s->block_rows;
    int32_t blocks = 0;
    if (in->route_weight &&
        (ROOM(g, route_weight, routes * 4, e) || g->part->put(g->route_weight.at, in->route_weight, routes * 4, e)))
        return e->code;
    if (ROOM(g, route_expert, routes * 4, e) || g->part->put(g->route_expert.at, in->route_expert, routes * 4, e) ||
        ROOM(g, sorted, capacity * 4, e) || ROOM(g, blocks, (size_t)s->blocks * 4, e) || ROOM(g, count, 4, e) ||
        g->part->align(g->route_expert.at, (int)routes, s->experts, s->block_rows, g->sorted.at, (int)capacity,
                       g->blocks.at, g->count.at, e) ||
        g->part->get(&blocks, g->count.at, 4, e))
        return e->code;
    if (blocks != s->blocks)
        FAIL(e, E_INTERNAL, "%s: the device aligned %d blocks, %d are expected", c->id, blocks, s->blocks);
    return e->code;
}

int vector_gpu_load(struct vector_gpu *g, const struct vector_case *c, const struct gemm_plan *plan,
                    const struct vector_gpu_way *way, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    struct vector_inputs in;
    char key[sizeof g->key];
    name_weights(c, key, sizeof key);
    int known = !strcmp(key, g->key);
    if (!known)
        free_weights(g);
    if (known ? vector_inputs_make_rest(c, &in, e) : vector_inputs_make(c, &in, e))
        return e->code;
    if ((!known && load_weights(g, c, &in, e)) || load_rows(g, c, &in, way->a_pad, e) ||
        (s->route != ROUTE_DENSE && load_routes(g, c, &in, e)))
        goto out;
    g->problem = (struct cuda_problem){.plan = plan,
                                       .w = &g->weight,
                                       .a = g->a.at,
                                       .lda = s->k + way->a_pad,
                                       .ldc = s->n + way->c_pad,
                                       .sorted_routes = s->route == ROUTE_DENSE ? NULL : g->sorted.at,
                                       .block_experts = s->route == ROUTE_DENSE ? NULL : g->blocks.at,
                                       .route_weight = in.route_weight ? g->route_weight.at : NULL,
                                       .row_shift = way->row_shift,
                                       .way = way->way};
    size_t bytes = (size_t)s->m * (size_t)s->topk * (size_t)g->problem.ldc * 2;
    g->scratch_bytes = g->part->scratch_bytes(&g->problem);
    if (ROOM(g, c, bytes, e) || ROOM(g, scratch, g->scratch_bytes, e) ||
        g->part->fill(g->scratch.at, 0, g->scratch_bytes, e))
        goto out;
    g->problem.c = g->c.at;
    g->problem.scratch = g->scratch.at;
out:
    vector_inputs_free(c, &in);
    return e->code;
}

int vector_gpu_fetch(struct vector_gpu *g, const struct vector_case *c, uint16_t *out, struct err *e)
{
    size_t rows = (size_t)c->shape.m * (size_t)c->shape.topk, n = (size_t)c->shape.n, ldc = (size_t)g->problem.ldc;
    if (ldc == n)
        return g->part->get(out, g->c.at, rows * n * 2, e);
    uint16_t *all = malloc(rows * ldc * 2);
    if (!all)
        return FAIL(e, E_NOMEM, "%s: outputs: out of memory", c->id);
    if (!g->part->get(all, g->c.at, rows * ldc * 2, e))
        for (size_t r = 0; r < rows; r++)
            memcpy(out + r * n, all + r * ldc, n * 2);
    free(all);
    return e->code;
}

int vector_gpu_run(struct vector_gpu *g, const struct vector_case *c, int poison, int stream, uint16_t *out,
                   struct err *e)
{
    size_t rows = (size_t)c->shape.m * (size_t)c->shape.topk;
    if (g->part->fill(g->c.at, poison, rows * (size_t)g->problem.ldc * 2, e) || g->part->gemm(&g->problem, stream, e) ||
        g->part->sync(e))
        return e->code;
    return vector_gpu_fetch(g, c, out, e);
}
