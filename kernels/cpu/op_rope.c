/* rope - rotary embedding on halves of a head, in place
 *
 * shapes    x[rows][heads][d], table[position][d]: d/2 cosines then d/2 sines
 * units     bf16 in, table and out
 * rounding  products of bf16 are exact in fp32; one fp32 rounding of the sum, one to bf16
 * order     x' = x*c - y*s, y' = y*c + x*s with x the lower and y the upper half
 * specials  none
 * limits    positions inside the table
 */
#include "kernels/bits.h"
#include "kernels/ops.h"

void op_rope(int rows, int heads, int d, uint16_t *x, int stride, const int32_t *position, const uint16_t *table)
{
    for (int r = 0; r < rows; r++) {
        const uint16_t *c = table + (size_t)position[r] * (size_t)d, *s = c + d / 2;
        for (int head = 0; head < heads; head++) {
            uint16_t *lower = x + (size_t)r * (size_t)stride + (size_t)(head * d), *upper = lower + d / 2;
            for (int i = 0; i < d / 2; i++) {
                float a = bf16_to_f32(lower[i]), b = bf16_to_f32(upper[i]);
                float cos = bf16_to_f32(c[i]), sin = bf16_to_f32(s[i]);
                lower[i] = bf16_from_f32(a * cos - b * sin);
                upper[i] = bf16_from_f32(b * cos + a * sin);
            }
        }
    }
}
