/* panel, AVX-512 - the steps of panel_avx2.c with 16 fp32 lanes a register, in the order of the places
 *
 * Four rows share each operand; the conversion towards zero is rounded by the instruction.
 */
#include "kernels/panel.h"

#include <immintrin.h>

#define RZ        (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define LOW_FIELD 154
#define ROWS      4

struct step_const {
    int first, products, fraction, floor_field, shifted, subnormal_field;
    enum activation act;
};

struct lanes {
    __m512 c;
    __m512i field, up, sum, half; /* up: 25 - E in the exponent field; adding it multiplies, and keeps 0 below 1 */
};

static inline __attribute__((always_inline)) __m512i acc_field(const struct step_const *s, __m512 c)
{
    __m512i f = _mm512_srli_epi32(_mm512_slli_epi32(_mm512_castps_si512(c), 1), 24);
    if (s->shifted) {
        __mmask16 some = _mm512_cmp_ps_mask(c, _mm512_setzero_ps(), _CMP_NEQ_UQ);
        f = _mm512_maskz_max_epi32(some, f, _mm512_set1_epi32(s->subnormal_field));
    }
    return _mm512_add_epi32(f, _mm512_set1_epi32(127));
}

static inline __attribute__((always_inline)) __m512i product_field(const struct step_const *s, const uint16_t *b,
                                                                   const uint32_t *key)
{
    __m256i best = _mm256_setzero_si256();
    for (int j = s->first; j < s->first + s->products; j++) {
        __m256i w = _mm256_and_si256(_mm256_load_si256((const __m256i *)(b + 16 * j)), _mm256_set1_epi16(0x7fff));
        __m256i k = _mm256_set1_epi32((int)key[j]);
        if (s->act == ACT_F16) {
            __mmask16 some = key[j] ? _mm256_test_epi16_mask(w, w) : 0;
            w = _mm256_maskz_add_epi16(some, _mm256_max_epu16(w, _mm256_set1_epi16(0x400)), k);
        } else {
            w = _mm256_add_epi16(w, k);
        }
        best = _mm256_max_epu16(best, w);
    }
    __m512i wide = _mm512_cvtepu16_epi32(best);
    if (s->act == ACT_BF16)
        return _mm512_srli_epi32(wide, 7);
    __mmask16 some = _mm512_test_epi32_mask(wide, wide);
    return _mm512_maskz_add_epi32(some, _mm512_srli_epi32(wide, 10), _mm512_set1_epi32(254 - 30));
}

static inline __attribute__((always_inline)) __m512 operand(const struct step_const *s, const uint16_t *b)
{
    __m256i w = _mm256_load_si256((const __m256i *)b);
    return s->act == ACT_BF16 ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(w), 16))
                              : _mm512_cvtph_ps(w);
}

/* x * 2^(F-E), truncated to an integer. */
static inline __attribute__((always_inline)) __m512i grid(const struct lanes *l, __m512 x)
{
    return _mm512_cvttps_epi32(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), l->up)));
}

static inline __attribute__((always_inline)) void align(const struct step_const *s, struct lanes *l, __m512i product)
{
    l->field = _mm512_max_epi32(product, acc_field(s, l->c));
    if (s->shifted)
        l->field = _mm512_max_epi32(l->field, _mm512_set1_epi32(s->floor_field));
    if (s->act == ACT_F16) /* fp16 terms stay above; this is for lanes without any, so that grid() keeps their zeros */
        l->field = _mm512_max_epi32(l->field, _mm512_set1_epi32(LOW_FIELD));
    l->up = _mm512_slli_epi32(_mm512_sub_epi32(_mm512_set1_epi32(s->fraction + 254), l->field), 23);
    l->sum = grid(l, l->c);
}

