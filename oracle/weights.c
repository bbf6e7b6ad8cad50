#include "oracle/weights.h"

#include <math.h>
#include <string.h>

double oracle_bf16(uint16_t h)
{
    int sign = h >> 15, exponent = h >> 7 & 255, fraction = h & 127;
    double mag;
    if (exponent == 255)
        mag = fraction ? NAN : INFINITY;
    else
        mag = exponent ? ldexp(1 + fraction / 128.0, exponent - 127) : ldexp(fraction / 128.0, -126);
    return sign ? -mag : mag;
}

double oracle_f16(uint16_t h)
{
    int sign = h >> 15, exponent = h >> 10 & 31, fraction = h & 1023;
    double mag;
    if (exponent == 31)
        mag = fraction ? NAN : INFINITY;
    else
        mag = exponent ? ldexp(1 + fraction / 1024.0, exponent - 15) : ldexp(fraction / 1024.0, -14);
    return sign ? -mag : mag;
}

double oracle_e4m3(uint8_t b)
{
    int exponent = b >> 3 & 15, fraction = b & 7;
    double mag = exponent ? ldexp(1 + fraction / 8.0, exponent - 7) : ldexp(fraction / 8.0, -6);
    if (exponent == 15 && fraction == 7)
        return NAN;
    return b >> 7 ? -mag : mag;
}

double oracle_e8m0(uint8_t b)
{
    return b == 255 ? NAN : ldexp(1, b - 127);
}

double oracle_e2m1(int code)
{
    int exponent = code >> 1 & 3, fraction = code & 1;
    double mag = exponent ? ldexp(1 + fraction / 2.0, exponent - 1) : fraction / 2.0;
    return code & 8 ? -mag : mag;
}

uint16_t oracle_to_bf16(double x)
{
    if (isnan(x))
        return 0x7fff;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double mag = fabs(x);
    int exponent;
    if (mag == 0)
        return sign;
    frexp(mag, &exponent); /* mag in [2^(exponent-1), 2^exponent) */
    int lsb = exponent - 8 < -133 ? -133 : exponent - 8;
    double units = nearbyint(ldexp(mag, -lsb)); /* nearest even, exact scaling */
    mag = ldexp(units, lsb);
    if (mag >= ldexp(1, 128))
        return sign | 0x7f80;
    if (mag < ldexp(1, -126))
        return (uint16_t)(sign | (uint16_t)ldexp(mag, 133));
    double fraction = frexp(mag, &exponent) * 2 - 1;
    return (uint16_t)(sign | (uint16_t)(exponent + 126) << 7 | (uint16_t)(fraction * 128));
}

static int byte_at(const void *p, int64_t i)
{
    return ((const unsigned char *)p)[i];
}

static int code_at(const struct linear *l, int row, int k)
{
    const void *p = l->weight.data;
    if (l->packing == PACK_BYTES)
        return byte_at(p, ((int64_t)row * l->k + k) / 2) >> (k % 2 ? 4 : 0) & 15;
    /* words of eight nibbles, lowest first; a byte holds two */
    int64_t word = l->packing == PACK_WORDS ? (int64_t)row * ((l->k + 7) / 8) + k / 8 : (int64_t)(k / 8) * l->n + row;
    return byte_at(p, 4 * word + k % 8 / 2) >> (k % 2 ? 4 : 0) & 15;
}

static uint16_t half_at(const void *p, int64_t i)
{
    return (uint16_t)(byte_at(p, 2 * i) | byte_at(p, 2 * i + 1) << 8);
}

static double scale_at(const struct linear *l, int row, int k)
{
    int groups = l->group ? l->k / l->group : 1, g = l->group ? k / l->group : 0;
    int64_t i = l->packing == PACK_GPTQ_K ? (int64_t)g * l->n + row : (int64_t)row * groups + g;
    switch (l->format) {
    case WF_NVFP4: return oracle_e4m3((uint8_t)byte_at(l->scale.data, i));
    case WF_MXFP4: return oracle_e8m0((uint8_t)byte_at(l->scale.data, i));
    default:
        return l->scale.dtype == DT_F16 ? oracle_f16(half_at(l->scale.data, i))
                                        : oracle_bf16(half_at(l->scale.data, i));
    }
}

void oracle_decode(const struct linear *l, float *w)
{
    for (int row = 0; row < l->n; row++)
        for (int k = 0; k < l->k; k++) {
            double x;
            if (l->format == WF_PLAIN)
                x = oracle_bf16(half_at(l->weight.data, (int64_t)row * l->k + k));
            else if (l->format == WF_U4B8)
                x = (code_at(l, row, k) - 8) * scale_at(l, row, k);
            else
                x = oracle_e2m1(code_at(l, row, k)) * scale_at(l, row, k);
            w[(int64_t)row * l->k + k] = (float)x;
        }
}

void oracle_product(const struct linear *l, const float *w, const double *x, double *y)
{
    for (int row = 0; row < l->n; row++) {
        const float *r = w + (int64_t)row * l->k;
        double sum = 0;
        for (int k = 0; k < l->k; k++)
            sum += r[k] * x[k];
        y[row] = sum / l->global_scale + (l->bias.data ? oracle_bf16(half_at(l->bias.data, row)) : 0);
    }
}
