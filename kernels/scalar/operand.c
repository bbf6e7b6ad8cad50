/* Operand formation: codes and scales to what the tensor core multiplies; spec marlin-numerics 1. */
#include "kernels/scalar/scalar.h"

#include <math.h>

static float e4m3(uint8_t b)
{
    int exponent = b >> 3 & 15, fraction = b & 7;
    if ((b & 0x7f) == 0x7f)
        return NAN;
    float x = exponent ? ldexpf((float)(8 + fraction), exponent - 10) : ldexpf((float)fraction, -9);
    return b & 0x80 ? -x : x;
}

float scalar_max_scale(const uint8_t *scales, long count)
{
    float most = 0;
    for (long i = 0; i < count; i++)
        if (e4m3(scales[i]) > most)
            most = e4m3(scales[i]);
    return most;
}

/* sf of section 1.4. */
static float scale_factor(enum activation act, float most)
{
    if (act == ACT_F16 || most <= 0 || 128 * most >= 57344)
        return 1;
    return exp2f(floorf(log2f(57344 / (128 * most))));
}

/* The re-encoded byte, and how the kernel reads it. */
static uint16_t nvfp4_scale(uint8_t b, enum activation act, float sf, int keep_small)
{
    float s = e4m3(b) * sf * 128;
    if (!(s >= 2) && !(keep_small && s > 0))
        return 0;
    uint16_t byte = scalar_round(s, ACT_F16) << 1 >> 8 & 0xff, exponent = byte >> 3, fraction = byte & 7;
    if (act == ACT_F16)
        return (uint16_t)(exponent << 10 | fraction << 7);
    return (uint16_t)((exponent >> 4 << 7 | (exponent & 15)) << 7 | fraction << 4);
}

static uint16_t e2m1_raw(int code, enum activation act)
{
    return (uint16_t)((code & 8) << 12 | (code & 7) << (act == ACT_BF16 ? 6 : 9));
}

static uint16_t truncated_product(uint16_t a, uint16_t b, enum activation act)
{
    double exact = scalar_widen(a, act) * scalar_widen(b, act);
    uint16_t r = scalar_round(exact, act);
    if (isfinite(exact) && fabs(scalar_widen(r, act)) > fabs(exact))
        r--;
    return r;
}

static uint16_t operand(const struct gemm_shape *s, int code, const void *scales, long at, float sf,
                        const struct scalar_mutation *x)
{
    enum activation act = s->act;
    uint16_t d;
    switch (s->format) {
    case WF_U4B8:
        d = scalar_round(code - 8, act);
        if (!s->group)
            return d;
        return x->truncate_operand ? truncated_product(d, ((const uint16_t *)scales)[at], act)
                                   : scalar_mul(d, ((const uint16_t *)scales)[at], act);
    case WF_NVFP4:
        return scalar_mul(e2m1_raw(code, act), nvfp4_scale(((const uint8_t *)scales)[at], act, sf, x->keep_small), act);
    default: /* MXFP4: 2^126 restores E2M1; byte 255 is infinity, byte 0 is zero, as bf16 bits say */
        d = scalar_mul(e2m1_raw(code, act), scalar_round(0x1p126, act), act);
        return scalar_mul(d, (uint16_t)(((const uint8_t *)scales)[at] << 7), act);
    }
}

void scalar_operands(const struct gemm_shape *s, const struct scalar_weight *w, float max_scale,
                     const struct scalar_mutation *x, uint16_t *out, float *global)
{
    float sf = s->format == WF_NVFP4 ? scale_factor(s->act, max_scale) : 1;
    int groups = s->group ? s->k / s->group : 1;
    *global = s->format == WF_NVFP4 ? w->global * ldexpf(1 / sf, s->act == ACT_BF16 ? 119 : 7) : 1;
    for (int n = 0; n < s->n; n++)
        for (int g = 0; g < groups; g++) {
            int length = s->k / groups;
            uint16_t value[16];
            long at = (long)n * groups + (x->wrong_group ? (g + 1) % groups : g);
            for (int code = 0; code < 16; code++)
                value[code] = operand(s, code, w->scales, at, sf, x);
            for (int k = g * length; k < (g + 1) * length; k++)
                out[(long)n * s->k + k] = value[w->codes[(long)n * s->k + k]];
        }
}
