/* Makes the inputs of a case again: codes, scales, activations, routes; all from splitmix64. */
#include "kernels/vectors/vectors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"norm", "cancel", "wide", "tiny", "big", "spec", "lows"};

uint64_t vector_random(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* FNV-1a of "tag|format|dtype|n|k|group|kind|number". */
static uint64_t seed_of(const struct vector_case *c, const char *tag, int number)
{
    char text[160];
    const struct gemm_shape *s = &c->shape;
    snprintf(text, sizeof text, "%s|%s|%s|%d|%d|%d|%s|%d", tag, format_name(s->format), activation_name(s->act), s->n,
             s->k, c->group, kinds[c->kind], number);
    uint64_t hash = 0xcbf29ce484222325u;
    for (const char *p = text; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 0x100000001b3u;
    return hash;
}

/* Nearly normal: four 16-bit numbers added, centred. */
static double bell(uint64_t u)
{
    return (double)((int64_t)((u & 0xffff) + (u >> 16 & 0xffff) + (u >> 32 & 0xffff) + (u >> 48)) - 131070);
}

static void make_codes(const struct vector_case *c, int expert, uint8_t *out)
{
    int k = c->shape.k, half = k / 2;
    uint64_t seed = seed_of(c, "codes", expert), word = 0, last = UINT64_MAX;
    for (int n = 0; n < c->shape.n; n++)
        for (int q = 0; q < k; q++) {
            uint64_t i = (uint64_t)n * k + (c->kind == KIND_CANCEL && q >= half ? q - half : q);
            if (i / 16 != last)
                last = i / 16, word = vector_random(seed, last);
            *out++ = word >> 4 * (i % 16) & 15;
        }
}

static uint16_t u4b8_scale(const struct vector_case *c, uint64_t u, int column, int g)
{
    int bf16 = c->shape.act == ACT_BF16, step = u >> 20 & 3;
    if (c->kind == KIND_SPEC && g == 0 && column % 8 == 3)
        return bf16 ? 0x7f80 : 0x7c00;
    if (c->kind == KIND_SPEC && g == 0 && column % 8 == 5)
        return bf16 ? 0x7fc1 : 0x7e01;
    return (uint16_t)(bf16 ? (120 + step) << 7 | (u & 127) : (8 + step) << 10 | (u & 1023));
}

static uint8_t mxfp4_scale(const struct vector_case *c, uint64_t u)
{
    static const uint8_t odd[16] = {0, 1, 2, 120, 124, 252, 253, 254, 255, 127, 3, 110, 130, 126, 125, 128};
    return c->kind == KIND_SPEC ? odd[u & 15] : (uint8_t)(119 + (u >> 8) % 12);
}

static uint8_t nvfp4_scale(const struct vector_case *c, uint64_t u)
{
    unsigned r = u & 255, b = 0x28 + (unsigned)((u >> 8) % 0x50);
    if (c->kind == KIND_LOWS)
        return (uint8_t)(1 + (u >> 8) % 0x38);
    if (r < 8)
        b = (unsigned)((u >> 16) % 0x28);
    if (r == 255)
        b = 0x7e;
    if (c->kind == KIND_SPEC && r >= 8 && r < 40)
        b |= 0x80;
    return (uint8_t)b;
}

static void make_scales(const struct vector_case *c, int expert, int groups, void *out)
{
    uint64_t seed = seed_of(c, "scales", expert);
    for (int n = 0; n < c->shape.n; n++)
        for (int g = 0; g < groups; g++) {
            int from = c->kind != KIND_CANCEL ? g : groups % 2 ? 0 : g % (groups / 2);
            long at = (long)n * groups + g;
            uint64_t u = vector_random(seed, (uint64_t)n * groups + from);
            if (c->shape.format == WF_U4B8)
                ((uint16_t *)out)[at] = u4b8_scale(c, u, n, g);
            else
                ((uint8_t *)out)[at] = c->shape.format == WF_MXFP4 ? mxfp4_scale(c, u) : nvfp4_scale(c, u);
        }
}

static int make_weight(const struct vector_case *c, int expert, struct scalar_weight *w, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    int groups = s->group ? s->k / s->group : 1;
    uint8_t *codes = malloc((size_t)s->n * (size_t)s->k);
    void *scales = malloc((size_t)s->n * (size_t)groups * 2);
    w->codes = codes, w->scales = scales;
    if (!codes || !scales)
        return FAIL(e, E_NOMEM, "%s: weights: out of memory", c->id);
    make_codes(c, expert, codes);
    make_scales(c, expert, groups, scales);
    uint32_t bits = 0x3a000000 + (uint32_t)(vector_random(seed_of(c, "glob", expert), 0) & 0x7fffff);
    memcpy(&w->global, &bits, sizeof bits);
    return OK;
}

static uint16_t activation(const struct vector_case *c, uint64_t seed, uint64_t seed2, int row, int q)
{
    int k = c->shape.k, half = k / 2, mirrored = c->kind == KIND_CANCEL && q >= half, from = mirrored ? q - half : q;
    uint64_t i = (uint64_t)row * k + from;
    int x = -15;
    if (c->kind == KIND_WIDE)
        x += (int)(vector_random(seed2, i) >> 60) - 8;
    if (c->kind == KIND_TINY)
        x -= 22;
    if (c->kind == KIND_BIG)
        x += 12;
    uint16_t a = scalar_round(ldexp(bell(vector_random(seed, i)), x), c->shape.act);
    if (mirrored)
        a ^= 0x8000 | (from == (row * 37 + 11) % half);
    return a;
}

static void make_activations(const struct vector_case *c, uint16_t *a)
{
    uint64_t seed = seed_of(c, "A", 0), seed2 = seed_of(c, "A2", 0);
    int k = c->shape.k, bf16 = c->shape.act == ACT_BF16;
    for (int row = 0; row < c->shape.m; row++, a += k) {
        for (int q = 0; q < k; q++)
            a[q] = activation(c, seed, seed2, row, q);
        if (c->kind != KIND_SPEC || row % 4 == 0)
            continue;
        a[5] = row % 4 == 2 ? (bf16 ? 0x7fc1 : 0x7e01) : bf16 ? 0x7f80 : 0x7c00;
        if (row % 4 == 3)
            a[9] = bf16 ? 0xff80 : 0xfc00;
    }
}

static int make_bias(const struct vector_case *c, struct vector_inputs *in, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    in->bias = malloc((size_t)s->experts * (size_t)s->n * sizeof *in->bias);
    if (!in->bias)
        return FAIL(e, E_NOMEM, "%s: bias: out of memory", c->id);
    for (int x = 0; x < s->experts; x++)
        for (int n = 0; n < s->n; n++)
            in->bias[(long)x * s->n + n] =
                scalar_round(ldexp(bell(vector_random(seed_of(c, "bias", x), (uint64_t)n)), -15), s->act);
    return OK;
}

static void make_routes(const struct vector_case *c, int32_t *expert)
{
    const struct gemm_shape *s = &c->shape;
    uint64_t seed = seed_of(c, "route", s->m), n = (uint64_t)s->experts;
    for (int t = 0; t < s->m; t++) {
        uint64_t first = n > 1 ? vector_random(seed, (uint64_t)t * s->topk) % n : 0;
        expert[t * s->topk] = (int32_t)first;
        if (s->topk == 2)
            expert[2 * t + 1] = (int32_t)((first + 1 + vector_random(seed, 2 * (uint64_t)t + 1) % (n - 1)) % n);
    }
}

static int make_routing(const struct vector_case *c, struct vector_inputs *in, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    int routes = s->m * s->topk, capacity = s->blocks * s->block_rows;
    int32_t *expert = malloc((size_t)routes * sizeof *expert);
    in->sorted_routes = malloc((size_t)capacity * sizeof *in->sorted_routes);
    in->block_experts = malloc((size_t)s->blocks * sizeof *in->block_experts);
    in->route_weight = c->mul ? malloc((size_t)routes * sizeof *in->route_weight) : NULL;
    if (!expert || !in->sorted_routes || !in->block_experts || (c->mul && !in->route_weight)) {
        free(expert);
        return FAIL(e, E_NOMEM, "%s: routes: out of memory", c->id);
    }
    make_routes(c, expert);
    in->route_expert = expert;
    in->blocks =
        align_routes(expert, routes, s->experts, s->block_rows, in->sorted_routes, capacity, in->block_experts);
    if (in->blocks != s->blocks)
        return FAIL(e, E_INPUT, "%s: \"blocks\" is %d, but its routes make %d", c->id, s->blocks, in->blocks);
    for (int r = 0; c->mul && r < routes; r++) {
        uint32_t bits = 0x3e000000 + (uint32_t)(vector_random(seed_of(c, "tw", s->m), (uint64_t)r) & 0xffffff);
        memcpy(&in->route_weight[r], &bits, sizeof bits);
    }
    return OK;
}

static int make(const struct vector_case *c, int without_weights, struct vector_inputs *in, struct err *e)
{
    const struct gemm_shape *s = &c->shape;
    memset(in, 0, sizeof *in);
    in->weight = calloc((size_t)s->experts, sizeof *in->weight);
    in->a = malloc((size_t)s->m * (size_t)s->k * sizeof *in->a);
    int rc = in->weight && in->a ? OK : FAIL(e, E_NOMEM, "%s: inputs: out of memory", c->id);
    for (int x = 0; x < s->experts && !rc && !without_weights; x++)
        rc = make_weight(c, x, &in->weight[x], e);
    if (!rc)
        make_activations(c, in->a);
    if (!rc && c->bias)
        rc = make_bias(c, in, e);
    if (!rc && s->route != ROUTE_DENSE)
        rc = make_routing(c, in, e);
    if (rc)
        vector_inputs_free(c, in);
    return rc;
}

int vector_inputs_make(const struct vector_case *c, struct vector_inputs *in, struct err *e)
{
    return make(c, 0, in, e);
}

int vector_inputs_make_rest(const struct vector_case *c, struct vector_inputs *in, struct err *e)
{
    return make(c, 1, in, e);
}

void vector_inputs_free(const struct vector_case *c, struct vector_inputs *in)
{
    for (int x = 0; in->weight && x < c->shape.experts; x++) {
        free((void *)(size_t)in->weight[x].codes);
        free((void *)(size_t)in->weight[x].scales);
    }
    free(in->weight);
    free(in->a);
    free(in->bias);
    free(in->sorted_routes);
    free(in->block_experts);
    free(in->route_expert);
    free(in->route_weight);
    memset(in, 0, sizeof *in);
}
