/* codes, portable C - the quick path in generic vectors: 16-bit lanes for the sums, 32 and 64 bits for the rest
 *
 * sums       V times the two byte digits of A: 16 products of 12*128 fit 16 bits
 * rounding   the step is exact in fp64, then cut to fp32
 * whole      bounds of codes.h, checked in every lane of every step
 */
#include "kernels/codes_step.h"

typedef int8_t bytes __attribute__((vector_size(16)));
typedef int16_t shorts __attribute__((vector_size(16)));
typedef uint16_t words __attribute__((vector_size(16)));
typedef int32_t ints __attribute__((vector_size(32))); /* of eight columns */

/* V of [k][column]. */
struct sums {
    shorts value[STRIP][2];
};

static inline shorts load(const void *p)
{
    shorts x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* V of 16 codes in bytes. */
static inline bytes value_of(bytes code, int integers)
{
    if (integers)
        return code - 8;
    bytes mag = code & 7, sign = code > 7;
    mag += ((mag - 4) & (mag > 4)) + ((mag == 7) & 2); /* 0, 1, 2, 3, 4, 6, 8, 12 */
    return (mag ^ sign) - sign;
}

static inline void split(bytes v, shorts *even, shorts *odd)
{
    *even = (shorts)((words)v << 8) >> 8;
    *odd = (shorts)v >> 8;
}

/* Bits of fp16 and E8M0 in place, times 2^-17 and 1/2. */
static inline __attribute__((always_inline)) void scales(const uint8_t *from, enum weight_format format, float *to)
{
    const bytes none = {0}, b = (bytes)load(from);
    const shorts zero = {0};
    shorts lo = (shorts)__builtin_shuffle(b, none, (bytes){0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
    shorts hi =
        (shorts)__builtin_shuffle(b, none, (bytes){8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
    for (int i = 0; i < 4; i++) {
        shorts wide = i < 2 ? lo : hi;
        lanes_i x = (lanes_i)(i % 2 ? __builtin_shuffle(wide, zero, (shorts){4, 12, 5, 13, 6, 14, 7, 15})
                                    : __builtin_shuffle(wide, zero, (shorts){0, 8, 1, 9, 2, 10, 3, 11}));
        lanes_i e4m3 = ((x << 20) + ((112 - 17) << 23)) & (x != 0);
        lanes_f scale = format == WF_NVFP4 ? (lanes_f)e4m3 : (lanes_f)(x << 23) * 0.5f;
        memcpy(to + 4 * i, &scale, sizeof scale);
    }
}

static inline __attribute__((always_inline)) void decode(const struct code_slice *s, enum weight_format format,
                                                         int block, struct sums *o, struct code_tile *tile)
{
    const uint16_t *codes = code_words(s->w, s->strip, block);
    for (int q = 0; q < 4; q++)
        for (int h = 0; h < 2; h++) {
            words x = (words)load(codes + 16 * q + 8 * h);
            split(value_of((bytes)(x & 0x0f0f), format == WF_U4B8), &o->value[4 * q][h], &o->value[4 * q + 1][h]);
            split(value_of((bytes)(x >> 4 & 0x0f0f), format == WF_U4B8), &o->value[4 * q + 2][h],
                  &o->value[4 * q + 3][h]);
        }
    if (format == WF_U4B8)
        for (int i = 0; i < STRIP; i++)
            tile->scale[i] = 1;
    else
        scales(code_scales(s->w, format, s->strip, block), format, tile->scale);
}

#define BROADCAST(v, k) __builtin_shuffle(v, (shorts){k, k, k, k, k, k, k, k})
/* Even k's come first, in digit[..][0]. */
#define ADD(k)                                                                                                         \
    do {                                                                                                               \
        shorts d0 = BROADCAST(digit[0][k % 2], k / 2), d1 = BROADCAST(digit[1][k % 2], k / 2);                         \
        for (int h = 0; h < 2; h++) {                                                                                  \
            low[h] += o->value[k][h] * d0;                                                                             \
            high[h] += o->value[k][h] * d1;                                                                            \
        }                                                                                                              \
    } while (0)

/* Sums of two digits, each 16 bits. */
static inline __attribute__((always_inline)) void digit_sums(const struct sums *o, const int8_t (*digits)[16],
                                                             shorts low[2], shorts high[2])
{
    shorts digit[2][2];
    for (int i = 0; i < 2; i++) {
        bytes d;
        low[i] = high[i] = (shorts){0};
        memcpy(&d, digits[i], sizeof d);
        split(d, &digit[i][0], &digit[i][1]);
    }
    ADD(0);
    ADD(1);
    ADD(2);
    ADD(3);
    ADD(4);
    ADD(5);
    ADD(6);
    ADD(7);
    ADD(8);
    ADD(9);
    ADD(10);
    ADD(11);
    ADD(12);
    ADD(13);
    ADD(14);
    ADD(15);
}

/* sum_k A[k]*V[k,column] */
static inline __attribute__((always_inline)) void sum_of(const struct sums *o, const struct code_block *a, int32_t *sum)
{
    shorts low[2], high[2];
    digit_sums(o, a->digit, low, high);
    for (int h = 0; h < 2; h++) {
        ints whole = __builtin_convertvector(low[h], ints) + (__builtin_convertvector(high[h], ints) << 8);
        memcpy(sum + 8 * h, &whole, sizeof whole);
    }
}

static __attribute__((noinline)) void wide_sum(const struct sums *o, const struct code_block *a, int32_t *sum)
{
    shorts low[2], middle[2], again[2], high[2];
    digit_sums(o, a->wide, low, middle);
    digit_sums(o, a->wide + 1, again, high);
    for (int h = 0; h < 2; h++) {
        ints whole = __builtin_convertvector(low[h], ints) + (__builtin_convertvector(middle[h], ints) << 8) +
                     (__builtin_convertvector(high[h], ints) << 16);
        memcpy(sum + 8 * h, &whole, sizeof whole);
    }
}

/* A step that is no single multiply-add. */
static __attribute__((noinline)) void other_step(const struct code_slice *s, const struct sums *o,
                                                 struct code_tile *tile, const struct code_block *a, int row, int block,
                                                 struct code_lanes *l)
{
    int32_t sum[STRIP];
    float most[STRIP];
    const float *value = s->rows->value + (size_t)row * (size_t)s->rows->k + STRIP * block;
    int bias = s->w->format == WF_U4B8 ? 8 : 12;
    if (a->plan == PLAN_ZERO)
        return;
    if (a->plan != PLAN_CAREFUL) {
        for (int k = 0; k < STRIP; k++)
            for (int i = 0; i < STRIP; i++)
                tile->value[k / 4][i][k % 4] = (uint8_t)(o->value[k][i / 8][i % 8] + bias);
        sum_of(o, a, sum);
        code_largest(tile, value, bias, most);
        if (code_step_cut(tile, a, value, bias, sum, most, l))
            return;
    }
    code_step_careful(s, code_path_portable.column, code_chain_panel, NULL, row, block, l);
}

static inline __attribute__((always_inline)) int step(const struct sums *o, const struct code_tile *tile,
                                                      const struct code_block *a, struct code_lanes *l)
{
    int32_t sum[STRIP];
    lanes_i holds = ~(lanes_i){0};
    float c_new[STRIP], whole_new[STRIP];
    int wide = a->plan == PLAN_WIDE;
    float unit = wide ? a->wide_unit : a->unit, most = wide ? a->wide_limit : a->limit;
    if (a->plan != PLAN_WHOLE && !wide)
        return 0;
    if (wide)
        wide_sum(o, a, sum);
    else
        sum_of(o, a, sum);
    for (int i = 0; i < STRIP; i += LANES) {
        lanes_f scale = lanes_at(tile->scale + i), c = lanes_at(l->c + i), whole = lanes_at(l->whole + i);
        lanes_f mag = (lanes_f)((lanes_i)c & 0x7fffffff), limit = scale * most, reach = scale * a->reach;
        holds &= (mag <= limit) & ((8 * mag >= reach) | (whole >= reach));
        c = lanes_toward_zero(TO_D(c) + TO_D(lanes_int(sum + i)) * TO_D(scale * unit));
        whole = lanes_pick(whole < limit, whole, limit);
        memcpy(c_new + i, &c, sizeof c);
        memcpy(whole_new + i, &whole, sizeof whole);
    }
    if (!lanes_all(holds))
        return 0;
    memcpy(l->c, c_new, sizeof c_new);
    memcpy(l->whole, whole_new, sizeof whole_new);
    return 1;
}

static inline __attribute__((always_inline)) void run(const struct code_slice *s, enum weight_format format, int warp,
                                                      struct code_lanes *lanes)
{
    struct sums o;
    struct code_tile tile;
    for (int r = 0; r < s->count; r++)
        for (int i = 0; i < STRIP; i++)
            lanes[r].c[i] = 0, lanes[r].whole[i] = 0x1p127f;
    for (int t = s->t0; t < s->t1; t++)
        for (int i = 0; i < 2; i++) {
            int block = 2 * (t * s->warps + warp) + i;
            if (block >= s->last)
                continue;
            decode(s, format, block, &o, &tile);
            for (int r = 0; r < s->count; r++) {
                const struct code_block *a = s->block_of + (size_t)block * (size_t)s->all + s->row[r];
                if (!step(&o, &tile, a, &lanes[r]))
                    other_step(s, &o, &tile, a, s->row[r], block, &lanes[r]);
            }
        }
}

static void slice(const struct code_slice *s)
{
    struct code_lanes lanes[64];
    for (int warp = 0; warp < s->warps; warp++) {
        if (s->w->format == WF_NVFP4)
            run(s, WF_NVFP4, warp, lanes);
        else if (s->w->format == WF_MXFP4)
            run(s, WF_MXFP4, warp, lanes);
        else
            run(s, WF_U4B8, warp, lanes);
        for (int r = 0; r < s->count; r++)
            memcpy(s->acc + (size_t)warp * s->part_size + r * STRIP, lanes[r].c, sizeof lanes[r].c);
    }
}

const struct code_path code_path_portable = {"portable", slice, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
