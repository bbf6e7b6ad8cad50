#include "harness/models/round.h"

float float_of_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, mantissa = h & 0x3ff;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent)
        return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    float magnitude = (float)mantissa * 0x1p-24f; /* subnormal or zero, exact */
    return float_of_bits(sign | bits_of_float(magnitude));
}
