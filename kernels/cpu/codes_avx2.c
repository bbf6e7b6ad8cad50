/* codes, AVX2 - the quick path: 16 columns in two registers, lanes 0-3 and 8-11, 4-7 and 12-15
 *
 * sums       pmaddubsw of V + bias with the two byte digits of A: 8 products of 24*128 fit 16 bits; pmaddwd joins them
 * rounding   towards zero by MXCSR, in the one multiply-add of a step
 * whole      bounds of codes.h, checked in every lane of every step
 */
#include "kernels/codes_step.h"

#include <immintrin.h>

/* --- a block of a strip --- */

static inline void put_scales(struct code_tile *o, __m256 lo, __m256 hi)
{
    _mm256_store_ps(o->scale, lo);
    _mm256_store_ps(o->scale + 8, hi);
}

static inline __attribute__((always_inline)) void decode(const struct code_slice *s, enum weight_format format,
                                                         int block, struct code_tile *o)
{
    const uint16_t *words = code_words(s->w, s->strip, block);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i table =
        _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(format == WF_U4B8 ? code_u4b8 : code_e2m1)));
    for (int q = 0; q < 4; q++) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(words + 16 * q));
        __m256i even = _mm256_and_si256(x, low), odd = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
        if (format != WF_U4B8)
            even = _mm256_shuffle_epi8(table, even), odd = _mm256_shuffle_epi8(table, odd);
        _mm256_store_si256((__m256i *)o->value[q], _mm256_unpacklo_epi16(even, odd));
        _mm256_store_si256((__m256i *)o->value[q] + 1, _mm256_unpackhi_epi16(even, odd));
    }
    if (format == WF_U4B8) {
        put_scales(o, _mm256_set1_ps(1), _mm256_set1_ps(1));
        return;
    }
    const __m128i order = _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
    __m128i b = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)code_scales(s->w, format, s->strip, block)), order);
    if (format == WF_NVFP4) {
        __m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(b), 7);
        __m256 unit = _mm256_set1_ps(0x1p-17f); /* shifted by 2^110 from 2^-126; V counts halves */
        put_scales(o, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), unit),
                   _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), unit));
    } else {
        __m256i lo = _mm256_slli_epi32(_mm256_cvtepu8_epi32(b), 23);
        __m256i hi = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(b, b)), 23);
        __m256 unit = _mm256_set1_ps(0.5f);
        put_scales(o, _mm256_mul_ps(_mm256_castsi256_ps(lo), unit), _mm256_mul_ps(_mm256_castsi256_ps(hi), unit));
    }
}

/* --- one step of one row --- */

static inline __m256i four(const int8_t *digit, int quarter)
{
    int32_t x;
    memcpy(&x, digit + 4 * quarter, sizeof x);
    return _mm256_set1_epi32(x);
}

/* sum_k A[k]*V[k,lane] of eight lanes. */
static inline __attribute__((always_inline)) __m256i sum_of(const struct code_tile *o, const struct code_block *a,
                                                            int h)
{
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int q = 0; q < 4; q++) {
        __m256i v = _mm256_load_si256((const __m256i *)o->value[q] + h);
        low = _mm256_add_epi16(low, _mm256_maddubs_epi16(v, four(a->digit[0], q)));
        high = _mm256_add_epi16(high, _mm256_maddubs_epi16(v, four(a->digit[1], q)));
    }
    low = _mm256_madd_epi16(low, _mm256_set1_epi16(1));
    high = _mm256_madd_epi16(high, _mm256_set1_epi16(256));
    return _mm256_sub_epi32(_mm256_add_epi32(low, high), _mm256_set1_epi32(a->bias));
}

/* Returns the lanes where a bound does not hold; else new accumulators. */
static inline __attribute__((always_inline)) __m256 step_half(const struct code_tile *o, const struct code_block *a,
                                                              int h, const struct code_lanes *l, __m256 *c,
                                                              __m256 *whole)
{
    __m256 scale = _mm256_load_ps(o->scale + 8 * h), old = _mm256_load_ps(l->c + 8 * h);
    __m256 mag = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), old);
    __m256 limit = _mm256_mul_ps(scale, _mm256_broadcast_ss(&a->limit));
    __m256 reach = _mm256_mul_ps(scale, _mm256_broadcast_ss(&a->reach));
    *whole = _mm256_load_ps(l->whole + 8 * h);
    __m256 holds = _mm256_max_ps(_mm256_mul_ps(mag, _mm256_set1_ps(8)), *whole);
    __m256 bad = _mm256_or_ps(_mm256_cmp_ps(mag, limit, _CMP_NLE_UQ), _mm256_cmp_ps(holds, reach, _CMP_NGE_UQ));
    __m256 unit = _mm256_mul_ps(scale, _mm256_broadcast_ss(&a->unit));
    *c = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum_of(o, a, h)), unit, old);
    *whole = _mm256_min_ps(*whole, limit);
    return bad;
}

