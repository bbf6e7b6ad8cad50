/* panel, AVX2 - chains of tensor-core steps, 16 columns in two registers of eight fp32 lanes
 *
 * Per step: the alignment exponent E of every column from 16-bit keys (exponent fields add; fraction bits ride below),
 * then each exact product times 2^(F-E), truncated to an integer, is the grid value; their integer sum, converted
 * towards zero, is the result. Exact while 2^-100 <= 2^E <= 2^F (above, the scaling of a zero would not stay below 1)
 * and the sum fits 32 bits; other lanes are redone by the scalar rule. Shifted operands (NVFP4) have the floor of E
 * inside that range, and subnormal results are cut to multiples of 2^-149.
 */
#include "kernels/panel.h"

#include <immintrin.h>

#define LOW_FIELD 154 /* E = -100 */

struct step_const {
    int first, products, fraction, floor_field, shifted;
    enum activation act;
    int subnormal_field; /* biased exponent of 2^-126 in shifted units */
};

static inline __m256i fields(__m256 c)
{
    return _mm256_srli_epi32(_mm256_slli_epi32(_mm256_castps_si256(c), 1), 24);
}

/* Exponent field of an accumulator, with the true subnormals at the field of 2^-126, zero at 0. */
static inline __attribute__((always_inline)) __m256i acc_field(const struct step_const *s, __m256 c)
{
    __m256i f = fields(c);
    if (s->shifted) {
        __m256i zero = _mm256_castps_si256(_mm256_cmp_ps(c, _mm256_setzero_ps(), _CMP_EQ_OQ));
        f = _mm256_andnot_si256(zero, _mm256_max_epi32(f, _mm256_set1_epi32(s->subnormal_field)));
    }
    return _mm256_add_epi32(f, _mm256_set1_epi32(127));
}

/* Largest exponent field of the products of 16 columns, as 16-bit keys. */
static inline __attribute__((always_inline)) __m256i product_key(const struct step_const *s, const uint16_t *b,
                                                                 const uint32_t *key)
{
    __m256i best = _mm256_setzero_si256();
    for (int j = s->first; j < s->first + s->products; j++) {
        __m256i w = _mm256_and_si256(_mm256_load_si256((const __m256i *)(b + 16 * j)), _mm256_set1_epi16(0x7fff));
        if (s->act == ACT_F16) {
            if (!key[j])
                continue;
            __m256i zero = _mm256_cmpeq_epi16(w, _mm256_setzero_si256());
            w = _mm256_max_epu16(w, _mm256_set1_epi16(0x400));
            w = _mm256_andnot_si256(zero, _mm256_add_epi16(w, _mm256_set1_epi32((int)key[j])));
        } else {
            w = _mm256_add_epi16(w, _mm256_set1_epi32((int)key[j]));
        }
        best = _mm256_max_epu16(best, w);
    }
    return best;
}

/* Field sums (bias 254) of the even and odd places. */
static inline __attribute__((always_inline)) void key_fields(const struct step_const *s, __m256i key, __m256i *lo,
                                                             __m256i *hi)
{
    *lo = _mm256_and_si256(key, _mm256_set1_epi32(0xffff));
    *hi = _mm256_srli_epi32(key, 16);
    if (s->act == ACT_BF16) {
        *lo = _mm256_srli_epi32(*lo, 7);
        *hi = _mm256_srli_epi32(*hi, 7);
        return;
    }
    __m256i up = _mm256_set1_epi32(254 - 30), none = _mm256_setzero_si256();
    __m256i zl = _mm256_cmpeq_epi32(*lo, none), zh = _mm256_cmpeq_epi32(*hi, none);
    *lo = _mm256_andnot_si256(zl, _mm256_add_epi32(_mm256_srli_epi32(*lo, 10), up));
    *hi = _mm256_andnot_si256(zh, _mm256_add_epi32(_mm256_srli_epi32(*hi, 10), up));
}

