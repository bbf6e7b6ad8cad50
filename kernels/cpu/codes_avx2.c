/* codes, AVX2 - the quick path: 16 columns in two registers, lanes 0-3 and 8-11, 4-7 and 12-15
 *
 * sums       pmaddubsw of V + bias with the byte digits of A: 8 products of 24*128 fit 16 bits; pmaddwd joins them
 * rounding   towards zero by MXCSR, in the one multiply-add of a step
 * whole      bounds of codes.h, on the upper halves of all 16 columns at once, in every step
 */
#include "kernels/codes_step.h"

#include <immintrin.h>

/* A block of a strip, ready for any row. */
struct quick_tile {
    __m256i value[4][2]; /* V + bias of [quarter][half], four bytes a lane */
    __m256i raw;         /* scales, upper halves, by columns */
    __m256 scale[2];     /* the same by lanes */
};

/* Accumulators of one row and warp row: c in lanes, its unit times 2^26 or less by columns, upper halves. */
struct quick_lanes {
    float c[STRIP] __attribute__((aligned(32)));
    int16_t whole[STRIP];
};

#define AHEAD   1024   /* bytes of codes */
#define BIGGEST 0x7f00 /* upper half of 2^127 */

/* --- a block of a strip --- */

static inline __attribute__((always_inline)) __m256i raw_scales(const struct code_slice *s, enum weight_format format,
                                                                int block)
{
    if (format == WF_U4B8)
        return _mm256_set1_epi16(0x3f80);
    __m256i b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)code_scales(s->w, format, s->strip, block)));
    return format == WF_NVFP4 ? _mm256_slli_epi16(b, 4) : _mm256_slli_epi16(b, 7);
}

/* V + bias of a quarter, by lanes. */
static inline __attribute__((always_inline)) void decode_quarter(const uint16_t *words, enum weight_format format,
                                                                 __m256i value[2])
{
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)code_e2m1));
    __m256i x = _mm256_loadu_si256((const __m256i *)words);
    __m256i even = _mm256_and_si256(x, low), odd = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
    if (format != WF_U4B8)
        even = _mm256_shuffle_epi8(table, even), odd = _mm256_shuffle_epi8(table, odd);
    value[0] = _mm256_unpacklo_epi16(even, odd);
    value[1] = _mm256_unpackhi_epi16(even, odd);
}

static inline __attribute__((always_inline)) void scales_by_lanes(__m256i raw, __m256 scale[2])
{
    scale[0] = _mm256_castsi256_ps(_mm256_unpacklo_epi16(_mm256_setzero_si256(), raw));
    scale[1] = _mm256_castsi256_ps(_mm256_unpackhi_epi16(_mm256_setzero_si256(), raw));
}

static inline __attribute__((always_inline)) void decode(const struct code_slice *s, enum weight_format format,
                                                         int block, struct quick_tile *o)
{
    const uint16_t *words = code_words(s->w, s->strip, block);
    for (int q = 0; q < 4; q++)
        decode_quarter(words + 16 * q, format, o->value[q]);
    o->raw = raw_scales(s, format, block);
    scales_by_lanes(o->raw, o->scale);
}

/* For steps that are no single multiply-add. */
static void decode_tile(const struct code_slice *s, const struct quick_tile *quick, struct code_tile *o)
{
    __m256 factor = _mm256_castsi256_ps(_mm256_set1_epi32((127 + code_raw_exponent(s->w)) << 23));
    for (int h = 0; h < 2; h++) {
        for (int q = 0; q < 4; q++)
            _mm256_store_si256((__m256i *)o->value[q] + h, quick->value[q][h]);
        _mm256_store_ps(o->scale + 8 * h, _mm256_mul_ps(quick->scale[h], factor));
    }
}

/* --- one step of one row --- */

static inline __m256i four(const int8_t *digit, int quarter)
{
    int32_t x;
    memcpy(&x, digit + 4 * quarter, sizeof x);
    return _mm256_set1_epi32(x);
}

/* weight times the sum over k of digit[k]*(V[k,lane] + bias). */
static inline __attribute__((always_inline)) void digit_sum(const struct quick_tile *o, const int8_t *digit,
                                                            short weight, __m256i sum[2])
{
    for (int q = 0; q < 4; q++)
        for (int h = 0; h < 2; h++) {
            __m256i x = _mm256_maddubs_epi16(o->value[q][h], four(digit, q));
            sum[h] = q ? _mm256_add_epi16(sum[h], x) : x;
        }
    for (int h = 0; h < 2; h++)
        sum[h] = _mm256_madd_epi16(sum[h], _mm256_set1_epi16(weight));
}

