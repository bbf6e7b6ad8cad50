/* tensor_core - d = c + sum a[j]*b[j], aligned and truncated
 *
 * shapes    one output; 8 or 16 products a step
 * units     16-bit inputs, fp32 accumulator
 * rounding  every term truncated towards zero to 2^(E-F), E the largest exponent; the sum truncated to fp32
 * order     none inside a step (the sum of the grid integers is exact)
 * specials  NaN out is 7fffffff; a zero term offers no exponent; a zero result is +0; 2^128 and above is infinity
 * limits    E has a floor, below it the grid stays put
 */
#include "kernels/tensor_core.h"

#include "kernels/bits.h"

struct term {
    int64_t significand; /* signed */
    int exponent;        /* of a significand in [0,4) (product) or [0,2) (accumulator) */
};

struct special {
    int nan, plus, minus;
};

struct tensor_core_rule tensor_core_rule(int sm)
{
    return sm >= 90 ? (struct tensor_core_rule){16, 25, -133} : (struct tensor_core_rule){8, 24, -132};
}

/* Splits a 16-bit float into significand and exponent; returns 0 finite, 1 infinite, 2 NaN. */
static int split(enum activation type, uint16_t h, int *significand, int *exponent)
{
    int bits = type == ACT_BF16 ? 7 : 10, bias = type == ACT_BF16 ? 127 : 15, top = 2 * bias + 1;
    int field = (h & 0x7fff) >> bits, fraction = h & ((1 << bits) - 1);
    *significand = field ? fraction | 1 << bits : fraction;
    *exponent = (field ? field : 1) - bias;
    return field < top ? 0 : fraction ? 2 : 1;
}

static struct term product(enum activation type, uint16_t a, uint16_t b, struct special *s)
{
    int sa, sb, ea, eb, ka = split(type, a, &sa, &ea), kb = split(type, b, &sb, &eb);
    int negative = (a ^ b) >> 15 & 1;
    if (ka || kb) {
        if (ka == 2 || kb == 2 || !sa || !sb)
            s->nan = 1;
        else if (negative)
            s->minus = 1;
        else
            s->plus = 1;
    }
    int64_t p = (int64_t)sa * sb;
    return (struct term){negative ? -p : p, ea + eb};
}

/* A term on the grid, cut toward zero. Only zeros can have an exponent above the alignment. */
static int64_t shifted(int64_t x, int by)
{
    if (!x)
        return 0;
    if (by >= 0)
        return x * ((int64_t)1 << by);
    uint64_t mag = (uint64_t)(x < 0 ? -x : x);
    mag = by > -64 ? mag >> -by : 0;
    return x < 0 ? -(int64_t)mag : (int64_t)mag;
}

/* sum * 2^exponent, truncated towards zero to fp32. */
static float truncated(int64_t sum, int exponent)
{
    if (!sum)
        return 0;
    uint64_t mag = (uint64_t)(sum < 0 ? -sum : sum);
    int top = 63 - __builtin_clzll(mag); /* value in [2^(top+exponent), ..) */
    int lsb = top + exponent - 23;       /* exponent of the last kept bit */
    lsb = lsb < -149 ? -149 : lsb;
    int by = lsb - exponent;
    mag = by >= 64 ? 0 : by >= 0 ? mag >> by : mag << -by;
    uint32_t sign = sum < 0 && mag ? 0x80000000u : 0;
    if (!mag)
        return 0;
    if (lsb + 23 > 127 + (mag >> 24 ? -1 : 0))
        return f32_from_bits(sign | 0x7f800000);
    if (mag < 1u << 23) /* only at the floor: a subnormal */
        return f32_from_bits(sign | (uint32_t)mag);
    return f32_from_bits(sign | (uint32_t)(lsb + 150) << 23 | ((uint32_t)mag & 0x7fffff));
}

static float step(struct tensor_core_rule rule, enum activation type, float c, const uint16_t *a, const uint16_t *b)
{
    struct term t[16];
    struct special s = {0};
    uint32_t cu = f32_bits(c);
    int fraction = type == ACT_BF16 ? 14 : 20, field = cu >> 23 & 255, highest = rule.floor_exp;
    if (field == 255) {
        s.nan |= (cu & 0x7fffff) != 0;
        s.plus |= !(cu >> 31);
        s.minus |= (int)(cu >> 31);
    }
    int64_t sc = (int64_t)(cu & 0x7fffff) | (field ? 1 << 23 : 0);
    struct term acc = {cu >> 31 ? -sc : sc, (field ? field : 1) - 127};
    for (int j = 0; j < rule.products; j++)
        t[j] = product(type, a[j], b[j], &s);
    if (s.nan || (s.plus && s.minus))
        return f32_from_bits(0x7fffffff);
    if (s.plus || s.minus)
        return f32_from_bits(s.minus ? 0xff800000 : 0x7f800000);
    for (int j = 0; j < rule.products; j++)
        if (t[j].significand && t[j].exponent > highest)
            highest = t[j].exponent;
    if (acc.significand && acc.exponent > highest)
        highest = acc.exponent;
    int64_t sum = shifted(acc.significand, rule.fraction - 23 + acc.exponent - highest);
    for (int j = 0; j < rule.products; j++)
        sum += shifted(t[j].significand, rule.fraction - fraction + t[j].exponent - highest);
    return truncated(sum, highest - rule.fraction);
}

float tensor_core_mma(struct tensor_core_rule rule, enum activation type, float c, const uint16_t *a, const uint16_t *b)
{
    for (int j = 0; j < 16; j += rule.products)
        c = step(rule, type, c, a + j, b + j);
    return c;
}
