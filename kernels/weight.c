/* weight - merges, pads and re-encodes checkpoint weights; the operand each code stands for (spec marlin-numerics 1) */
#include "kernels/weight.h"

#include "kernels/bits.h"

#include <string.h>

#define NVFP4_SHIFT 110 /* operands E2M1 * s* * 2^-126 become E2M1 * s* * 2^-16 */

static const float e2m1[16] = {0.f,  .5f,  1.f,  1.5f,  2.f,  3.f,  4.f,  6.f,
                               -0.f, -.5f, -1.f, -1.5f, -2.f, -3.f, -4.f, -6.f};

static float e4m3(uint8_t b)
{
    int field = b >> 3 & 15, fraction = b & 7;
    float mag =
        field ? f32_from_bits((uint32_t)(field + 120) << 23 | (uint32_t)fraction << 20) : (float)fraction * 0x1p-9f;
    if ((b & 127) == 127)
        return f32_from_bits(0x7fffffff);
    return b >> 7 ? -mag : mag;
}

static long least_multiple(long a, long b)
{
    long x = a, y = b;
    while (y) {
        long t = x % y;
        x = y, y = t;
    }
    return a / x * b;
}

static long up_to(long x, long multiple)
{
    return (x + multiple - 1) / multiple * multiple;
}

void weight_padding(int n, int k, int group, int *n_padded, int *k_padded)
{
    long g = group ? group : 1;
    long na = up_to(n, 64), ka = up_to(k, least_multiple(128, g));
    long nb = up_to(n, 128), kb = up_to(k, least_multiple(64, g));
    int b_wins = nb * kb != na * ka ? nb * kb < na * ka : nb + kb < na + ka;
    *n_padded = (int)(b_wins ? nb : na);
    *k_padded = (int)(b_wins ? kb : ka);
}

static int total_rows(const struct weight_source *s)
{
    int n = 0;
    for (int i = 0; i < s->parts; i++)
        n += s->part[i]->n;
    return n;
}

static void padded_size(const struct weight_source *s, int *n, int *k)
{
    const struct linear *l = s->part[0];
    *n = total_rows(s);
    *k = l->k;
    if (l->format == WF_PLAIN) {
        *n = (int)up_to(*n, STRIP);
        *k = (int)up_to(*k, STRIP);
    } else {
        weight_padding(*n, *k, l->group, n, k);
    }
}

float weight_max_scale(const struct weight_source *s)
{
    float best = 0;
    if (s->part[0]->format != WF_NVFP4)
        return 0;
    for (int i = 0; i < s->parts; i++) {
        const uint8_t *b = s->part[i]->scale.data;
        for (size_t j = 0; j < s->part[i]->scale.bytes; j++) {
            float x = e4m3(b[j]);
            best = x > best ? x : best;
        }
    }
    return best;
}

/* sf of spec 1.4: a power of two that lifts the scales without passing 448*128. */
static float scale_factor(float max_scale, enum activation act)
{
    float sf = 1;
    if (act == ACT_F16 || !(max_scale > 0))
        return 1;
    while (sf * 2 * 128 * max_scale <= 57344)
        sf *= 2;
    return sf;
}

static int groups_of(int k, int group)
{
    return group ? k / group : 1;
}

static int scale_bytes(enum weight_format f)
{
    return f == WF_U4B8 ? 2 : 1;
}

size_t weight_bytes(const struct weight_source *s, int decoded)
{
    int n, k;
    const struct linear *l = s->part[0];
    padded_size(s, &n, &k);
    size_t cells = (size_t)n * (size_t)k, bytes = 64 * 4;
    if (l->format == WF_PLAIN || decoded)
        bytes += cells * 2;
    else
        bytes += cells / 2;
    if (l->format != WF_PLAIN)
        bytes += (size_t)n * (size_t)groups_of(k, l->group) * (size_t)scale_bytes(l->format);
    return bytes + (size_t)n * 4;
}

static uint32_t word_at(const void *p, size_t i)
{
    uint32_t w;
    memcpy(&w, (const char *)p + 4 * i, 4);
    return w;
}

static uint16_t half_at(const void *p, size_t i)
{
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, 2);
    return h;
}