static __m512 cut_subnormal(const struct step_const *s, __m512 x)
{
    __m512 up = _mm512_castsi512_ps(_mm512_set1_epi32((127 + 127 + 23 - s->subnormal_field) << 23));
    __m512 down = _mm512_castsi512_ps(_mm512_set1_epi32((s->subnormal_field - 23) << 23));
    __m512 limit = _mm512_castsi512_ps(_mm512_set1_epi32(s->subnormal_field << 23));
    __m512 cut = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvttps_epi32(_mm512_mul_ps(x, up))), down);
    return _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(_mm512_abs_ps(x), limit, _CMP_LT_OQ), cut);
}

static inline __attribute__((always_inline)) __mmask16 finish(const struct step_const *s, struct lanes *l)
{
    __m512i t = l->sum;
    __mmask16 bad = _mm512_cmpgt_epi32_mask(l->field, _mm512_set1_epi32(254 + s->fraction));
    if (s->products == 16) {
        t = _mm512_add_epi32(l->half, l->sum);
        __m512i over = _mm512_and_si512(_mm512_xor_si512(l->half, t), _mm512_xor_si512(l->sum, t));
        bad |= _mm512_movepi32_mask(over);
    }
    if (!s->shifted) {
        __mmask16 low = _mm512_cmpgt_epi32_mask(_mm512_set1_epi32(LOW_FIELD), l->field);
        bad |= low;
    }
    __m512i inverse = _mm512_sub_epi32(l->field, _mm512_set1_epi32(254 - 127 + s->fraction));
    l->c = _mm512_mul_ps(_mm512_cvt_roundepi32_ps(t, RZ), _mm512_castsi512_ps(_mm512_slli_epi32(inverse, 23)));
    if (s->shifted) {
        __m512i least = _mm512_set1_epi32(s->subnormal_field - 23 + s->fraction + 127);
        if (_mm512_cmpgt_epi32_mask(least, l->field))
            l->c = cut_subnormal(s, l->c);
    }
    return bad;
}

static __attribute__((noinline)) void redo(const struct chain *c, int row, int block, const uint16_t *b, unsigned mask,
                                           __m512 before, __m512 *after)
{
    float in[16], out[16];
    _mm512_storeu_ps(in, before);
    _mm512_storeu_ps(out, *after);
    for (int i = 0; i < 16; i++)
        if (mask >> i & 1)
            out[i] = panel_step_scalar(c, row, block, b, i, in[i]);
    *after = _mm512_loadu_ps(out);
}

static inline __attribute__((always_inline)) void step(const struct chain *c, const struct step_const *s, int R,
                                                       int same, const int32_t *row, int block,
                                                       const uint16_t *const *b, __m512 *acc, __mmask16 *bad)
{
    struct lanes l[ROWS];
    const float *value[ROWS];
    for (int r = 0; r < R; r++) {
        size_t at = (size_t)row[r] * (size_t)c->rows->k + 16 * (size_t)block;
        value[r] = c->rows->value + at;
        l[r].c = acc[r];
        align(s, &l[r], product_field(s, b[r], c->rows->key + at));
    }
    for (int j = 0; j < s->products; j++) {
        if (j == 8)
            for (int r = 0; r < R; r++) {
                l[r].half = l[r].sum;
                l[r].sum = _mm512_setzero_si512();
            }
        __m512 w = operand(s, b[0] + 16 * (s->first + j));
        for (int r = 0; r < R; r++) {
            if (!same && r)
                w = operand(s, b[r] + 16 * (s->first + j));
            __m512 p = _mm512_mul_ps(_mm512_set1_ps(value[r][s->first + j]), w);
            l[r].sum = _mm512_add_epi32(l[r].sum, grid(&l[r], p));
        }
    }
    for (int r = 0; r < R; r++) {
        bad[r] |= finish(s, &l[r]);
        acc[r] = l[r].c;
    }
}

