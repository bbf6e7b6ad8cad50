/* panel - preparation of activations and the scalar fallback that every fast path shares */
#include "kernels/panel.h"

#include "kernels/bits.h"

#include <string.h>

static enum block_state state_of(enum activation act, int shift, const uint16_t *a)
{
    /* bf16: below 2^26 (shifted operands: below 2^60), so that zeros, whose field is 0, never decide the exponent. */
    int limit = act == ACT_F16 ? 0x7c00 : shift ? (127 + 60) << 7 : (127 + 26) << 7;
    int any = 0, special = 0;
    for (int j = 0; j < 16; j++) {
        any |= a[j] & 0x7fff;
        special |= (a[j] & 0x7fff) >= limit;
    }
    return special ? BLOCK_SPECIAL : any ? BLOCK_NORMAL : BLOCK_ZERO;
}

static uint16_t key_of(enum activation act, uint16_t a)
{
    if (act == ACT_BF16)
        return a & 0x7f80;
    int field = a >> 10 & 31;
    return a & 0x7fff ? (uint16_t)((field ? field : 1) << 10) : 0;
}

void panel_prepare_row(enum activation act, int shift, const uint16_t *a, int k_used, int k, uint16_t *raw,
                       float *value, uint32_t *key, uint8_t *state)
{
    memcpy(raw, a, (size_t)k_used * sizeof *raw);
    memset(raw + k_used, 0, (size_t)(k - k_used) * sizeof *raw);
    for (int j = 0; j < k; j++) {
        value[j] = act == ACT_BF16 ? bf16_to_f32(raw[j]) : f16_to_f32(raw[j]);
        key[j] = key_of(act, raw[j]) * 0x10001u;
    }
    for (int j = 0; j < k; j += 16)
        state[j / 16] = (uint8_t)state_of(act, shift, raw + j);
}

size_t panel_rows_bytes(int m, int k)
{
    size_t cells = (size_t)m * (size_t)k;
    return cells * (2 + 4 + 4) + cells / 16 + 5 * 64;
}

char *panel_prepare_rows(struct prepared_rows *r, enum activation act, int shift, int m, int k_used, int k,
                         const uint16_t *a, int lda, char *scratch)
{
    size_t cells = (size_t)m * (size_t)k;
    uint16_t *raw = (uint16_t *)panel_aligned(scratch);
    float *value = (float *)panel_aligned((char *)(raw + cells));
    uint32_t *key = (uint32_t *)panel_aligned((char *)(value + cells));
    uint8_t *state = (uint8_t *)(key + cells);
    for (int i = 0; i < m; i++) {
        size_t at = (size_t)i * (size_t)k;
        panel_prepare_row(act, shift, a + (size_t)i * (size_t)lda, k_used, k, raw + at, value + at, key + at,
                          state + at / 16);
    }
    *r = (struct prepared_rows){k, raw, value, key, state};
    return panel_aligned((char *)(state + cells / 16));
}

/* A shifted operand back at its true exponent: exact, possibly subnormal. */
static uint16_t unshifted(uint16_t b, int shift)
{
    if (!shift)
        return b;
    float x = bf16_to_f32(b) * f32_from_bits((uint32_t)(127 - shift) << 23);
    return (uint16_t)(f32_bits(x) >> 16);
}

float panel_step_scalar(const struct chain *c, int row, int block, const uint16_t *b, int place, float acc)
{
    uint16_t column[16];
    for (int j = 0; j < 16; j++)
        column[j] = unshifted(b[16 * j + place], c->shift);
    float down = f32_from_bits((uint32_t)(127 - c->shift) << 23), up = f32_from_bits((uint32_t)(127 + c->shift) << 23);
    const uint16_t *a = c->rows->raw + (size_t)row * c->rows->k + 16 * block;
    return tensor_core_mma(c->rule, c->act, acc * down, a, column) * up;
}

static void scalar_strip(const struct chain *c, const uint16_t *b, float *acc)
{
    for (int r = 0; r < c->count; r++)
        for (int col = 0; col < STRIP; col++)
            for (int i = 0; i < c->blocks; i++) {
                const uint16_t *w = b + 256 * (size_t)(c->packed ? i : c->block[i]);
                const uint16_t *a = c->rows->raw + (size_t)c->row[r] * (size_t)c->rows->k + 16 * (size_t)c->block[i];
                uint16_t column[16];
                for (int j = 0; j < 16; j++)
                    column[j] = unshifted(w[16 * j + strip_place(col)], c->shift);
                acc[r * STRIP + col] = tensor_core_mma(c->rule, c->act, acc[r * STRIP + col], a, column);
            }
}

void panel_chain_scalar(const struct chain *c)
{
    for (int s = 0; s < c->strips; s++)
        scalar_strip(c, c->b + (size_t)s * c->stride, c->acc + s * c->count * STRIP);
}

static int rule_is_known(struct tensor_core_rule r)
{
    return r.products == 16 ? r.fraction == 25 && r.floor_exp == -133
                            : r.products == 8 && r.fraction == 24 && r.floor_exp == -132;
}

int panel_needs_scalar(const struct chain *c)
{
    if (c->special || !rule_is_known(c->rule))
        return 1;
    for (int r = 0; c->shift && r < c->count; r++)
        for (int i = 0; i < c->blocks; i++)
            if (c->rows->state[(size_t)c->row[r] * (size_t)(c->rows->k / 16) + (size_t)c->block[i]] == BLOCK_SPECIAL)
                return 1;
    return 0;
}

static const struct {
    const char *name;
    panel_chain_fn *run;
} implementations[] = {
    {"avx512", panel_chain_avx512},
    {"avx2", panel_chain_avx2},
    {"portable", panel_chain_portable},
};

static int usable(const char *name)
{
    __builtin_cpu_init();
    if (!strcmp(name, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (!strcmp(name, "avx2"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    return 1;
}

panel_chain_fn *panel_chain_named(const char *name)
{
    for (size_t i = 0; i < sizeof implementations / sizeof *implementations; i++)
        if (!strcmp(name, implementations[i].name) && usable(name))
            return implementations[i].run;
    return NULL;
}

static const char *chosen; /* set before threads start */

int panel_choose(const char *name)
{
    if (name && !panel_chain_named(name))
        return 0;
    chosen = name;
    return 1;
}

panel_chain_fn *panel_chain_best(const char **name)
{
    size_t i = 0;
    while (!usable(implementations[i].name) || (chosen && strcmp(chosen, implementations[i].name)))
        i++;
    if (name)
        *name = implementations[i].name;
    return implementations[i].run;
}