/* Code of (row, k) as the checkpoint packs it. */
static int code_at(const struct linear *l, int row, int k)
{
    switch (l->packing) {
    case PACK_BYTES:
        return ((const uint8_t *)l->weight.data)[((size_t)row * (size_t)l->k + (size_t)k) / 2] >> 4 * (k & 1) & 15;
    case PACK_WORDS:
        return word_at(l->weight.data, (size_t)row * (size_t)((l->k + 7) / 8) + (size_t)k / 8) >> 4 * (k & 7) & 15;
    default: return word_at(l->weight.data, (size_t)(k / 8) * (size_t)l->n + (size_t)row) >> 4 * (k & 7) & 15;
    }
}

/* Scale of (row, group): the raw byte, or the 16-bit float in the activation type. */
static int scale_at(const struct linear *l, enum activation act, int row, int group)
{
    int groups = groups_of(l->k, l->group);
    size_t i = l->packing == PACK_GPTQ_K ? (size_t)group * (size_t)l->n + (size_t)row
                                         : (size_t)row * (size_t)groups + (size_t)group;
    if (l->format != WF_U4B8)
        return ((const uint8_t *)l->scale.data)[i];
    uint16_t h = half_at(l->scale.data, i);
    if ((l->scale.dtype == DT_BF16) == (act == ACT_BF16))
        return h;
    return act == ACT_BF16 ? bf16_from_f32(f16_to_f32(h)) : f16_from_f32(bf16_to_f32(h));
}

/* Calls back for every column of the stack with its linear and its row in it. */
#define EACH_COLUMN(s, l, row, column)                                                                                 \
    for (int part_ = 0, column = 0; part_ < (s)->parts; part_++)                                                       \
        for (int row = 0, rows_ = (s)->part[part_]->n; row < rows_; row++, column++)                                   \
            for (const struct linear *l = (s)->part[part_]; l; l = NULL)

static int nibble_shift(int k)
{
    return 4 * ((k & 1) << 1 | (k >> 1 & 1));
}

static void pack_codes(const struct weight_source *s, int k_padded, uint16_t *codes)
{
    int zero = s->part[0]->format == WF_U4B8 ? 8 : 0, blocks = k_padded / STRIP;
    EACH_COLUMN(s, l, row, column)
    {
        uint16_t *strip = codes + (size_t)(column / STRIP) * (size_t)blocks * 64 + column % STRIP;
        for (int k = 0; k < k_padded; k += 4) {
            unsigned w = 0;
            for (int i = 0; i < 4; i++)
                w |= (unsigned)(k + i < l->k ? code_at(l, row, k + i) : zero) << nibble_shift(i);
            strip[(size_t)(k / STRIP) * 64 + (size_t)(k / 4 % 4) * 16] = (uint16_t)w;
        }
    }
}

/* s* of spec 1.4 as a byte: the upper byte of its fp16 bits shifted left by one. */
static uint8_t reencoded(uint8_t scale, float factor)
{
    float s = e4m3(scale) * factor;
    return s >= 2 ? (uint8_t)(f16_from_f32(s) >> 7) : 0;
}

static void pack_scales(const struct weight_source *s, enum activation act, int k_padded, float factor, void *scales)
{
    int groups = groups_of(k_padded, s->part[0]->group);
    EACH_COLUMN(s, l, row, column)
    for (int g = 0; g < groups_of(l->k, l->group); g++) {
        size_t at = ((size_t)(column / STRIP) * (size_t)groups + (size_t)g) * STRIP + (size_t)(column % STRIP);
        int scale = scale_at(l, act, row, g);
        if (l->format == WF_U4B8)
            ((uint16_t *)scales)[at] = (uint16_t)scale;
        else
            ((uint8_t *)scales)[at] = l->format == WF_NVFP4 ? reencoded((uint8_t)scale, factor) : (uint8_t)scale;
    }
}

