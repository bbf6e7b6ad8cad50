/* codes_step - what the quick paths of all instruction sets share; see codes.h
 *
 * In vectors of the width that the including file is compiled for.
 */
#ifndef ASSAY_KERNELS_CODES_STEP_H
#define ASSAY_KERNELS_CODES_STEP_H

#include "kernels/bits.h"
#include "kernels/codes.h"

/* A block of a strip, ready for any row. Which column a lane holds is up to the instruction set. */
struct code_tile {
    uint8_t value[4][STRIP][4] __attribute__((aligned(64))); /* V + bias of [quarter][lane][k] */
    float scale[STRIP];                                      /* worth of V = 1, in shifted units */
};

/* Accumulators of one row, in shifted units: c, and 2^26 times a unit that c is a multiple of, or less. */
struct code_lanes {
    float c[STRIP] __attribute__((aligned(64))), whole[STRIP];
};

/* Tables of V + bias: E2M1 in halves; a u4b8 code is its own. */
static const uint8_t code_e2m1[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
static const uint8_t code_u4b8[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* The 16 raw scales of a block; format: E2M1 with groups of 16 or 32. */
static inline __attribute__((always_inline)) const uint8_t *code_scales(const struct packed_weight *w,
                                                                        enum weight_format format, int strip, int block)
{
    int groups = format == WF_NVFP4 ? w->k >> 4 : w->k >> 5, group = format == WF_NVFP4 ? block : block >> 1;
    if (__builtin_expect(w->scale_shift, 0))
        group = (group + w->scale_shift) % groups;
    return (const uint8_t *)w->scales + ((size_t)strip * (size_t)groups + (size_t)group) * STRIP;
}

static inline __attribute__((always_inline)) const uint16_t *code_words(const struct packed_weight *w, int strip,
                                                                        int block)
{
    return w->codes + ((size_t)strip * (size_t)(w->k >> 4) + (size_t)block) * 64;
}

#if defined __AVX512F__
#define LANES 16
#elif defined __AVX2__
#define LANES 8
#else
#define LANES 4
#endif

typedef float lanes_f __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_i __attribute__((vector_size(4 * LANES)));
typedef double lanes_d __attribute__((vector_size(8 * LANES)));
typedef int64_t lanes_l __attribute__((vector_size(8 * LANES)));

#define TO_F(x) __builtin_convertvector(x, lanes_f)
#define TO_I(x) __builtin_convertvector(x, lanes_i)
#define TO_D(x) __builtin_convertvector(x, lanes_d)

static inline lanes_f lanes_at(const float *p)
{
    lanes_f x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline lanes_i lanes_int(const void *p)
{
    lanes_i x;
    memcpy(&x, p, sizeof x);
    return x;
}

static inline lanes_f lanes_pick(lanes_i mask, lanes_f yes, lanes_f no)
{
    return (lanes_f)((mask & (lanes_i)yes) | (~mask & (lanes_i)no));
}

static inline int lanes_all(lanes_i mask)
{
    int all = -1;
    for (int i = 0; i < LANES; i++)
        all &= mask[i];
    return all;
}

/* Towards zero to fp32, inside the normal range. */
static inline lanes_f lanes_toward_zero(lanes_d x)
{
    return TO_F((lanes_d)((lanes_l)x & ~(int64_t)0x1fffffff));
}

/* V[k] of some lanes. */
static inline lanes_i lanes_value(const struct code_tile *o, int k, int lane, int bias)
{
    return (lanes_int(o->value[k / 4][lane]) >> 8 * (k % 4) & 255) - bias;
}

/* Largest |a[k]*V[k,lane]|, of a its leading bit only: times the scale, its exponent is that of the products. */
static inline void code_largest(const struct code_tile *o, const float *value, int bias, float *out)
{
    for (int i = 0; i < STRIP; i += LANES) {
        lanes_f most = {0};
        for (int k = 0; k < STRIP; k++) {
            float power = f32_from_bits(f32_bits(value[k]) & 0x7f800000);
            lanes_i v = (lanes_i)(TO_F(lanes_value(o, k, i, bias)) * power) & 0x7fffffff;
            most = lanes_pick(v > (lanes_i)most, (lanes_f)v, most);
        }
        memcpy(out + i, &most, sizeof most);
    }
}

/* A step whose grid is known: c and each small product are cut to 2^(E-25), the sum of the others is whole.
 * sum: of A*V over the others, lane by lane; largest: as code_largest has it. Returns 0 and leaves l alone where even
 * that sum has bits to cut. */
static inline int code_step_cut(const struct code_tile *o, const struct code_block *a, const float *value, int bias,
                                const int32_t *sum, const float *largest, struct code_lanes *l)
{
    lanes_i known = ~(lanes_i){0};
    for (int i = 0; i < STRIP; i += LANES) {
        lanes_f scale = lanes_at(o->scale + i), c = lanes_at(l->c + i);
        known &= (lanes_f)((lanes_i)c & 0x7fffffff) <= scale * a->limit;
    }
    if (!lanes_all(known))
        return 0;
    for (int i = 0; i < STRIP; i += LANES) {
        lanes_f scale = lanes_at(o->scale + i), c = lanes_at(l->c + i);
        lanes_i mag = (lanes_i)c & 0x7fffffff, most = (lanes_i)(lanes_at(largest + i) * scale);
        lanes_i field = ((most & (most > mag)) | (mag & (most <= mag))) & 0x7f800000;
        field = (field & (field > (27 << 23))) | ((27 << 23) & (field <= (27 << 23))); /* of a zero */
        lanes_f fine = (lanes_f)(field - (25 << 23)), grid = (lanes_f)((254 << 23) - (lanes_i)fine);
        lanes_i cut = TO_I(c * grid); /* below 2^26; a product is below 2^27, and at most 15 are small */
        for (unsigned rest = a->small; rest; rest &= rest - 1) {
            int k = __builtin_ctz(rest);
            cut += TO_I(TO_F(lanes_value(o, k, i, bias)) * value[k] * scale * grid);
        }
        lanes_d whole = TO_D(lanes_int(sum + i)) * TO_D(scale * a->unit);
        c = lanes_toward_zero(whole + TO_D(cut) * TO_D(fine));
        fine *= 0x1p26f;
        memcpy(l->c + i, &c, sizeof c);
        memcpy(l->whole + i, &fine, sizeof fine);
    }
    return 1;
}

static inline void code_careful(const struct code_slice *s, int row, int block, struct code_careful *out)
{
    size_t at = (size_t)row * (size_t)(s->w->k / STRIP) + (size_t)block;
    code_prepare_careful(s->rows->raw + STRIP * at, (enum block_state)s->rows->state[at], out);
}

/* One step of one row by the careful path. */
static __attribute__((noinline)) void code_step_careful(const struct code_slice *s, const uint8_t *column,
                                                        code_chain_fn *chain, const struct code_careful *a, int row,
                                                        int block, struct code_lanes *l)
{
    float plain[STRIP], up = f32_from_bits((uint32_t)(127 + s->w->shift) << 23),
                        down = f32_from_bits((uint32_t)(127 - s->w->shift) << 23);
    int32_t rows[1] = {row}, blocks[1] = {block};
    struct code_chain one = {s->w, s->rows, a, 0, rows, 1, blocks, 1, 1, s->strip, plain, STRIP};
    for (int i = 0; i < STRIP; i++)
        plain[column[i]] = l->c[i] * down;
    chain(&one);
    for (int i = 0; i < STRIP; i++) {
        l->whole[i] = f32_from_bits(f32_bits(l->c[i] * 2) & 0x7f800000); /* the grid was 2^(exponent-25) at least */
        l->c[i] = plain[column[i]] * up;
    }
}

#endif
