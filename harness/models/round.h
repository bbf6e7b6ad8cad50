/* round - between bf16, fp16 and fp32 as bits
 *
 * rounding  to nearest, ties to even; overflow gives an infinity
 * specials  NaN stays a (quiet) NaN; subnormals are kept
 */
#ifndef ASSAY_MODELS_ROUND_H
#define ASSAY_MODELS_ROUND_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float float_of_bf16(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

static inline uint16_t bf16_of_float(float x)
{
    uint32_t u = bits_of_float(x);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float float_of_f16(uint16_t bits);

#endif
