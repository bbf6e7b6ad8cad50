/* codes, AVX-512 - the quick path of codes_avx2.c with 16 columns in one register, in their natural order */
#include "kernels/codes_step.h"

#include <immintrin.h>

/* --- a block of a strip --- */

static inline __attribute__((always_inline)) void decode(const struct code_slice *s, enum weight_format format,
                                                         int block, struct code_tile *o)
{
    const uint16_t *words = code_words(s->w, s->strip, block);
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)code_e2m1));
    for (int q = 0; q < 4; q++) {
        __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(words + 16 * q)));
        x = _mm512_and_si512(_mm512_or_si512(x, _mm512_slli_epi32(x, 12)), _mm512_set1_epi32(0x0f0f0f0f));
        if (format != WF_U4B8)
            x = _mm512_shuffle_epi8(table, x);
        _mm512_store_si512(o->value[q], x);
    }
    if (format == WF_U4B8) {
        _mm512_store_ps(o->scale, _mm512_set1_ps(1));
        return;
    }
    __m128i b = _mm_loadu_si128((const __m128i *)code_scales(s->w, format, s->strip, block));
    if (format == WF_NVFP4) {
        __m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(b), 7);
        _mm512_store_ps(o->scale, _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(0x1p-17f)));
    } else {
        __m512i field = _mm512_slli_epi32(_mm512_cvtepu8_epi32(b), 23);
        _mm512_store_ps(o->scale, _mm512_mul_ps(_mm512_castsi512_ps(field), _mm512_set1_ps(0.5f)));
    }
}

/* --- one step of one row --- */

static inline __m512i four(const int8_t *digit, int quarter)
{
    int32_t x;
    memcpy(&x, digit + 4 * quarter, sizeof x);
    return _mm512_set1_epi32(x);
}

/* weight * sum_k digit[k]*(V[k,column] + bias) */
static inline __attribute__((always_inline)) __m512i digit_sum(const struct code_tile *o, const int8_t *digit,
                                                               short weight)
{
    __m512i sum = _mm512_maddubs_epi16(_mm512_load_si512(o->value[0]), four(digit, 0));
    for (int q = 1; q < 4; q++)
        sum = _mm512_add_epi16(sum, _mm512_maddubs_epi16(_mm512_load_si512(o->value[q]), four(digit, q)));
    return _mm512_madd_epi16(sum, _mm512_set1_epi16(weight));
}

/* sum_k A[k]*V[k,column], without the small ones. */
static inline __attribute__((always_inline)) __m512i sum_of(const struct code_tile *o, const struct code_block *a)
{
    __m512i sum = _mm512_add_epi32(digit_sum(o, a->digit[0], 1), digit_sum(o, a->digit[1], 256));
    return _mm512_sub_epi32(sum, _mm512_set1_epi32(a->bias));
}

static inline __attribute__((always_inline)) __m512i wide_sum(const struct code_tile *o, const struct code_block *a)
{
    __m512i sum = _mm512_slli_epi32(digit_sum(o, a->wide[2], 256), 8);
    sum = _mm512_add_epi32(sum, digit_sum(o, a->wide[1], 256));
    sum = _mm512_add_epi32(sum, digit_sum(o, a->wide[0], 1));
    return _mm512_sub_epi32(sum, _mm512_set1_epi32(a->wide_bias));
}

static inline __m512d half_pd(__m512 x, int h)
{
    return _mm512_cvtps_pd(h ? _mm512_extractf32x8_ps(x, 1) : _mm512_castps512_ps256(x));
}

static inline __m512d half_int(__m512i x, int h)
{
    return _mm512_cvtepi32_pd(h ? _mm512_extracti32x8_epi32(x, 1) : _mm512_castsi512_si256(x));
}

/* RZ(c + sum * unit), exact before that. */
static inline __m512 wide_add(__m512i sum, __m512 unit, __m512 c)
{
    __m256 lo = _mm512_cvtpd_ps(_mm512_fmadd_pd(half_int(sum, 0), half_pd(unit, 0), half_pd(c, 0)));
    __m256 hi = _mm512_cvtpd_ps(_mm512_fmadd_pd(half_int(sum, 1), half_pd(unit, 1), half_pd(c, 1)));
    return _mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1);
}

/* code_largest by byte keys: 4 * exponent below the top, plus 2 for 1.5 times a power of two. */
static inline void largest(const struct code_tile *o, const struct code_careful *a, int bias, float *out)
{
    static const int8_t e2m1[16] = {-128, -4, 0, 2, 4, 0, 6, 0, 8, 0, 0, 0, 10};
    static const int8_t integers[16] = {-128, -4, 0, 2, 4, 4, 6, 6, 8};
    __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(bias == 8 ? integers : e2m1)));
    __m512i best = _mm512_set1_epi8(-128);
    for (int q = 0; q < 4; q++) {
        __m512i v = _mm512_sub_epi8(_mm512_load_si512(o->value[q]), _mm512_set1_epi8((char)bias));
        v = _mm512_shuffle_epi8(table, _mm512_abs_epi8(v));
        best = _mm512_max_epi8(best, _mm512_adds_epi8(v, four(a->key, q)));
    }
    best = _mm512_max_epi8(best, _mm512_srli_epi32(best, 16));
    best = _mm512_max_epi8(best, _mm512_srli_epi32(best, 8));
    best = _mm512_srai_epi32(_mm512_slli_epi32(best, 24), 24);
    __m512i field = _mm512_add_epi32(_mm512_srai_epi32(best, 2), _mm512_set1_epi32(a->top + 128));
    __m512i half = _mm512_slli_epi32(_mm512_and_si512(best, _mm512_set1_epi32(2)), 21);
    __mmask16 some = _mm512_cmpgt_epi32_mask(best, _mm512_set1_epi32(-112)); /* else all products are zero */
    __m512i value = _mm512_maskz_mov_epi32(some, _mm512_or_si512(_mm512_slli_epi32(field, 23), half));
    _mm512_storeu_ps(out, _mm512_castsi512_ps(value));
}