/* sum_k A[k]*V[k,lane], without the small ones. */
static inline __attribute__((always_inline)) void sum_of(const struct quick_tile *o, const struct code_block *a,
                                                         __m256i sum[2])
{
    __m256i low[2], high[2], bias = _mm256_set1_epi32(a->bias);
    digit_sum(o, a->digit[0], 1, low);
    digit_sum(o, a->digit[1], 256, high);
    for (int h = 0; h < 2; h++)
        sum[h] = _mm256_sub_epi32(_mm256_add_epi32(low[h], high[h]), bias);
}

static inline __attribute__((always_inline)) void wide_sum(const struct quick_tile *o, const struct code_block *a,
                                                           __m256i sum[2])
{
    __m256i low[2], middle[2], high[2], bias = _mm256_set1_epi32(a->wide_bias);
    digit_sum(o, a->wide[0], 1, low);
    digit_sum(o, a->wide[1], 256, middle);
    digit_sum(o, a->wide[2], 256, high);
    for (int h = 0; h < 2; h++) {
        sum[h] = _mm256_add_epi32(_mm256_add_epi32(low[h], middle[h]), _mm256_slli_epi32(high[h], 8));
        sum[h] = _mm256_sub_epi32(sum[h], bias);
    }
}

/* RZ(c + sum * unit), exact before that. */
static inline __m256 wide_add(__m256i sum, __m256 unit, __m256 c)
{
    __m256d lo =
        _mm256_fmadd_pd(_mm256_cvtepi32_pd(_mm256_castsi256_si128(sum)), _mm256_cvtps_pd(_mm256_castps256_ps128(unit)),
                        _mm256_cvtps_pd(_mm256_castps256_ps128(c)));
    __m256d hi =
        _mm256_fmadd_pd(_mm256_cvtepi32_pd(_mm256_extracti128_si256(sum, 1)),
                        _mm256_cvtps_pd(_mm256_extractf128_ps(unit, 1)), _mm256_cvtps_pd(_mm256_extractf128_ps(c, 1)));
    return _mm256_set_m128(_mm256_cvtpd_ps(hi), _mm256_cvtpd_ps(lo));
}

static inline __m256i twice(const int16_t *x)
{
    int32_t both;
    memcpy(&both, x, sizeof both);
    return _mm256_set1_epi32(both);
}

/* Whether the bounds hold in all columns; then *whole is that after the step. */
static inline __attribute__((always_inline)) int bounded(const struct code_block *a, __m256i raw, __m256 c0, __m256 c1,
                                                         __m256i *whole)
{
    __m256i upper = _mm256_packs_epi32(_mm256_srai_epi32(_mm256_castps_si256(c0), 16),
                                       _mm256_srai_epi32(_mm256_castps_si256(c1), 16));
    __m256i mag = _mm256_and_si256(upper, _mm256_set1_epi16(0x7fff));
    __m256i limit = _mm256_add_epi16(raw, twice(a->raw_limit)), reach = _mm256_add_epi16(raw, twice(a->raw_reach));
    __m256i holds = _mm256_max_epi16(_mm256_add_epi16(mag, _mm256_set1_epi16(3 << 7)), *whole);
    __m256i fine = _mm256_andnot_si256(_mm256_cmpgt_epi16(reach, holds), _mm256_cmpgt_epi16(limit, mag));
    *whole = _mm256_min_epi16(*whole, limit);
    return _mm256_testc_si256(fine, _mm256_set1_epi16(-1));
}

/* The multiply-add of a step of all products. */
static __attribute__((noinline)) void wide_step(const struct quick_tile *o, const struct code_block *a,
                                                struct quick_lanes *l)
{
    __m256i sum[2];
    wide_sum(o, a, sum);
    for (int h = 0; h < 2; h++) {
        __m256 c = _mm256_load_ps(l->c + 8 * h), unit = _mm256_mul_ps(o->scale[h], _mm256_set1_ps(a->raw_unit));
        if (a->light)
            c = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[h]), unit, c);
        else
            c = wide_add(sum[h], unit, c);
        _mm256_store_ps(l->c + 8 * h, c);
    }
}

