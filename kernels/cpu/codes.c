#include "kernels/codes.h"

#include "kernels/bits.h"

#include <string.h>

#define REACH 25 /* binades below the top that a key can tell apart */

void code_prepare_row(const struct prepared_rows *r, int row, struct code_block *out)
{
    const uint16_t *a = r->raw + (size_t)row * (size_t)r->k;
    const uint8_t *state = r->state + (size_t)row * (size_t)(r->k / 16);
    for (int b = 0; b < r->k / 16; b++, a += 16, out++) {
        int top = -1000, lsb = 1000, least = 1000;
        if (state[b] != BLOCK_NORMAL) {
            out->state = state[b] == BLOCK_ZERO ? CODE_ZERO : CODE_SCALAR;
            continue;
        }
        for (int k = 0; k < 16; k++) {
            int mag = a[k] & 0x7fff, field = mag >> 7, low = __builtin_ctz((unsigned)(mag & 127) | 128);
            int exponent = field - 127;
            if (!mag)
                continue;
            top = exponent > top ? exponent : top;
            least = exponent < least ? exponent : least;
            lsb = exponent - 7 + low < lsb ? exponent - 7 + low : lsb;
        }
        out->top = top;
        out->lsb = lsb;
        out->state = least < -126 || top - least > REACH ? CODE_SCALAR : top - lsb < 15 ? CODE_INTEGER : CODE_FLOAT;
        for (int k = 0; k < 16; k++) {
            int mag = a[k] & 0x7fff, exponent = (mag >> 7) - 127, shift = exponent - 7 - lsb;
            int significand = (mag & 127) | 128;
            int x = shift >= 0 ? significand << (shift & 15) : significand >> (-shift & 15); /* unused beyond 15 bits */
            out->key[k] = mag ? (int8_t)(4 * (exponent - top < -REACH ? -REACH : exponent - top)) : -128;
            out->value[k] = mag ? (int16_t)(a[k] >> 15 ? -x : x) : 0;
        }
    }
}

void code_step_scalar(const struct code_chain *c, int row, int block, unsigned mask, const float *before, float *acc)
{
    uint16_t b[256] __attribute__((aligned(64)));
    int32_t index = block;
    struct chain p = {.rule = tensor_core_rule(90), .act = ACT_BF16, .shift = c->w->shift, .rows = c->rows};
    weight_decode(c->w, c->strip, &index, 1, b);
    float up = f32_from_bits((uint32_t)(127 + c->w->shift) << 23),
          down = f32_from_bits((uint32_t)(127 - c->w->shift) << 23);
    for (int i = 0; i < STRIP; i++)
        if (mask >> i & 1)
            acc[i] = panel_step_scalar(&p, row, block, b, strip_place(i), before[i] * up) * down;
}

code_chain_fn *code_chain_best(void)
{
    const char *name;
    panel_chain_best(&name);
    return !strcmp(name, "avx2") ? code_chain_avx2 : !strcmp(name, "avx512") ? code_chain_avx512 : NULL;
}
