/* Hands a case's inputs to the executors, in the form in which a checkpoint would bring them. */
#include "kernels/vectors/run.h"

#include "kernels/gemm.h"

#include <math.h>
#include <stdlib.h>

int vector_run_scalar(const struct vector_case *c, const struct vector_inputs *in, const struct gemm_plan *plan,
                      const struct scalar_mutation *mutation, uint16_t *out, struct err *e)
{
    struct scalar_problem p = {.plan = plan,
                               .w = in->weight,
                               .a = in->a,
                               .lda = c->shape.k,
                               .bias = in->bias,
                               .sorted_routes = in->sorted_routes,
                               .block_experts = in->block_experts,
                               .route_weight = in->route_weight,
                               .mutation = mutation};
    return scalar_gemm_run(&p, out, e);
}

static void *aligned(size_t bytes)
{
    return aligned_alloc(64, (bytes / 64 + 1) * 64);
}

void vector_unpack(struct vector_packed *p, int experts)
{
    for (int i = 0; p->memory && i < experts; i++)
        free(p->memory[i]);
    free(p->memory);
    free(p->nibbles);
    free(p->w);
}

static int pack_expert(const struct vector_case *c, const struct vector_inputs *in, int x, float max_scale,
                       struct vector_packed *p, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    const struct scalar_weight *w = &in->weight[x];
    int64_t codes = (int64_t)s->n * s->k, groups = s->group ? s->k / s->group : 1;
    for (int64_t i = 0; i < codes / 2; i++)
        p->nibbles[i] = (uint8_t)(w->codes[2 * i] | w->codes[2 * i + 1] << 4);
    int u4b8 = s->format == WF_U4B8;
    struct linear l = {.n = s->n, .k = s->k, .group = s->group, .format = s->format, .global_scale = 1};
    l.packing = u4b8 ? PACK_WORDS : PACK_BYTES;
    l.weight = (struct tensor){.name = "codes",
                               .dtype = u4b8 ? DT_I32 : DT_U8,
                               .rank = 2,
                               .shape = {s->n, s->k / (u4b8 ? 8 : 2)},
                               .data = p->nibbles,
                               .bytes = (size_t)codes / 2};
    enum dtype half = s->act == ACT_BF16 ? DT_BF16 : DT_F16;
    l.scale = (struct tensor){.name = "scales",
                              .dtype = u4b8                    ? half
                                       : s->format == WF_NVFP4 ? DT_F8_E4M3
                                                               : DT_U8,
                              .rank = 2,
                              .shape = {s->n, groups},
                              .data = w->scales,
                              .bytes = (size_t)(s->n * groups * (u4b8 ? 2 : 1))};
    struct weight_source source = {.part = {&l}, .parts = 1, .nvfp4_max_scale = max_scale};
    p->memory[x] = aligned(weight_bytes(&source, 0));
    if (!p->memory[x])
        return FAIL(e, E_NOMEM, "%s: packed weights: out of memory", c->id);
    if (weight_pack(&source, s->act, 0, p->memory[x], &p->w[x], e))
        return e->code;
    if (s->format == WF_NVFP4) /* a checkpoint stores a divisor; a case gives the factor itself */
        p->w[x].global = w->global * ldexpf(128 / p->w[x].scale_factor, s->act == ACT_BF16 ? 119 : 7);
    p->w[x].bias = in->bias ? in->bias + (int64_t)x * s->n : NULL;
    return OK;
}

int vector_pack(const struct vector_case *c, const struct vector_inputs *in, struct vector_packed *p, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    float max_scale = 0;
    p->w = calloc((size_t)s->experts, sizeof *p->w);
    p->memory = calloc((size_t)s->experts, sizeof *p->memory);
    p->nibbles = malloc((size_t)s->n * (size_t)s->k / 2 + 1);
    if (!p->w || !p->memory || !p->nibbles)
        return FAIL(e, E_NOMEM, "%s: packed weights: out of memory", c->id);
    for (int x = 0; x < s->experts && s->format == WF_NVFP4; x++)
        max_scale = fmaxf(max_scale, scalar_max_scale(in->weight[x].scales, (long)s->n * (s->k / 16)));
    for (int x = 0; x < s->experts; x++)
        if (pack_expert(c, in, x, max_scale, p, e))
            return e->code;
    return OK;
}

int vector_run(const struct vector_case *c, const struct vector_inputs *in, const struct gemm_plan *plan,
               struct team *team, uint16_t *out, struct err *e)
{
    return vector_run_mutated(c, in, plan, NULL, team, out, e);
}

int vector_run_mutated(const struct vector_case *c, const struct vector_inputs *in, const struct gemm_plan *plan,
                       const struct mutation *mutation, struct team *team, uint16_t *out, struct err *e)
{
    struct vector_packed packed = {0};
    void *scratch = NULL;
    int rc = vector_pack(c, in, &packed, e);
    if (rc)
        goto out;
    struct gemm_problem p = {.plan = plan,
                             .w = packed.w,
                             .a = in->a,
                             .lda = c->shape.k,
                             .c = out,
                             .ldc = c->shape.n,
                             .sorted_routes = in->sorted_routes,
                             .block_experts = in->block_experts,
                             .route_weight = in->route_weight,
                             .mutation = mutation};
    scratch = aligned(gemm_scratch_bytes(&p, team_members(team)));
    rc = scratch ? gemm_run(&p, scratch, team, e) : FAIL(e, E_NOMEM, "%s: scratch: out of memory", c->id);
out:
    free(scratch);
    vector_unpack(&packed, c->shape.experts);
    return rc;
}

int vector_launches_check(const struct vector_case *c, enum vector_build build, const struct gemm_plan *plan,
                          struct err *e)
{
    if (plan->launches != c->launches[build])
        return FAIL(e, E_INTERNAL, "%s: %d launches planned, %d observed", c->id, plan->launches, c->launches[build]);
    for (int i = 0; i < plan->launches; i++) {
        const struct gemm_launch *l = &plan->launch[i];
        const int *o = c->launch[build][i], mine[7] = {l->rows, l->tk, l->tn, l->threads, l->mb, l->m8, l->grid};
        for (int j = 0; j < 7; j++)
            if (mine[j] != o[j])
                return FAIL(e, E_INTERNAL,
                            "%s: launch %d is planned as %d rows %dx%d/%d mb %d m8 %d grid %d, observed was %d rows "
                            "%dx%d/%d mb %d m8 %d grid %d",
                            c->id, i, mine[0], mine[1], mine[2], mine[3], mine[4], mine[5], mine[6], o[0], o[1], o[2],
                            o[3], o[4], o[5], o[6]);
    }
    return OK;
}