/* A step that is no single multiply-add. */
static __attribute__((noinline)) void other_step(const struct code_slice *s, const struct code_tile *o,
                                                 const struct code_block *a, int row, int block, struct code_lanes *l)
{
    int32_t sum[STRIP];
    float most[STRIP];
    const float *value = s->rows->value + (size_t)row * (size_t)s->rows->k + STRIP * block;
    int bias = s->w->format == WF_U4B8 ? 8 : 12;
    struct code_careful careful;
    if (a->plan == PLAN_ZERO)
        return;
    code_careful(s, row, block, &careful);
    if (a->plan != PLAN_CAREFUL) {
        _mm512_storeu_si512(sum, sum_of(o, a));
        if (careful.state == CODE_SCALAR) /* keys do not reach that far down */
            code_largest(o, value, bias, most);
        else
            largest(o, &careful, bias, most);
        if (code_step_cut(o, a, value, bias, sum, most, l))
            return;
    }
    code_step_careful(s, code_path_avx512.column, code_chain_avx2, &careful, row, block, l);
}

/* Returns 0 and leaves l alone where a bound does not hold in some lane. */
static inline __attribute__((always_inline)) int step(const struct code_tile *o, const struct code_block *a,
                                                      struct code_lanes *l)
{
    int wide = a->plan == PLAN_WIDE;
    if (__builtin_expect(a->plan != PLAN_WHOLE, 0) && !wide)
        return 0;
    __m512 scale = _mm512_load_ps(o->scale), c = _mm512_load_ps(l->c), whole = _mm512_load_ps(l->whole);
    __m512 mag = _mm512_abs_ps(c), limit = _mm512_mul_ps(scale, _mm512_set1_ps(wide ? a->wide_limit : a->limit));
    __m512 reach = _mm512_mul_ps(scale, _mm512_set1_ps(a->reach));
    __m512 holds = _mm512_max_ps(_mm512_mul_ps(mag, _mm512_set1_ps(8)), whole);
    __mmask16 bad = _mm512_cmp_ps_mask(mag, limit, _CMP_NLE_UQ) | _mm512_cmp_ps_mask(holds, reach, _CMP_NGE_UQ);
    if (__builtin_expect(bad, 0))
        return 0;
    if (__builtin_expect(wide, 0))
        c = wide_add(wide_sum(o, a), _mm512_mul_ps(scale, _mm512_set1_ps(a->wide_unit)), c);
    else
        c = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum_of(o, a)), _mm512_mul_ps(scale, _mm512_set1_ps(a->unit)), c);
    _mm512_store_ps(l->c, c);
    _mm512_store_ps(l->whole, _mm512_min_ps(whole, limit));
    return 1;
}

/* --- a slice --- */

/* Warp rows side by side for one row, so that one chain hides the latency of another; else one after the other. */
static inline __attribute__((always_inline)) void run(const struct code_slice *s, enum weight_format format, int from,
                                                      int to)
{
    struct code_lanes lanes[64];
    struct code_tile o;
    int count = s->count, warps = to - from, n = warps * count, last = s->last;
    for (int i = 0; i < n; i++) {
        _mm512_store_ps(lanes[i].c, _mm512_setzero_ps());
        _mm512_store_ps(lanes[i].whole, _mm512_set1_ps(0x1p127f));
    }
    for (int t = s->t0; t < s->t1; t++)
        for (int i = 0; i < 2 * warps; i++) {
            int block = 2 * (t * s->warps + from) + i;
            struct code_lanes *l = lanes + i / 2 * count;
            if (block >= last)
                continue;
            decode(s, format, block, &o);
            for (int r = 0; r < count; r++, l++) {
                const struct code_block *a = s->block_of + (size_t)block * (size_t)s->all + s->row[r];
                if (__builtin_expect(!step(&o, a, l), 0))
                    other_step(s, &o, a, s->row[r], block, l);
            }
        }
    for (int i = 0; i < n; i++)
        memcpy(s->acc + (size_t)(from + i / count) * s->part_size + i % count * STRIP, lanes[i].c, sizeof lanes[i].c);
}

static void run_format(const struct code_slice *s, int from, int to)
{
    if (s->w->format == WF_NVFP4)
        run(s, WF_NVFP4, from, to);
    else if (s->w->format == WF_MXFP4)
        run(s, WF_MXFP4, from, to);
    else
        run(s, WF_U4B8, from, to);
}

static void slice(const struct code_slice *s)
{
    unsigned mode = _mm_getcsr();
    _mm_setcsr((mode & ~(unsigned)_MM_ROUND_MASK) | _MM_ROUND_TOWARD_ZERO);
    for (int p = 0; p < s->warps; p += s->count == 1 ? s->warps : 1)
        run_format(s, p, s->count == 1 ? s->warps : p + 1);
    _mm_setcsr(mode);
}

const struct code_path code_path_avx512 = {"avx512", slice, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