/* Returns 0 and leaves l alone where a bound does not hold in some lane. */
static inline __attribute__((always_inline)) int step(const struct quick_tile *o, const struct code_block *a,
                                                      struct quick_lanes *l)
{
    __m256i sum[2], whole = _mm256_load_si256((const __m256i *)l->whole);
    __m256 c0 = _mm256_load_ps(l->c), c1 = _mm256_load_ps(l->c + 8), unit = _mm256_set1_ps(a->raw_unit);
    int plan = a->plan;
    if (__builtin_expect(plan > PLAN_WIDE, 0) || __builtin_expect(!bounded(a, o->raw, c0, c1, &whole), 0))
        return 0;
    _mm256_store_si256((__m256i *)l->whole, whole);
    if (__builtin_expect(plan == PLAN_WIDE, 0)) {
        wide_step(o, a, l);
        return 1;
    }
    sum_of(o, a, sum);
    c0 = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[0]), _mm256_mul_ps(o->scale[0], unit), c0);
    c1 = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[1]), _mm256_mul_ps(o->scale[1], unit), c1);
    _mm256_store_ps(l->c, c0);
    _mm256_store_ps(l->c + 8, c1);
    return 1;
}

/* code_largest by byte keys: 4 * exponent below the top, plus 2 for 1.5 times a power of two. */
static inline void largest(const struct code_tile *o, const struct code_careful *a, int bias, float *out)
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
static __attribute__((noinline)) void other_step(const struct code_slice *s, const struct quick_tile *tile,
                                                 const struct code_block *a, int row, int block,
                                                 struct quick_lanes *quick)
{
    __m256i sum[2];
    struct code_tile o;
    struct code_lanes l;
    struct code_careful careful;
    float most[STRIP] __attribute__((aligned(32)));
    const float *value = s->rows->value + (size_t)row * (size_t)s->rows->k + STRIP * block;
    const uint8_t *column = code_path_avx2.column;
    int bias = s->w->format == WF_U4B8 ? 8 : 12, done = 0;
    if (a->plan == PLAN_ZERO)
        return;
    memcpy(l.c, quick->c, sizeof l.c);
    for (int i = 0; i < STRIP; i++)
        l.whole[i] = f32_from_bits((uint32_t)quick->whole[column[i]] << 16);
    code_careful(s, row, block, &careful);
    if (a->plan != PLAN_CAREFUL) {
        decode_tile(s, tile, &o);
        sum_of(tile, a, sum);
        if (careful.state == CODE_SCALAR) /* keys do not reach that far down */
            code_largest(&o, value, bias, most);
        else
            largest(&o, &careful, bias, most);
        done = code_step_cut(&o, a, value, bias, (const int32_t *)sum, most, &l);
    }
    if (!done)
        code_step_careful(s, column, code_chain_avx2, &careful, row, block, &l);
    memcpy(quick->c, l.c, sizeof l.c);
    for (int i = 0; i < STRIP; i++) {
        uint32_t bits = f32_bits(l.whole[i]) >> 16;
        quick->whole[column[i]] = (int16_t)(bits < BIGGEST ? bits : BIGGEST);
    }
}

static __attribute__((noinline)) void decode_again(const struct code_slice *s, int block, struct quick_tile *o)
{
    if (s->w->format == WF_NVFP4)
        decode(s, WF_NVFP4, block, o);
    else if (s->w->format == WF_MXFP4)
        decode(s, WF_MXFP4, block, o);
    else
        decode(s, WF_U4B8, block, o);
}

static __attribute__((noinline)) void slow_step(const struct code_slice *s, const struct code_block *a, int block,
                                                struct quick_lanes *l)
{
    struct quick_tile o;
    if (a->plan == PLAN_ZERO)
        return;
    decode_again(s, block, &o);
    if (!step(&o, a, l))
        other_step(s, &o, a, s->row[0], block, l);
}

