/* silu_mul - y = bf(bf(g / (1 + exp(-g))) * up)
 *
 * shapes    x[rows][2*i] = gate | up, y[rows][i]
 * units     bf16 in and out
 * rounding  exp correctly rounded to fp32; 1 + exp and the quotient rounded to fp32; silu to bf16; product to bf16
 * order     none
 * specials  exp overflows below -88.7: the quotient is -0
 * limits    silu is a table of all 65536 arguments
 */
#include "kernels/bits.h"
#include "kernels/ops.h"

void op_silu_table(uint16_t *table)
{
    for (int i = 0; i < 65536; i++) {
        float g = bf16_to_f32((uint16_t)i);
        table[i] = bf16_from_f32(g / (1.0f + exact_exp(-g)));
    }
}

void op_silu_mul(int rows, int n, const uint16_t *x, uint16_t *y, const uint16_t *table)
{
    for (int r = 0; r < rows; r++) {
        const uint16_t *gate = x + (size_t)r * 2 * (size_t)n, *up = gate + n;
        for (int i = 0; i < n; i++)
            y[(size_t)r * (size_t)n + (size_t)i] =
                bf16_from_f32(bf16_to_f32(table[gate[i]]) * (bf16_to_f32(up[i]) + 0.0f));
    }
}
