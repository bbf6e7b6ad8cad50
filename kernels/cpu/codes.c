#include "kernels/codes.h"

#include "kernels/bits.h"

#include <string.h>

#define REACH  25 /* binades below the top that a key of the careful path can tell apart */
#define WINDOW 14 /* bits below the top that two digits hold */
#define WIDE   18 /* bits below the top that no product of a fresh chain needs cut: 7 more for V and scale make 25 */

static int significand(uint16_t a)
{
    return (a & 127) | 128;
}

static int lowest(uint16_t a)
{
    return ((a & 0x7fff) >> 7) - 134 + __builtin_ctz((unsigned)significand(a));
}

static int16_t whole(uint16_t a, int unit)
{
    int shift = ((a & 0x7fff) >> 7) - 134 - unit;
    int x = shift >= 0 ? significand(a) << (shift & 15) : significand(a) >> (-shift & 15); /* unused beyond 15 bits */
    return (int16_t)(a >> 15 ? -x : x);
}

static float power_of_two(int exponent)
{
    return f32_from_bits((uint32_t)(127 + exponent) << 23);
}

/* Splits the block into digits and small ones; returns 0 when a digit does not fit a byte. */
static int split(const uint16_t *a, int top, int window, struct code_block *out, int *unit, int *sum)
{
    *unit = 1000, *sum = 0, out->smalls = 0;
    for (int k = 0; k < 16; k++) {
        int low = a[k] & 0x7fff ? lowest(a[k]) : 1000;
        if (low < top - window)
            out->small[out->smalls++] = (uint8_t)k;
        else if (low < *unit)
            *unit = low;
    }
    memset(out->digit, 0, sizeof out->digit);
    for (int k = 0; k < 16; k++) {
        if (!(a[k] & 0x7fff) || lowest(a[k]) < top - window)
            continue;
        int x = whole(a[k], *unit), low = (int8_t)(x & 255), high = (x - low) / 256;
        if (high > 127)
            return 0;
        out->digit[0][k] = (int8_t)low;
        out->digit[1][k] = (int8_t)high;
        *sum += x;
    }
    return 1;
}

/* Three digits for all of the block. */
static void widen(const uint16_t *a, int lsb, int largest, int mantissa, struct code_block *out)
{
    int sum = 0;
    for (int k = 0; k < 16; k++) {
        int shift = ((a[k] & 0x7fff) >> 7) - 134 - lsb, x = a[k] & 0x7fff ? significand(a[k]) : 0;
        x = shift >= 0 ? x << (shift & 31) : x >> (-shift & 31);
        x = a[k] >> 15 ? -x : x;
        sum += x;
        out->wide[0][k] = (int8_t)x;
        x = (x - out->wide[0][k]) / 256;
        out->wide[1][k] = (int8_t)x;
        out->wide[2][k] = (int8_t)((x - out->wide[1][k]) / 256);
    }
    out->wide_bias = sum * largest;
    out->wide_unit = power_of_two(lsb);
    out->wide_limit = power_of_two(lsb + 25 - mantissa);
}

/* The quick path. lsb: lowest bit of any activation, the small ones too. */
static void plan_quick(const struct packed_weight *w, const uint16_t *a, int top, int lsb, float most,
                       struct code_block *out)
{
    int unit, sum, largest = w->format == WF_U4B8 ? 8 : 12;
    int mantissa = w->format == WF_NVFP4 ? 3 : 0;          /* bits of a scale below its leading one */
    int lowest_product = w->shift ? w->shift - 149 : -100; /* no result may need cutting at 2^-149 */
    out->plan = PLAN_CAREFUL;
    if (lsb + w->least_scale - mantissa < lowest_product)
        return;
    if (!split(a, top, WINDOW, out, &unit, &sum) && !split(a, top, WINDOW - 1, out, &unit, &sum))
        return;
    out->bias = sum * largest;
    out->unit = power_of_two(unit);
    out->limit = power_of_two(unit + 25 - mantissa);
    out->reach = most * 2 * (float)largest;
    out->plan = !out->smalls ? PLAN_WHOLE : top - lsb <= WIDE ? PLAN_WIDE : PLAN_SMALL;
    if (out->plan == PLAN_WIDE)
        widen(a, lsb, largest, mantissa, out);
}

void code_prepare_row(const struct packed_weight *w, const struct prepared_rows *r, int row, struct code_block *out)
{
    const uint16_t *a = r->raw + (size_t)row * (size_t)r->k;
    const uint8_t *state = r->state + (size_t)row * (size_t)(r->k / 16);
    for (int b = 0; b < r->k / 16; b++, a += 16, out++) {
        int top = -1000, lsb = 1000, least = 1000, most = 0;
        if (state[b] != BLOCK_NORMAL) {
            out->state = state[b] == BLOCK_ZERO ? CODE_ZERO : CODE_SCALAR;
            out->plan = state[b] == BLOCK_ZERO ? PLAN_ZERO : PLAN_CAREFUL;
            continue;
        }
        for (int k = 0; k < 16; k++) {
            int exponent = ((a[k] & 0x7fff) >> 7) - 127;
            if (!(a[k] & 0x7fff))
                continue;
            top = exponent > top ? exponent : top;
            most = (a[k] & 0x7fff) > most ? a[k] & 0x7fff : most;
            least = exponent < least ? exponent : least;
            lsb = lowest(a[k]) < lsb ? lowest(a[k]) : lsb;
        }
        out->top = top;
        out->lsb = lsb;
        out->state = least < -126 || top - least > REACH ? CODE_SCALAR : top - lsb < 15 ? CODE_INTEGER : CODE_FLOAT;
        for (int k = 0; k < 16; k++) {
            int mag = a[k] & 0x7fff, exponent = (mag >> 7) - 127;
            out->key[k] = mag ? (int8_t)(4 * (exponent - top < -REACH ? -REACH : exponent - top)) : -128;
            out->value[k] = mag ? whole(a[k], lsb) : 0;
        }
        if (least < -126)
            out->plan = PLAN_CAREFUL;
        else
            plan_quick(w, a, top, lsb, bf16_to_f32((uint16_t)most), out);
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

void code_chain_panel(const struct code_chain *c)
{
    uint16_t b[256] __attribute__((aligned(64)));
    for (int i = 0; i < c->blocks; i++)
        for (int p = 0; p < c->parts; p++) {
            struct chain one = {.rule = tensor_core_rule(90),
                                .act = ACT_BF16,
                                .shift = c->w->shift,
                                .rows = c->rows,
                                .row = c->row,
                                .count = c->count,
                                .block = c->block + i * c->parts + p,
                                .blocks = 1,
                                .b = b,
                                .packed = 1,
                                .strips = 1,
                                .acc = c->acc + (size_t)p * c->part_size};
            weight_decode(c->w, c->strip, one.block, 1, b);
            panel_chain_best(NULL)(&one);
        }
}

code_chain_fn *code_chain_best(void)
{
    const char *name;
    panel_chain_best(&name);
    return strcmp(name, "portable") ? code_chain_avx2 : NULL;
}

const struct code_path *code_path_best(void)
{
    static const struct code_path *const paths[] = {&code_path_avx512, &code_path_avx2, &code_path_portable};
    const char *name;
    int i = 0;
    panel_chain_best(&name);
    while (strcmp(name, paths[i]->name))
        i++;
    return paths[i];
}
