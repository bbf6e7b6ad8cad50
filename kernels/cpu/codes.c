#include "kernels/codes.h"

#include "kernels/bits.h"

#include <string.h>

#define REACH  25 /* binades below the top that a key of the careful path can tell apart */
#define WINDOW 14 /* bits below the top that two digits hold */
#define WIDE   18 /* bits below the top that no product of a fresh chain needs cut: 7 more for V and scale make 25 */
#define NONE   1000

static float power_of_two(int exponent)
{
    return f32_from_bits((uint32_t)(127 + exponent) << 23);
}

/* Exponents of the lowest bit of each activation; NONE for zero. */
struct bits {
    int32_t low[16];
    int top, lsb, least; /* largest and smallest exponent, lowest bit */
    uint16_t most;       /* largest magnitude */
};

static void look(const uint16_t *a, struct bits *x)
{
    int32_t mag[16], exponent[16];
    x->top = -NONE, x->lsb = x->least = NONE, x->most = 0;
    for (int k = 0; k < 16; k++) {
        mag[k] = a[k] & 0x7fff;
        exponent[k] = (mag[k] >> 7) - 127;
        int32_t last = (mag[k] & 127) | 128;
        last &= -last;
        x->low[k] = exponent[k] - 7 + (int32_t)(f32_bits((float)last) >> 23) - 127;
    }
    for (int k = 0; k < 16; k++) {
        x->low[k] = mag[k] ? x->low[k] : NONE;
        x->lsb = x->low[k] < x->lsb ? x->low[k] : x->lsb;
        x->least = mag[k] && exponent[k] < x->least ? exponent[k] : x->least;
        x->most = mag[k] > x->most ? (uint16_t)mag[k] : x->most;
    }
    x->top = (x->most >> 7) - 127;
}

/* Two digits for what lies within the window; 0: a digit does not fit a byte. */
static int split(const float *value, const struct bits *x, int window, struct code_block *out, int *unit)
{
    int32_t whole[16], most = 0, sum = 0;
    uint16_t small = 0;
    *unit = NONE;
    for (int k = 0; k < 16; k++) {
        int32_t low = x->low[k] < x->top - window ? NONE : x->low[k];
        *unit = low < *unit ? low : *unit;
    }
    float up = power_of_two(-*unit);
    for (int k = 0; k < 16; k++) {
        whole[k] = x->low[k] < x->top - window ? 0 : (int32_t)(value[k] * up);
        small |= (uint16_t)((x->low[k] < x->top - window) << k);
        int32_t low = (int8_t)whole[k], high = (whole[k] - low) >> 8;
        most = high > most ? high : most;
        out->digit[0][k] = (int8_t)low;
        out->digit[1][k] = (int8_t)high;
        sum += whole[k];
    }
    out->small = small;
    out->bias = sum;
    return most <= 127;
}

/* Three digits for all of the block. */
static void widen(const float *value, int lsb, struct code_block *out)
{
    float up = power_of_two(-lsb);
    int32_t sum = 0, size = 0;
    for (int k = 0; k < 16; k++) {
        int32_t x = (int32_t)(value[k] * up), low = (int8_t)x, rest = (x - low) >> 8, middle = (int8_t)rest;
        out->wide[0][k] = (int8_t)low;
        out->wide[1][k] = (int8_t)middle;
        out->wide[2][k] = (int8_t)((rest - middle) >> 8);
        sum += x;
        size += x < 0 ? -x : x;
    }
    out->wide_bias = sum;
    out->light = size < (1 << 24) / 12;
}

/* Bits of x's upper half, rounded up. */
static int upper_bits(float x)
{
    return (int)((f32_bits(x) + 0xffff) >> 16);
}

