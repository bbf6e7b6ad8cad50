/* 16-bit floats: one correctly rounded operation at a time, by way of double. */
#include "kernels/scalar/scalar.h"

#include <math.h>
#include <string.h>

static int fraction_bits(enum activation act)
{
    return act == ACT_BF16 ? 7 : 10;
}

static int smallest_exponent(enum activation act)
{
    return act == ACT_BF16 ? -126 : -14;
}

double scalar_widen(uint16_t h, enum activation act)
{
    int f = fraction_bits(act), bias = 1 - smallest_exponent(act), top = 2 * bias + 1;
    int exponent = (h & 0x7fff) >> f, fraction = h & ((1 << f) - 1);
    double magnitude = exponent == top ? (fraction ? NAN : INFINITY)
                       : exponent      ? ldexp(fraction + (1 << f), exponent - bias - f)
                                       : ldexp(fraction, 1 - bias - f);
    return h & 0x8000 ? -magnitude : magnitude;
}

uint16_t scalar_round(double x, enum activation act)
{
    int f = fraction_bits(act), low = smallest_exponent(act), bias = 1 - low, exponent;
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return 0x7fff;
    uint16_t infinity = (uint16_t)(sign | (2 * bias + 1) << f);
    if (isinf(x))
        return infinity;
    frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
    int quantum = (exponent - 1 > low ? exponent - 1 : low) - f;
    double units = nearbyint(ldexp(fabs(x), -quantum)); /* nearest even; the scaling is exact */
    if (units == ldexp(1, f + 1))
        units = ldexp(1, f), quantum++;
    if (quantum + f > bias)
        return infinity;
    if (units < ldexp(1, f)) /* subnormal or zero */
        return (uint16_t)(sign | (int)units);
    return (uint16_t)(sign | (quantum + f + bias) << f | ((int)units - (1 << f)));
}

uint16_t scalar_mul(uint16_t a, uint16_t b, enum activation act)
{
    return scalar_round(scalar_widen(a, act) * scalar_widen(b, act), act);
}

uint16_t scalar_add(uint16_t a, uint16_t b, enum activation act)
{
    return scalar_round(scalar_widen(a, act) + scalar_widen(b, act), act);
}

/* The sum is rounded to odd in double, so that the second rounding sees what the first one lost. */
uint16_t scalar_fma(uint16_t a, uint16_t b, uint16_t c, enum activation act)
{
    double p = scalar_widen(a, act) * scalar_widen(b, act), q = scalar_widen(c, act), s = p + q;
    if (isfinite(s)) {
        double back = s - p, lost = (p - (s - back)) + (q - back);
        uint64_t bits;
        memcpy(&bits, &s, sizeof bits);
        if (lost != 0 && !(bits & 1))
            s = nextafter(s, lost > 0 ? INFINITY : -INFINITY);
    }
    return scalar_round(s, act);
}
