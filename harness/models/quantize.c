#include "harness/models/quantize.h"

#include "harness/models/round.h"

#include <math.h>

uint16_t quantize_largest(const uint16_t *w, int64_t count, int64_t *bad)
{
    uint16_t largest = 0;
    *bad = -1;
    for (int64_t i = 0; i < count; i++) {
        uint16_t a = w[i] & 0x7fff;
        largest = a > largest ? a : largest;
    }
    for (int64_t i = 0; largest >= 0x7f80 && i < count; i++)
        if ((w[i] & 0x7fff) >= 0x7f80) {
            *bad = i;
            break;
        }
    return largest;
}

static float bf(float x)
{
    return float_of_bf16(bf16_of_float(x));
}

float quantize_global(uint16_t amax)
{
    if (!amax)
        return 1;
    return bf(bf(1.0f / float_of_bf16(amax)) * 2688.0f);
}

/* To nearest even, clamped to 448; x is not negative. */
static uint8_t e4m3_of_float(float x)
{
    if (x >= 448)
        return 0x7e;
    if (x < 0x1p-6f)
        return (uint8_t)rintf(x * 0x1p9f); /* subnormal steps of 2^-9; 8 of them is the first normal */
    uint32_t u = bits_of_float(x);
    u += 0x7ffff + (u >> 20 & 1);
    return (uint8_t)((u >> 20) - (120u << 3));
}

static float float_of_e4m3(uint8_t b)
{
    return b < 8 ? (float)b * 0x1p-9f : float_of_bits(((uint32_t)b + (120u << 3)) << 20);
}

/* y is |x| over its scale; ties go to the even code. */
static unsigned e2m1_of_float(float y)
{
    return (unsigned)(y > 0.25f) + (y >= 0.75f) + (y > 1.25f) + (y >= 1.75f) + (y > 2.5f) + (y >= 3.5f) + (y > 5.0f);
}

static void pack_e2m1(const uint16_t *w, int count, float scale, uint8_t *codes)
{
    for (int i = 0; i < count; i += 2) {
        unsigned code[2];
        for (int j = 0; j < 2; j++) {
            uint16_t x = w[i + j];
            code[j] = e2m1_of_float(float_of_bf16(x & 0x7fff) / scale) | (unsigned)(x >> 15) << 3;
        }
        codes[i / 2] = (uint8_t)(code[0] | code[1] << 4);
    }
}

static uint16_t largest_of(const uint16_t *w, int64_t count)
{
    uint16_t largest = 0;
    for (int64_t i = 0; i < count; i++) {
        uint16_t a = w[i] & 0x7fff;
        largest = a > largest ? a : largest;
    }
    return largest;
}

void quantize_nvfp4(const uint16_t *w, int64_t n, int64_t k, float g, uint8_t *codes, uint8_t *scale)
{
    for (int64_t i = 0; i < n * k / 16; i++) {
        float s = bf(float_of_bf16(largest_of(w + 16 * i, 16)) / 6.0f);
        scale[i] = e4m3_of_float(g * s);
        pack_e2m1(w + 16 * i, 16, float_of_e4m3(scale[i] ? scale[i] : 1) / g, codes + 8 * i);
    }
}

void quantize_mxfp4(const uint16_t *w, int64_t n, int64_t k, uint8_t *codes, uint8_t *scale)
{
    for (int64_t i = 0; i < n * k / 32; i++) {
        int exponent = ((largest_of(w + 32 * i, 32) + 0x20) >> 7) - 2;
        scale[i] = (uint8_t)(exponent < 0 ? 0 : exponent);
        pack_e2m1(w + 32 * i, 32, ldexpf(1, scale[i] - 127), codes + 16 * i);
    }
}

void quantize_int4(const uint16_t *w, int64_t n, int64_t k, int64_t group, int32_t *words, uint16_t *scale)
{
    for (int64_t i = 0; i < n * k / group; i++) {
        const uint16_t *x = w + i * group;
        uint16_t s = bf16_of_float(float_of_bf16(largest_of(x, group)) / 7.5f);
        scale[i] = s ? s : bf16_of_float(0x1p-7f);
        float divisor = float_of_bf16(scale[i]);
        for (int64_t word = 0; word < group / 8; word++) {
            uint32_t packed = 0;
            for (int j = 0; j < 8; j++) {
                float q = rintf(bf(float_of_bf16(x[8 * word + j]) / divisor));
                q = q < -8 ? -8 : q > 7 ? 7 : q;
                packed |= (uint32_t)((int)q + 8) << 4 * j;
            }
            memcpy(&words[i * (group / 8) + word], &packed, sizeof packed);
        }
    }
}