/* Exponent of .5 under the smallest scale that is not 0, in shifted units. */
static int least_scale(const struct packed_weight *w)
{
    const uint8_t *s = w->scales;
    int least = 255;
    if (w->format == WF_U4B8)
        return 0;
    for (size_t i = 0, n = (size_t)w->n * (size_t)groups_of(w->k, w->group); i < n; i++)
        least = s[i] && s[i] < least ? s[i] : least;
    return w->format == WF_MXFP4 ? least - 127 - 1 : (least >> 3) - 15 - (126 - w->shift) - 1;
}

static void pack_plain(const struct weight_source *s, int k_padded, uint16_t *panel)
{
    EACH_COLUMN(s, l, row, column)
    {
        uint16_t *strip = panel + (size_t)(column / STRIP) * (size_t)k_padded * STRIP + strip_place(column % STRIP);
        for (int k = 0; k < l->k; k++)
            strip[(size_t)k * STRIP] = half_at(l->weight.data, (size_t)row * (size_t)l->k + (size_t)k);
    }
}

static uint16_t rounded(enum activation act, float x)
{
    return act == ACT_BF16 ? bf16_from_f32(x) : f16_from_f32(x);
}

/* The operand of one code under one scale: exact for E2M1 formats, one rounding for grouped u4b8. */
static uint16_t operand(const struct packed_weight *w, int code, int scale)
{
    if (w->format == WF_U4B8) {
        float d = (float)(code - 8),
              s = w->act == ACT_BF16 ? bf16_to_f32((uint16_t)scale) : f16_to_f32((uint16_t)scale);
        return rounded(w->act, w->group ? d * s : d);
    }
    if (w->format == WF_MXFP4) {
        float s = f32_from_bits((uint32_t)scale << 23); /* byte 0 is zero, 255 infinity */
        return rounded(w->act, e2m1[code] * s);
    }
    float s = f16_to_f32((uint16_t)(scale << 7)); /* the re-encoded byte */
    return rounded(w->act, e2m1[code] * s * (w->act == ACT_BF16 ? 0x1p-16f : 0x1p-14f));
}

static int scale_of(const struct packed_weight *w, size_t at)
{
    return w->format == WF_U4B8 ? ((const uint16_t *)w->scales)[at] : ((const uint8_t *)w->scales)[at];
}

/* table[column][code]; out may overlap codes. */
static void decode_block(const uint16_t *codes, uint16_t (*table)[16], uint16_t *out)
{
    uint16_t own[64];
    memcpy(own, codes, sizeof own);
    for (int k = 0; k < STRIP; k++)
        for (int c = 0; c < STRIP; c++)
            out[16 * k + strip_place(c)] = table[c][own[16 * (k / 4) + c] >> nibble_shift(k & 3) & 15];
}

static void fill_table(const struct packed_weight *w, int strip, int group, uint16_t (*table)[16])
{
    int groups = groups_of(w->k, w->group);
    size_t at = ((size_t)strip * (size_t)groups + (size_t)((group + w->scale_shift) % groups)) * STRIP;
    for (int c = 0; c < STRIP; c++) {
        int scale = w->group ? scale_of(w, at + (size_t)c) : 0;
        for (int code = 0; code < 16; code++)
            table[c][code] = operand(w, code, scale);
    }
}

void weight_decode(const struct packed_weight *w, int strip, const int32_t *block, int n, uint16_t *out)
{
    uint16_t table[STRIP][16];
    int now = -1;
    for (int i = 0; i < n; i++) {
        int group = w->group ? block[i] * STRIP / w->group : 0;
        if (group != now)
            fill_table(w, strip, now = group, table);
        decode_block(w->codes + ((size_t)strip * (size_t)(w->k / STRIP) + (size_t)block[i]) * 64, table, out + 256 * i);
    }
}

static int is_special(enum activation act, const uint16_t *b, size_t n)
{
    int limit = act == ACT_BF16 ? (127 + 26) << 7 : 0x7c00, any = 0;
    for (size_t i = 0; i < n; i++)
        any |= (b[i] & 0x7fff) >= limit;
    return any;
}

