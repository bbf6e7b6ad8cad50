/* The tensor core's fused step: exact products on a truncated grid; spec tensor-core 1. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

struct term {
    int sign, exponent, fraction_bits; /* value = +-significand * 2^(exponent - fraction_bits) */
    uint64_t significand;
    int infinite, nan;
};

struct tensor_core scalar_tensor_core(int sm)
{
    return sm < 90 ? (struct tensor_core){8, 24, -132, -20} : (struct tensor_core){16, 25, -133, -21};
}

/* `f` fraction bits below `e` exponent bits; subnormals keep the smallest normal exponent and their leading zeros. */
static struct term unpack(uint32_t bits, int e, int f)
{
    int field = bits >> f & ((1 << e) - 1), bias = (1 << (e - 1)) - 1;
    uint32_t fraction = bits & ((1u << f) - 1);
    struct term t = {.sign = bits >> (e + f) & 1, .fraction_bits = f};
    if (field == (1 << e) - 1) {
        t.nan = fraction != 0;
        t.infinite = !t.nan;
        return t;
    }
    t.exponent = (field ? field : 1) - bias;
    t.significand = fraction | (field ? 1u << f : 0);
    return t;
}

static struct term unpack16(uint16_t h, enum activation act)
{
    return act == ACT_BF16 ? unpack(h, 8, 7) : unpack(h, 5, 10);
}

static struct term multiply(struct term a, struct term b)
{
    struct term t = {.sign = a.sign ^ b.sign,
                     .exponent = a.exponent + b.exponent,
                     .fraction_bits = a.fraction_bits + b.fraction_bits,
                     .significand = a.significand * b.significand};
    int zero_a = !a.nan && !a.infinite && !a.significand, zero_b = !b.nan && !b.infinite && !b.significand;
    t.nan = a.nan || b.nan || (a.infinite && zero_b) || (b.infinite && zero_a);
    t.infinite = !t.nan && (a.infinite || b.infinite);
    return t;
}

enum outcome { FINITE, PLUS_INFINITY, MINUS_INFINITY, NOT_A_NUMBER };

/* Sum of the terms in units of 2^*quantum. */
static enum outcome add_terms(const struct term *t, int n, int fraction, int floor_exponent, int64_t *sum, int *quantum)
{
    int nan = 0, plus = 0, minus = 0, largest = floor_exponent;
    for (int i = 0; i < n; i++) {
        nan |= t[i].nan;
        plus |= t[i].infinite && !t[i].sign;
        minus |= t[i].infinite && t[i].sign;
        if (t[i].significand && t[i].exponent > largest)
            largest = t[i].exponent;
    }
    if (nan || (plus && minus))
        return NOT_A_NUMBER;
    if (plus || minus)
        return plus ? PLUS_INFINITY : MINUS_INFINITY;
    *quantum = largest - fraction;
    *sum = 0;
    for (int i = 0; i < n; i++) {
        int left = t[i].exponent - t[i].fraction_bits - *quantum;
        uint64_t units = left >= 0 ? t[i].significand << (left & 63) : left > -64 ? t[i].significand >> -left : 0;
        if (!t[i].significand)
            units = 0;
        *sum += t[i].sign ? -(int64_t)units : (int64_t)units;
    }
    return FINITE;
}

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float truncate_f32(int64_t sum, int quantum)
{
    uint64_t magnitude = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
    int top = -1;
    while (magnitude >> (top + 1))
        top++;
    if (top + quantum >= 128)
        return sum < 0 ? -INFINITY : INFINITY;
    int drop = top - 23;
    if (quantum + drop < -149)
        drop = -149 - quantum;
    if (drop > 63)
        return 0;
    if (drop > 0)
        magnitude >>= drop;
    else
        drop = 0;
    if (!magnitude)
        return 0;
    float x = ldexpf((float)magnitude, quantum + drop);
    return sum < 0 ? -x : x;
}

static void fill(struct term *t, enum activation act, const uint16_t *a, const uint16_t *b, int n)
{
    for (int i = 0; i < n; i++)
        t[i] = multiply(unpack16(a[i], act), unpack16(b[i], act));
}

float scalar_mma(const struct tensor_core *tc, enum activation act, float c, const uint16_t *a, const uint16_t *b,
                 int count)
{
    for (int k = 0; k < count; k += tc->products) {
        struct term t[17];
        int n = count - k < tc->products ? count - k : tc->products, quantum;
        int64_t sum;
        uint32_t bits;
        memcpy(&bits, &c, sizeof bits);
        fill(t, act, a + k, b + k, n);
        t[n] = unpack(bits, 8, 23);
        switch (add_terms(t, n + 1, tc->fraction, tc->floor_f32, &sum, &quantum)) {
        case NOT_A_NUMBER: c = from_bits(0x7fffffff); break;
        case PLUS_INFINITY: c = INFINITY; break;
        case MINUS_INFINITY: c = -INFINITY; break;
        case FINITE: c = truncate_f32(sum, quantum); break;
        }
    }
    return c;
}

uint16_t scalar_mma_f16(const struct tensor_core *tc, uint16_t c, const uint16_t *a, const uint16_t *b, int count)
{
    for (int k = 0; k < count; k += tc->products) {
        struct term t[17];
        int n = count - k < tc->products ? count - k : tc->products, quantum;
        int64_t sum;
        fill(t, ACT_F16, a + k, b + k, n);
        t[n] = unpack(c, 5, 10);
        switch (add_terms(t, n + 1, tc->fraction, tc->floor_f16, &sum, &quantum)) {
        case NOT_A_NUMBER: c = 0x7fff; break;
        case PLUS_INFINITY: c = 0x7c00; break;
        case MINUS_INFINITY: c = 0xfc00; break;
        case FINITE: c = scalar_round(ldexp((double)sum, quantum), ACT_F16); break;
        }
        if (c == 0x8000) /* a zero result is +0 */
            c = 0;
    }
    return c;
}