/* code_largest by byte keys: 4 * exponent below the top, plus 2 for 1.5 times a power of two. */
static inline void largest(const struct code_tile *o, const struct code_block *a, int bias, float *out)
{
    static const int8_t e2m1[16] = {-128, -4, 0, 2, 4, 0, 6, 0, 8, 0, 0, 0, 10};
    static const int8_t integers[16] = {-128, -4, 0, 2, 4, 4, 6, 6, 8};
    __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(bias == 8 ? integers : e2m1)));
    for (int h = 0; h < 2; h++) {
        __m256i best = _mm256_set1_epi8(-128);
        for (int q = 0; q < 4; q++) {
            __m256i v = _mm256_load_si256((const __m256i *)o->value[q] + h);
            v = _mm256_abs_epi8(_mm256_sub_epi8(v, _mm256_set1_epi8((char)bias)));
            best = _mm256_max_epi8(best, _mm256_adds_epi8(_mm256_shuffle_epi8(table, v), four(a->key, q)));
        }
        best = _mm256_max_epi8(best, _mm256_srli_epi32(best, 16));
        best = _mm256_max_epi8(best, _mm256_srli_epi32(best, 8));
        best = _mm256_srai_epi32(_mm256_slli_epi32(best, 24), 24);
        __m256i field = _mm256_add_epi32(_mm256_srai_epi32(best, 2), _mm256_set1_epi32(a->top + 128));
        __m256i half = _mm256_slli_epi32(_mm256_and_si256(best, _mm256_set1_epi32(2)), 21);
        __m256i some = _mm256_cmpgt_epi32(best, _mm256_set1_epi32(-112)); /* else all products are zero */
        __m256i value = _mm256_and_si256(some, _mm256_or_si256(_mm256_slli_epi32(field, 23), half));
        _mm256_store_ps(out + 8 * h, _mm256_castsi256_ps(value));
    }
}

/* A step that is no single multiply-add. */
static __attribute__((noinline)) void other_step(const struct code_slice *s, const struct code_tile *o,
                                                 const struct code_block *a, int row, int block, struct code_lanes *l)
{
    int32_t sum[STRIP] __attribute__((aligned(32)));
    float most[STRIP] __attribute__((aligned(32)));
    const float *value = s->rows->value + (size_t)row * (size_t)s->rows->k + STRIP * block;
    int bias = s->w->format == WF_U4B8 ? 8 : 12;
    if (a->plan == PLAN_ZERO)
        return;
    if (a->plan != PLAN_CAREFUL) {
        _mm256_store_si256((__m256i *)sum, sum_of(o, a, 0));
        _mm256_store_si256((__m256i *)sum + 1, sum_of(o, a, 1));
        if (a->state == CODE_SCALAR) /* keys do not reach that far down */
            code_largest(o, value, bias, most);
        else
            largest(o, a, bias, most);
        if (code_step_cut(o, a, value, bias, sum, most, l))
            return;
    }
    code_step_careful(s, code_path_avx2.column, code_chain_avx2, row, block, l);
}

static inline __attribute__((always_inline)) int step(const struct code_tile *o, const struct code_block *a,
                                                      struct code_lanes *l)
{
    __m256 c[2], whole[2], bad;
    if (__builtin_expect(a->plan != PLAN_WHOLE, 0))
        return 0;
    bad = step_half(o, a, 0, l, &c[0], &whole[0]);
    bad = _mm256_or_ps(bad, step_half(o, a, 1, l, &c[1], &whole[1]));
    if (__builtin_expect(_mm256_movemask_ps(bad), 0))
        return 0;
    for (int h = 0; h < 2; h++) {
        _mm256_store_ps(l->c + 8 * h, c[h]);
        _mm256_store_ps(l->whole + 8 * h, whole[h]);
    }
    return 1;
}

/* --- a slice --- */

static inline void clear(struct code_lanes *l)
{
    for (int h = 0; h < 2; h++) {
        _mm256_store_ps(l->c + 8 * h, _mm256_setzero_ps());
        _mm256_store_ps(l->whole + 8 * h, _mm256_set1_ps(0x1p127f));
    }
}

/* Warp rows side by side for one row, so that one chain hides the latency of another; else one after the other. */
static inline __attribute__((always_inline)) void run(const struct code_slice *s, enum weight_format format, int from,
                                                      int to)
{
    struct code_lanes lanes[64];
    struct code_tile o;
    int count = s->count, warps = to - from, n = warps * count, last = s->last;
    size_t k = (size_t)s->w->k / STRIP;
    for (int i = 0; i < n; i++)
        clear(&lanes[i]);
    for (int t = s->t0; t < s->t1; t++)
        for (int i = 0; i < 2 * warps; i++) {
            int block = 2 * (t * s->warps + from) + i;
            struct code_lanes *l = lanes + i / 2 * count;
            if (block >= last)
                continue;
            decode(s, format, block, &o);
            __asm__("" : : : "memory"); /* the tile is read from memory: it does not fit the registers */
            for (int r = 0; r < count; r++, l++) {
                const struct code_block *a = s->block_of + (size_t)s->row[r] * k + block;
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

const struct code_path code_path_avx2 = {"avx2", slice, {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}};