static inline __attribute__((always_inline)) void operands(const struct step_const *s, const uint16_t *b, __m256 *lo,
                                                           __m256 *hi)
{
    __m256i w = _mm256_load_si256((const __m256i *)b);
    if (s->act == ACT_BF16) {
        *lo = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
        *hi = _mm256_castsi256_ps(_mm256_and_si256(w, _mm256_set1_epi32((int)0xffff0000)));
        return;
    }
    __m256i even = _mm256_and_si256(w, _mm256_set1_epi32(0xffff)), odd = _mm256_srli_epi32(w, 16);
    __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(even, odd), 0xd8);
    *lo = _mm256_cvtph_ps(_mm256_castsi256_si128(both));
    *hi = _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1));
}

struct lanes {
    __m256 c;
    __m256i field, up, sum, half; /* up: F - E in the exponent field; adding it multiplies, and keeps 0 below 1 */
};

/* x * 2^(F-E), truncated to an integer. */
static inline __attribute__((always_inline)) __m256i grid(const struct lanes *l, __m256 x)
{
    return _mm256_cvttps_epi32(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), l->up)));
}

static inline __attribute__((always_inline)) void align(const struct step_const *s, struct lanes *l, __m256i product)
{
    l->field = _mm256_max_epi32(product, acc_field(s, l->c));
    if (s->shifted)
        l->field = _mm256_max_epi32(l->field, _mm256_set1_epi32(s->floor_field));
    if (s->act == ACT_F16) /* fp16 terms stay above; this is for lanes without any, so that grid() keeps their zeros */
        l->field = _mm256_max_epi32(l->field, _mm256_set1_epi32(LOW_FIELD));
    l->up = _mm256_slli_epi32(_mm256_sub_epi32(_mm256_set1_epi32(s->fraction + 254), l->field), 23);
    l->sum = grid(l, l->c);
}

static inline __attribute__((always_inline)) void add_product(struct lanes *l, __m256 a, __m256 b)
{
    l->sum = _mm256_add_epi32(l->sum, grid(l, _mm256_mul_ps(a, b)));
}

/* Shifted operands: a result whose true value is subnormal keeps only multiples of 2^-149. */
static __m256 cut_subnormal(const struct step_const *s, __m256 x)
{
    __m256 mag = _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
    __m256 limit = _mm256_castsi256_ps(_mm256_set1_epi32(s->subnormal_field << 23));
    __m256 up = _mm256_castsi256_ps(_mm256_set1_epi32((127 + 127 + 23 - s->subnormal_field) << 23));
    __m256 down = _mm256_castsi256_ps(_mm256_set1_epi32((s->subnormal_field - 23) << 23));
    __m256 cut = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvttps_epi32(_mm256_mul_ps(x, up))), down);
    return _mm256_blendv_ps(x, cut, _mm256_cmp_ps(mag, limit, _CMP_LT_OQ));
}

/* Ends the step: returns the lanes that the scalar rule must redo, new accumulators in l->c. */
static inline __attribute__((always_inline)) int finish(const struct step_const *s, struct lanes *l)
{
    __m256i t = l->sum, bad = _mm256_cmpgt_epi32(l->field, _mm256_set1_epi32(254 + s->fraction));
    if (s->products == 16) {
        t = _mm256_add_epi32(l->half, l->sum);
        __m256i over = _mm256_and_si256(_mm256_xor_si256(l->half, t), _mm256_xor_si256(l->sum, t));
        bad = _mm256_or_si256(bad, over);
    }
    if (!s->shifted) {
        __m256i low = _mm256_cmpgt_epi32(_mm256_set1_epi32(LOW_FIELD), l->field);
        bad = _mm256_or_si256(bad, low);
    }
    __m256i inverse = _mm256_sub_epi32(l->field, _mm256_set1_epi32(254 - 127 + s->fraction));
    l->c = _mm256_mul_ps(_mm256_cvtepi32_ps(t), _mm256_castsi256_ps(_mm256_slli_epi32(inverse, 23)));
    if (s->shifted) {
        /* 2^(E-F) at or above the last subnormal bit needs no cut */
        __m256i fine = _mm256_cmpgt_epi32(_mm256_set1_epi32(s->subnormal_field - 23 + s->fraction + 127), l->field);
        if (!_mm256_testz_si256(fine, fine))
            l->c = cut_subnormal(s, l->c);
    }
    return _mm256_movemask_ps(_mm256_castsi256_ps(bad));
}