/* A step of a single row, which needs each quarter once: in registers. */
static inline __attribute__((always_inline)) void step_once(const struct code_slice *s, enum weight_format format,
                                                            int block, const struct code_block *a,
                                                            struct quick_lanes *l)
{
    const uint16_t *words = code_words(s->w, s->strip, block);
    __m256i whole = _mm256_load_si256((const __m256i *)l->whole), raw = raw_scales(s, format, block);
    __m256i low[2], high[2], bias = _mm256_set1_epi32(a->bias);
    __m256 scale[2], unit = _mm256_set1_ps(a->raw_unit);
    const __m256 c[2] = {_mm256_load_ps(l->c), _mm256_load_ps(l->c + 8)};
    _mm_prefetch((const char *)words + AHEAD, _MM_HINT_T0);
    _mm_prefetch((const char *)words + AHEAD + 64, _MM_HINT_T0);
    if (__builtin_expect(a->plan != PLAN_WHOLE, 0) || __builtin_expect(!bounded(a, raw, c[0], c[1], &whole), 0)) {
        slow_step(s, a, block, l);
        return;
    }
    for (int q = 0; q < 4; q++) {
        __m256i v[2], d0 = four(a->digit[0], q), d1 = four(a->digit[1], q);
        decode_quarter(words + 16 * q, format, v);
        for (int h = 0; h < 2; h++) {
            __m256i x = _mm256_maddubs_epi16(v[h], d0), y = _mm256_maddubs_epi16(v[h], d1);
            low[h] = q ? _mm256_add_epi16(low[h], x) : x;
            high[h] = q ? _mm256_add_epi16(high[h], y) : y;
        }
    }
    scales_by_lanes(raw, scale);
    for (int h = 0; h < 2; h++) {
        low[h] = _mm256_madd_epi16(low[h], _mm256_set1_epi16(1));
        high[h] = _mm256_madd_epi16(high[h], _mm256_set1_epi16(256));
        __m256 sum = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_add_epi32(low[h], high[h]), bias));
        _mm256_store_ps(l->c + 8 * h, _mm256_fmadd_ps(sum, _mm256_mul_ps(scale[h], unit), c[h]));
    }
    _mm256_store_si256((__m256i *)l->whole, whole);
}

/* --- a slice --- */

static inline void clear(struct quick_lanes *l)
{
    for (int i = 0; i < STRIP; i++)
        l->c[i] = 0, l->whole[i] = BIGGEST;
}

/* A single row: warp rows side by side, so that weights are read in order. */
static inline __attribute__((always_inline)) void run_one(const struct code_slice *s, enum weight_format format)
{
    struct quick_lanes lanes[4];
    int warps = s->warps, end = 2 * s->t1 * warps < s->last ? 2 * s->t1 * warps : s->last;
    const struct code_block *a = s->block_of + s->row[0];
    for (int i = 0; i < warps; i++)
        clear(&lanes[i]);
    for (int block = 2 * s->t0 * warps; block < end;)
        for (int warp = 0; warp < warps && block < end; warp++)
            for (int i = 0; i < 2 && block < end; i++, block++)
                step_once(s, format, block, a + (size_t)block * (size_t)s->all, &lanes[warp]);
    for (int i = 0; i < warps; i++)
        memcpy(s->acc + (size_t)i * s->part_size, lanes[i].c, sizeof lanes[i].c);
}

/* One warp row of several rows, which share each decoded block. */
static inline __attribute__((always_inline)) void run_rows(const struct code_slice *s, enum weight_format format,
                                                           int warp)
{
    struct quick_lanes lanes[64];
    struct quick_tile o;
    for (int r = 0; r < s->count; r++)
        clear(&lanes[r]);
    for (int i = 2 * s->t0; i < 2 * s->t1; i++) {
        int block = i / 2 * 2 * s->warps + 2 * warp + i % 2;
        const struct code_block *a = s->block_of + (size_t)block * (size_t)s->all;
        if (block >= s->last)
            continue;
        decode(s, format, block, &o);
        __asm__("" : : "r"(&o) : "memory"); /* it is read from memory: it does not fit the registers */
        for (int r = 0; r < s->count; r++)
            if (__builtin_expect(!step(&o, a + s->row[r], &lanes[r]), 0))
                other_step(s, &o, a + s->row[r], s->row[r], block, &lanes[r]);
    }
    for (int r = 0; r < s->count; r++)
        memcpy(s->acc + (size_t)warp * s->part_size + r * STRIP, lanes[r].c, sizeof lanes[r].c);
}

static inline __attribute__((always_inline)) void run(const struct code_slice *s, enum weight_format format)
{
    for (int warp = 0; warp < s->warps; warp++)
        if (s->count > 1)
            run_rows(s, format, warp);
    if (s->count == 1)
        run_one(s, format);
}

static void slice(const struct code_slice *s)
{
    unsigned mode = _mm_getcsr();
    _mm_setcsr((mode & ~(unsigned)_MM_ROUND_MASK) | _MM_ROUND_TOWARD_ZERO);
    if (s->w->format == WF_NVFP4)
        run(s, WF_NVFP4);
    else if (s->w->format == WF_MXFP4)
        run(s, WF_MXFP4);
    else
        run(s, WF_U4B8);
    _mm_setcsr(mode);
}

const struct code_path code_path_avx2 = {"avx2", slice, {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15}};