static inline __attribute__((always_inline)) void advance(const struct chain *c, int wide, int shifted,
                                                          enum activation act, int R, int same, const int32_t *row,
                                                          int block, const uint16_t *const *b, __m512 *acc)
{
    int fraction = wide ? 25 : 24, floor_exp = wide ? -133 : -132;
    struct step_const s = {0,       wide ? 16 : 8, fraction, shifted ? floor_exp + c->shift + 254 : 0,
                           shifted, 1 + c->shift,  act};
    __m512 before[ROWS];
    __mmask16 bad[ROWS] = {0};
    for (int r = 0; r < R; r++)
        before[r] = acc[r];
    step(c, &s, R, same, row, block, b, acc, bad);
    if (!wide) {
        s.first = 8;
        step(c, &s, R, same, row, block, b, acc, bad);
    }
    for (int r = 0; r < R; r++)
        if (__builtin_expect(bad[r], 0))
            redo(c, row[r], block, b[r], bad[r], before[r], &acc[r]);
}

static const int32_t to_place[16] = {0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15};
static const int32_t to_column[16] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};

/* R units at once: rows of one strip (same), or one row of R strips. acc: where each unit's 16 columns are. */
static inline __attribute__((always_inline)) void run_units(const struct chain *c, int wide, int shifted,
                                                            enum activation act, int R, int same, const int32_t *row,
                                                            const uint16_t *const *strip, float *const *out)
{
    __m512 acc[ROWS];
    const uint16_t *b[ROWS];
    __m512 up = _mm512_castsi512_ps(_mm512_set1_epi32((127 + c->shift) << 23));
    __m512 down = _mm512_castsi512_ps(_mm512_set1_epi32((127 - c->shift) << 23));
    for (int r = 0; r < R; r++)
        acc[r] = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_loadu_si512(to_place), _mm512_loadu_ps(out[r])), up);
    for (int i = 0; i < c->blocks; i++) {
        int all = 1, state[ROWS];
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
            if (state[r] == BLOCK_SPECIAL)
                redo(c, row[r], c->block[i], b[r], 0xffff, acc[r], &acc[r]);
        }
    }
    for (int r = 0; r < R; r++) {
        __m512 x = _mm512_permutexvar_ps(_mm512_loadu_si512(to_column), acc[r]);
        _mm512_storeu_ps(out[r], _mm512_mul_ps(x, down));
    }
}

static inline __attribute__((always_inline)) void run(const struct chain *c, int wide, int shifted, enum activation act)
{
    const uint16_t *strip[ROWS] = {c->b, c->b, c->b, c->b};
    float *out[ROWS];
    if (c->strips == 2 && c->count == 1) {
        const int32_t row[2] = {c->row[0], c->row[0]};
        strip[1] = c->b + c->stride;
        out[0] = c->acc, out[1] = c->acc + STRIP;
        run_units(c, wide, shifted, act, 2, 0, row, strip, out);
        return;
    }
    for (int s = 0; s < c->strips; s++)
        for (int r = 0; r < c->count;) {
            int units = c->count - r >= ROWS ? ROWS : 1;
            for (int i = 0; i < units; i++) {
                strip[i] = c->b + (size_t)s * c->stride;
                out[i] = c->acc + (s * c->count + r + i) * STRIP;
            }
            if (units == ROWS)
                run_units(c, wide, shifted, act, ROWS, 1, c->row + r, strip, out);
            else
                run_units(c, wide, shifted, act, 1, 1, c->row + r, strip, out);
            r += units;
        }
}

void panel_chain_avx512(const struct chain *c)
{
    int wide = c->rule.products == 16;
    if (panel_needs_scalar(c))
        panel_chain_scalar(c);
    else if (c->act == ACT_F16 && wide)
        run(c, 1, 0, ACT_F16);
    else if (c->act == ACT_F16)
        run(c, 0, 0, ACT_F16);
    else if (c->shift && wide)
        run(c, 1, 1, ACT_BF16);
    else if (c->shift)
        run(c, 0, 1, ACT_BF16);
    else if (wide)
        run(c, 1, 0, ACT_BF16);
    else
        run(c, 0, 0, ACT_BF16);
}
