/* bits - 16-bit floats, their one rounding, and bit casts, on the side under test */
#ifndef ASSAY_KERNELS_BITS_H
#define ASSAY_KERNELS_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline float bf16_to_f32(uint16_t h)
{
    return f32_from_bits((uint32_t)h << 16);
}

/* Nearest even; every NaN becomes 7fff, as the GPU's conversion gives it. */
static inline uint16_t bf16_from_f32(float x)
{
    uint32_t u = f32_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, frac = h & 0x3ff;
    if (exp == 31)
        return f32_from_bits(sign | 0x7f800000 | frac << 13);
    if (exp)
        return f32_from_bits(sign | (exp + 112) << 23 | frac << 13);
    float tiny = (float)frac * 0x1p-24f; /* exact */
    return sign ? -tiny : tiny;
}

/* Nearest even, gradual underflow, overflow to infinity; every NaN becomes 7fff. */
static inline uint16_t f16_from_f32(float x)
{
    uint32_t u = f32_bits(x), sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000)
        return 0x7fff;
    if (mag >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (mag < 0x38800000) {                                   /* below 2^-14: multiples of 2^-24 */
        float units = f32_from_bits(mag) * 0x1p24f + 0x1p23f; /* the addition rounds to an integer, nearest even */
        return (uint16_t)(sign | (f32_bits(units) - 0x4b000000));
    }
    uint32_t rounded = mag + 0xfff + (mag >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

#endif