static __attribute__((noinline)) void redo(const struct chain *c, int row, int block, const uint16_t *b, int mask,
                                           int odd, __m256 before, __m256 *after)
{
    float in[8], out[8];
    unsigned mode = _mm_getcsr();
    _mm256_storeu_ps(in, before);
    _mm256_storeu_ps(out, *after);
    for (int i = 0; i < 8; i++)
        if (mask >> i & 1)
            out[i] = panel_step_scalar(c, row, block, b, 2 * i + odd, in[i]);
    _mm_setcsr(mode);
    *after = _mm256_loadu_ps(out);
}

/* R units (rows of one strip: same; or one row of two strips), one block, products [first, first+products).
 * acc[r][0..1]: columns 0..7, 8..15; bad: lanes to redo. */
static inline __attribute__((always_inline)) void step(const struct chain *c, const struct step_const *s, int R,
                                                       int same, const int32_t *row, int block,
                                                       const uint16_t *const *b, __m256 (*acc)[2], int (*bad)[2])
{
    struct lanes l[2][2];
    const float *value[2];
    for (int r = 0; r < R; r++) {
        size_t at = (size_t)row[r] * (size_t)c->rows->k + 16 * (size_t)block;
        __m256i lo, hi;
        value[r] = c->rows->value + at;
        key_fields(s, product_key(s, b[r], c->rows->key + at), &lo, &hi);
        l[r][0].c = acc[r][0];
        l[r][1].c = acc[r][1];
        align(s, &l[r][0], lo);
        align(s, &l[r][1], hi);
    }
    for (int j = 0; j < s->products; j++) {
        __m256 lo, hi;
        if (j == 8)
            for (int r = 0; r < R; r++)
                for (int h = 0; h < 2; h++) {
                    l[r][h].half = l[r][h].sum;
                    l[r][h].sum = _mm256_setzero_si256();
                }
        operands(s, b[0] + 16 * (s->first + j), &lo, &hi);
        for (int r = 0; r < R; r++) {
            if (!same && r)
                operands(s, b[r] + 16 * (s->first + j), &lo, &hi);
            __m256 a = _mm256_broadcast_ss(value[r] + s->first + j);
            add_product(&l[r][0], a, lo);
            add_product(&l[r][1], a, hi);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++) {
            bad[r][h] |= finish(s, &l[r][h]);
            acc[r][h] = l[r][h].c;
        }
}

static inline __attribute__((always_inline)) void advance(const struct chain *c, int wide, int shifted,
                                                          enum activation act, int R, int same, const int32_t *row,
                                                          int block, const uint16_t *const *b, __m256 (*acc)[2])
{
    int fraction = wide ? 25 : 24, floor_exp = wide ? -133 : -132, n = wide ? 16 : 8, bad[2][2] = {{0}};
    struct step_const s = {0, n, fraction, shifted ? floor_exp + c->shift + 254 : 0, shifted, act, 1 + c->shift};
    __m256 before[2][2];
    for (int r = 0; r < R; r++)
        before[r][0] = acc[r][0], before[r][1] = acc[r][1];
    step(c, &s, R, same, row, block, b, acc, bad);
    if (!wide) {
        s.first = 8;
        step(c, &s, R, same, row, block, b, acc, bad);
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++)
            if (__builtin_expect(bad[r][h], 0))
                redo(c, row[r], block, b[r], bad[r][h], h, before[r][h], &acc[r][h]);
}

static __m256 power_of_two(int exponent)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32((127 + exponent) << 23));
}

