/* panel, portable C - the same steps as panel_avx2.c in loops over 16 lanes that a compiler can vectorise */
#include "kernels/panel.h"

#include "kernels/bits.h"

#define LANES 16

struct lanes {
    float c[LANES], scale[LANES];
    int32_t field[LANES];
    int64_t sum[LANES];
};

struct step_const {
    int first, products, fraction, floor_field, shift;
};

static int product_field(enum activation act, uint16_t b, uint16_t key)
{
    int mag = b & 0x7fff;
    if (act == ACT_BF16)
        return (mag + key) >> 7;
    if (!mag || !key)
        return 0;
    return ((mag < 0x400 ? 0x400 : mag) + key) / 0x400 + 254 - 30;
}

static int acc_field(const struct step_const *s, float c)
{
    int f = (int)(f32_bits(c) >> 23 & 255);
    if (s->shift && c != 0 && f < 1 + s->shift)
        f = 1 + s->shift;
    return (s->shift && c == 0 ? 0 : f) + 127;
}

static void align(const struct step_const *s, enum activation act, struct lanes *l, const uint16_t *b,
                  const uint32_t *key)
{
    for (int i = 0; i < LANES; i++)
        l->field[i] = acc_field(s, l->c[i]);
    for (int j = s->first; j < s->first + s->products; j++)
        for (int i = 0; i < LANES; i++) {
            int f = product_field(act, b[16 * j + i], (uint16_t)key[j]);
            l->field[i] = f > l->field[i] ? f : l->field[i];
        }
    for (int i = 0; i < LANES; i++) {
        int f = l->field[i];
        f = f < s->floor_field ? s->floor_field : f;
        l->field[i] = f;
        f = f < 154 ? 154 : f > 354 ? 354 : f;
        l->scale[i] = f32_from_bits((uint32_t)(127 + s->fraction + 254 - f) << 23);
        l->sum[i] = f == l->field[i] ? (int32_t)(l->c[i] * l->scale[i]) : 0;
    }
}

/* sum * 2^(E-F) towards zero to fp32; shifted operands: true subnormals keep multiples of 2^-149. */
static float result(const struct step_const *s, int64_t sum, int field)
{
    uint64_t mag = (uint64_t)(sum < 0 ? -sum : sum);
    int lsb = field - 254 - s->fraction, drop = mag ? 63 - __builtin_clzll(mag) - 23 : 0;
    int least = s->shift ? s->shift - 149 - lsb : drop;
    drop = drop > least ? drop : least;
    if (drop > 0)
        mag = mag >> drop << drop;
    float x = (float)mag * f32_from_bits((uint32_t)(127 + lsb) << 23);
    return sum < 0 && mag ? -x : x;
}

static void step(const struct chain *c, const struct step_const *s, int row, int block, const uint16_t *b,
                 struct lanes *l, int *bad)
{
    size_t at = (size_t)row * (size_t)c->rows->k + 16 * (size_t)block;
    align(s, c->act, l, b, c->rows->key + at);
    for (int j = s->first; j < s->first + s->products; j++) {
        float a = c->rows->value[at + (size_t)j], w[LANES];
        if (!(f32_bits(a) << 1))
            continue;
        for (int i = 0; i < LANES; i++)
            w[i] = c->act == ACT_BF16 ? bf16_to_f32(b[16 * j + i]) : f16_to_f32(b[16 * j + i]);
        for (int i = 0; i < LANES; i++) {
            float q = a * w[i] * l->scale[i];
            l->sum[i] += q < 0x1p30f && q > -0x1p30f ? (int32_t)q : 0;
        }
    }
    for (int i = 0; i < LANES; i++) {
        int empty = c->act == ACT_F16 && l->field[i] == 127;
        if ((l->field[i] < 154 && !empty) || l->field[i] > 354)
            *bad |= 1 << i;
        else
            l->c[i] = empty ? 0 : result(s, l->sum[i], l->field[i]);
    }
}

static void advance(const struct chain *c, int row, int block, const uint16_t *b, struct lanes *l)
{
    int wide = c->rule.products == 16, bad = 0;
    struct step_const s = {0, c->rule.products, c->rule.fraction, c->shift ? c->rule.floor_exp + c->shift + 254 : 0,
                           c->shift};
    float before[LANES];
    for (int i = 0; i < LANES; i++)
        before[i] = l->c[i];
    step(c, &s, row, block, b, l, &bad);
    if (!wide) {
        s.first = 8;
        step(c, &s, row, block, b, l, &bad);
    }
    for (int i = 0; bad && i < LANES; i++)
        if (bad >> i & 1)
            l->c[i] = panel_step_scalar(c, row, block, b, i, before[i]);
}

static void run_row(const struct chain *c, int r, const uint16_t *strip, float *acc)
{
    struct lanes l;
    float up = f32_from_bits((uint32_t)(127 + c->shift) << 23), down = f32_from_bits((uint32_t)(127 - c->shift) << 23);
    for (int i = 0; i < LANES; i++)
        l.c[strip_place(i)] = acc[i] * up;
    for (int i = 0; i < c->blocks; i++) {
        int block = c->block[i], row = c->row[r];
        const uint16_t *b = strip + 256 * (size_t)(c->packed ? i : block);
        switch (c->rows->state[(size_t)row * (size_t)(c->rows->k / 16) + (size_t)block]) {
        case BLOCK_NORMAL: advance(c, row, block, b, &l); break;
        case BLOCK_SPECIAL:
            for (int p = 0; p < LANES; p++)
                l.c[p] = panel_step_scalar(c, row, block, b, p, l.c[p]);
            break;
        default: break;
        }
    }
    for (int i = 0; i < LANES; i++)
        acc[i] = l.c[strip_place(i)] * down;
}

void panel_chain_portable(const struct chain *c)
{
    if (panel_needs_scalar(c)) {
        panel_chain_scalar(c);
        return;
    }
    for (int s = 0; s < c->strips; s++)
        for (int r = 0; r < c->count; r++)
            run_row(c, r, c->b + (size_t)s * c->stride, c->acc + (s * c->count + r) * STRIP);
}