static void plan_raw(const struct packed_weight *w, int unit, int limit, struct code_block *out)
{
    int raw = code_raw_exponent(w);
    out->raw_unit = power_of_two(unit) * power_of_two(raw);
    out->raw_limit[0] = out->raw_limit[1] = (int16_t)(128 * (limit + raw));
    /* bits of a product exceed the sum of the factors' bits, less those of 1, by 22.04 at most; powers of two by 0 */
    int more = w->format == WF_NVFP4 ? 23 : 0;
    out->raw_reach[0] = out->raw_reach[1] = (int16_t)(upper_bits(out->reach) + 128 * (raw - 127) + more);
}

static void plan_quick(const struct packed_weight *w, const float *value, const struct bits *x, struct code_block *out)
{
    int unit, largest = w->format == WF_U4B8 ? 8 : 12;
    int mantissa = w->format == WF_NVFP4 ? 3 : 0;          /* bits of a scale below its leading one */
    int lowest_product = w->shift ? w->shift - 149 : -100; /* no result may need cutting at 2^-149 */
    out->plan = PLAN_CAREFUL;
    if (x->least < -120 || x->top > 30 || x->lsb + w->least_scale - mantissa < lowest_product)
        return;
    if (!split(value, x, WINDOW, out, &unit) && !split(value, x, WINDOW - 1, out, &unit))
        return;
    out->bias *= largest;
    out->unit = power_of_two(unit);
    out->limit = power_of_two(unit + 25 - mantissa);
    out->reach = bf16_to_f32(x->most) * 2 * (float)largest;
    out->plan = !out->small ? PLAN_WHOLE : x->top - x->lsb <= WIDE ? PLAN_WIDE : PLAN_SMALL;
    if (out->plan == PLAN_WIDE) {
        widen(value, x->lsb, out);
        out->wide_bias *= largest;
        out->wide_unit = power_of_two(x->lsb);
        out->wide_limit = power_of_two(x->lsb + 25 - mantissa);
        plan_raw(w, x->lsb, x->lsb + 25 - mantissa, out);
    } else {
        plan_raw(w, unit, unit + 25 - mantissa, out);
    }
}

void code_prepare(const struct packed_weight *w, const struct prepared_rows *r, int rows, int from, int to,
                  struct code_block *out)
{
    int blocks = r->k / 16;
    for (int row = 0; row < rows; row++)
        for (int b = from; b < to; b++) {
            size_t at = (size_t)row * (size_t)blocks + (size_t)b;
            struct code_block *o = out + (size_t)b * (size_t)rows + (size_t)row;
            struct bits x;
            if (r->state[at] != BLOCK_NORMAL) {
                o->plan = r->state[at] == BLOCK_ZERO ? PLAN_ZERO : PLAN_CAREFUL;
                continue;
            }
            look(r->raw + 16 * at, &x);
            plan_quick(w, r->value + 16 * at, &x, o);
        }
}

void code_prepare_careful(const uint16_t *a, enum block_state state, struct code_careful *out)
{
    struct bits x;
    if (state != BLOCK_NORMAL) {
        out->state = state == BLOCK_ZERO ? CODE_ZERO : CODE_SCALAR;
        return;
    }
    look(a, &x);
    out->top = x.top;
    out->lsb = x.lsb;
    out->state = x.least < -126 || x.top - x.least > REACH ? CODE_SCALAR
                 : x.top - x.lsb < 15                      ? CODE_INTEGER
                                                           : CODE_FLOAT;
    for (int k = 0; k < 16; k++) {
        int mag = a[k] & 0x7fff, exponent = (mag >> 7) - 127, shift = exponent - 7 - x.lsb, low = exponent - x.top;
        int whole = (mag & 127) | 128;
        whole = shift >= 0 ? whole << (shift & 15) : whole >> (-shift & 15); /* unused beyond 15 bits */
        out->key[k] = mag ? (int8_t)(4 * (low < -REACH ? -REACH : low)) : -128;
        out->value[k] = mag ? (int16_t)(a[k] >> 15 ? -whole : whole) : 0;
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
