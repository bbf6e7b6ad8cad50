#include "harness/razor.h"

#include <math.h>
#include <string.h>

#define WIDEST_STEP 0.125 /* an inferred step above this says more about a short list than about a dtype */

int golden_significand_bits(const struct golden *g)
{
    static const struct {
        const char *name;
        int bits;
    } known[] = {{"bfloat16", 8}, {"bf16", 8},   {"float16", 11}, {"fp16", 11},    {"half", 11},
                 {"float32", 24}, {"float", 24}, {"fp32", 24},    {"float64", 53}, {"double", 53}};
    const char *dtype = json_string_value(json_object_get(json_object_get(g->header, "oracle"), "dtype"));
    for (size_t i = 0; dtype && i < sizeof known / sizeof *known; i++)
        if (!strcmp(dtype, known[i].name))
            return known[i].bits;
    return 0;
}

double ulp_at(double x, int bits)
{
    int exponent;
    if (!isfinite(x))
        return NAN;
    /* Below the smallest normal number of bf16 and fp32 the steps no longer shrink. */
    (void)frexp(fabs(x) < 0x1p-126 ? 0x1p-126 : x, &exponent);
    return ldexp(1.0, exponent - bits);
}

/* A log-probability is a rounded logit minus a rounded sum: its difference to another is off by a few fp32 steps. */
static int divides(double step, double x)
{
    double q = x / step;
    return fabs(q - nearbyint(q)) * step <= 8e-6;
}

double ulp_inferred(const struct view *v, int row)
{
    int n = 0;
    if (row < 0 || row >= v->rows)
        return NAN;
    const float *x = v->top_values + (size_t)row * (size_t)v->top_k;
    const int32_t *id = v->top_ids + (size_t)row * (size_t)v->top_k;
    while (n < v->top_k && id[n] >= 0)
        n++;
    if (n < 2)
        return NAN;
    for (double step = WIDEST_STEP; step > 0x1p-15; step /= 2) {
        int fits = 1;
        for (int i = 1; i < n; i++)
            fits &= isfinite(x[i]) && divides(step, (double)x[0] - (double)x[i]);
        if (fits)
            return step;
    }
    return NAN;
}

int row_is_finite(const struct view *v, int row)
{
    if (row < 0 || row >= v->rows || v->top_k < 1)
        return 0;
    for (int i = 0; i < v->top_k; i++) {
        size_t at = (size_t)row * (size_t)v->top_k + (size_t)i;
        if (v->top_ids[at] < 0)
            return i > 0 && isfinite(v->logsumexp[row]);
        if (!isfinite(v->top_values[at]))
            return 0;
    }
    return isfinite(v->logsumexp[row]);
}

struct gap gap_of(const struct view *v, int row, int32_t id, int bits)
{
    struct gap g = {.top_id = -1, .nats = NAN, .ulps = NAN, .bound_nats = NAN, .ulp = NAN};
    if (!row_is_finite(v, row))
        return g;
    const float *x = v->top_values + (size_t)row * (size_t)v->top_k;
    const int32_t *ids = v->top_ids + (size_t)row * (size_t)v->top_k;
    double top = x[0], least = x[0], found = NAN;
    for (int i = 0; i < v->top_k && ids[i] >= 0; i++) {
        top = x[i] > top ? x[i] : top;
        least = x[i] < least ? x[i] : least;
        found = ids[i] == id ? x[i] : found;
    }
    for (int i = 0; i < v->top_k && ids[i] >= 0; i++)
        if (x[i] == top && g.ties++ == 0)
            g.top_id = ids[i];
    g.finite = 1;
    g.inferred = v->kind == VALUE_LOGPROB || bits == 0;
    g.ulp = g.inferred ? ulp_inferred(v, row) : ulp_at(top, bits);
    g.stored = !isnan(found);
    g.bound_nats = top - (g.stored ? found : least);
    if (g.stored) {
        g.nats = g.bound_nats;
        g.ulps = g.nats == 0 ? 0 : g.nats / g.ulp;
    }
    return g;
}

/* Where the batch pass first leaves the lone stream, its id's gap is noise of the oracle; elsewhere NaN. */
static double batch_gap(const struct golden_prompt *p, const struct batch_pass *b, int position, int bits)
{
    if (!b->ids || position >= b->n || position >= p->n || b->ids[position] == p->ids[position])
        return NAN;
    if (memcmp(b->ids, p->ids, (size_t)position * sizeof *b->ids))
        return NAN;
    return gap_of(&p->decode, position, b->ids[position], bits).nats;
}

struct jitter jitter_at(const struct golden_prompt *p, int position, int32_t id, int bits)
{
    struct jitter j = {NAN, NAN, 0};
    struct gap decode = gap_of(&p->decode, position, id, bits), prefill = gap_of(&p->prefill, position, id, bits);
    if (decode.stored && prefill.stored)
        j.self_nats = fabs(decode.nats - prefill.nats);
    for (int i = 0; i < p->batches; i++)
        j.batch_nats = fmax(j.batch_nats, batch_gap(p, &p->batch[i], position, bits));
    j.nats = fmax(fmax(j.self_nats, j.batch_nats), 0);
    return j;
}

double razor_width(const struct razor_rule *r, double ulp, double jitter_nats)
{
    /* fmax and fmin drop NaN: without a ULP the razor is the jitter alone. */
    return fmin(r->cap_nats, fmax(fmax(r->ulps * ulp, jitter_nats), 0));
}

enum verdict razor_verdict(const struct gap *g, double razor_nats)
{
    if (!g->finite)
        return V_NON_FINITE;
    if (!g->stored)
        return g->bound_nats > razor_nats ? V_DIVERGENT : V_CASCADE;
    if (g->nats == 0)
        return g->ties >= 2 ? V_TIE_EXACT : V_ORACLE_SPLIT;
    return g->nats > 0 && g->nats <= razor_nats ? V_NEAR_TIE : V_DIVERGENT;
}