/* Carries R units along the chain; out: where each unit's 16 columns are. */
static inline __attribute__((always_inline)) void run_units(const struct chain *c, int wide, int shifted,
                                                            enum activation act, int R, int same, const int32_t *row,
                                                            const uint16_t *const *strip, float *const *out)
{
    __m256 acc[2][2], up = power_of_two(c->shift), down = power_of_two(-c->shift);
    const uint16_t *b[2];
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++)
            acc[r][h] = _mm256_mul_ps(_mm256_loadu_ps(out[r] + 8 * h), up);
    for (int i = 0; i < c->blocks; i++) {
        int all = 1, state[2];
        for (int r = 0; r < R; r++) {
            b[r] = strip[r] + 256 * (size_t)(c->packed ? i : c->block[i]);
            state[r] = c->rows->state[(size_t)row[r] * (size_t)(c->rows->k / 16) + (size_t)c->block[i]];
            all &= state[r] == BLOCK_NORMAL;
        }
        if (__builtin_expect(all, 1)) {
            advance(c, wide, shifted, act, R, same, row, c->block[i], b, acc);
            continue;
        }
        for (int r = 0; r < R; r++) {
            if (state[r] == BLOCK_NORMAL)
                advance(c, wide, shifted, act, 1, 1, row + r, c->block[i], b + r, acc + r);
            for (int h = 0; state[r] == BLOCK_SPECIAL && h < 2; h++)
                redo(c, row[r], c->block[i], b[r], 255, h, acc[r][h], &acc[r][h]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int h = 0; h < 2; h++)
            _mm256_storeu_ps(out[r] + 8 * h, _mm256_mul_ps(acc[r][h], down));
}

static inline __attribute__((always_inline)) void run(const struct chain *c, int wide, int shifted, enum activation act)
{
    const uint16_t *strip[2] = {c->b, c->b + c->stride};
    float *out[2] = {c->acc, c->acc + STRIP};
    if (c->strips == 2 && c->count == 1) {
        const int32_t row[2] = {c->row[0], c->row[0]};
        run_units(c, wide, shifted, act, 2, 0, row, strip, out);
        return;
    }
    for (int s = 0; s < c->strips; s++)
        for (int r = 0; r < c->count; r += 2) {
            strip[0] = strip[1] = c->b + (size_t)s * c->stride;
            out[0] = c->acc + (s * c->count + r) * STRIP;
            out[1] = out[0] + STRIP;
            if (r + 2 <= c->count)
                run_units(c, wide, shifted, act, 2, 1, c->row + r, strip, out);
            else
                run_units(c, wide, shifted, act, 1, 1, c->row + r, strip, out);
        }
}

static __attribute__((noinline)) void dispatch(const struct chain *c)
{
    if (c->rule.products == 16) {
        if (c->act == ACT_F16)
            run(c, 1, 0, ACT_F16);
        else if (c->shift)
            run(c, 1, 1, ACT_BF16);
        else
            run(c, 1, 0, ACT_BF16);
    } else {
        if (c->act == ACT_F16)
            run(c, 0, 0, ACT_F16);
        else if (c->shift)
            run(c, 0, 1, ACT_BF16);
        else
            run(c, 0, 0, ACT_BF16);
    }
}

void panel_chain_avx2(const struct chain *c)
{
    if (panel_needs_scalar(c)) {
        panel_chain_scalar(c);
        return;
    }
    unsigned mode = _mm_getcsr();
    _mm_setcsr((mode & ~_MM_ROUND_MASK) | _MM_ROUND_TOWARD_ZERO);
    dispatch(c);
    _mm_setcsr(mode);
}