/* Decodes every strip once: to keep the panels, or to learn whether any operand is special. */
static void decode_all(struct packed_weight *w, uint16_t *panel)
{
    uint16_t buffer[256] __attribute__((aligned(64)));
    int blocks = w->k / STRIP;
    for (int strip = 0; strip < w->n / STRIP; strip++)
        for (int32_t b = 0; b < blocks; b++) {
            uint16_t *out = panel ? panel + ((size_t)strip * (size_t)blocks + (size_t)b) * 256 : buffer;
            weight_decode(w, strip, &b, 1, out);
            w->special |= is_special(w->act, out, 256);
        }
}

static int check_parts(const struct weight_source *s, struct err *e)
{
    const struct linear *a = s->part[0];
    for (int i = 0; i < s->parts; i++) {
        const struct linear *l = s->part[i];
        if (l->format != a->format || l->group != a->group || l->k != a->k)
            return FAIL(e, E_UNSUPPORTED, "%s: cannot be merged with %s: format, group or k differ",
                        l->weight.name ? l->weight.name : "linear", a->weight.name ? a->weight.name : "linear");
    }
    if (a->format != WF_PLAIN && a->group && a->k % a->group)
        return FAIL(e, E_UNSUPPORTED, "%s: k = %d is no multiple of group %d", a->weight.name, a->k, a->group);
    return OK;
}

static float merged_global(const struct weight_source *s, enum activation act, float sf)
{
    float divisor = s->part[0]->global_scale;
    for (int i = 1; i < s->parts; i++)
        divisor = s->part[i]->global_scale > divisor ? s->part[i]->global_scale : divisor;
    float g = 1 / divisor;
    return act == ACT_BF16 ? g * 0x1p119f / sf : g * 0x1p7f / sf;
}

int weight_pack(const struct weight_source *s, enum activation act, int decoded, void *memory, struct packed_weight *w,
                struct err *e)
{
    const struct linear *l = s->part[0];
    *w = (struct packed_weight){
        .format = l->format, .act = act, .group = l->group, .scale_shift = s->scale_shift, .global = 1};
    if (check_parts(s, e))
        return e ? e->code : E_UNSUPPORTED;
    padded_size(s, &w->n, &w->k);
    w->n_used = total_rows(s);
    w->k_used = l->k;
    char *at = memory;
    memset(memory, 0, weight_bytes(s, decoded));
    size_t cells = (size_t)w->n * (size_t)w->k;
    if (l->format == WF_PLAIN) {
        pack_plain(s, w->k, (uint16_t *)at);
        w->panel = (const uint16_t *)at;
        w->special = is_special(act, w->panel, cells);
        at += cells * 2;
    } else {
        float max = s->nvfp4_max_scale > 0 ? s->nvfp4_max_scale : weight_max_scale(s);
        float sf = scale_factor(max, act);
        w->shift = l->format == WF_NVFP4 && act == ACT_BF16 ? NVFP4_SHIFT : 0;
        w->global = l->format == WF_NVFP4 ? merged_global(s, act, sf) : 1;
        char *scales = at + (decoded ? cells * 2 : cells / 2);
        w->scales = scales;
        w->scale_factor = sf * 128;
        pack_scales(s, act, w->k, w->scale_factor, scales);
        w->least_scale = least_scale(w);
        at = scales + (size_t)w->n * (size_t)groups_of(w->k, w->group) * (size_t)scale_bytes(w->format);
        at += (64 - (uintptr_t)at % 64) % 64;
        uint16_t *codes = (uint16_t *)memory;
        if (decoded) /* codes live in the upper half of the panel area until the panels overwrite them strip by strip */
            codes += cells * 3 / 4;
        pack_codes(s, w->k, codes);
        w->codes = codes;
        decode_all(w, decoded ? (uint16_t *)memory : NULL);
        if (decoded)
            w->panel = (const uint16_t *)memory, w->codes = NULL;
    }
    uint16_t *column = (uint16_t *)at, *bias = column + w->n;
    EACH_COLUMN(s, part, row, c)
    {
        if (!part->group && part->format == WF_U4B8)
            column[c] = (uint16_t)scale_at(part, act, row, 0);
        if (part->bias.data)
            bias[c] = half_at(part->bias.data, (size_t)row);
    }
    w->column = l->format == WF_U4B8 && !l->group ? column : NULL;
    w->bias = l->bias.data ? bias : NULL;
    return OK;
}
