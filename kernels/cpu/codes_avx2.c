/* codes, AVX2 - the quick path: 16 columns in two registers, lanes 0-3 and 8-11, 4-7 and 12-15
 *
 * sums       pmaddubsw of V + bias with the two byte digits of A: 8 products of 24*128 fit 16 bits; pmaddwd joins them
 * rounding   towards zero by MXCSR, in the one multiply-add of a step
 * whole      bounds of codes.h, checked in every lane of every step
 */
#include "kernels/codes_step.h"

#include <immintrin.h>

typedef __m256i values[4][2]; /* V + bias of [quarter][half], four bytes a lane */

/* --- a block of a strip --- */

static inline __attribute__((always_inline)) void scales(const struct code_slice *s, enum weight_format format,
                                                         int block, __m256 scale[2])
{
    scale[0] = scale[1] = _mm256_set1_ps(1);
    if (format == WF_U4B8)
        return;
    const __m128i order = _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15);
    __m128i b = _mm_loadu_si128((const __m128i *)code_scales(s->w, format, s->strip, block));
    b = _mm_shuffle_epi8(b, order);
    if (format == WF_NVFP4) {
        __m256i half = _mm256_slli_epi16(_mm256_cvtepu8_epi16(b), 7);
        __m256 unit = _mm256_set1_ps(0x1p-17f); /* shifted by 2^110 from 2^-126; V counts halves */
        scale[0] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(half)), unit);
        scale[1] = _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)), unit);
    } else {
        __m256i lo = _mm256_slli_epi32(_mm256_cvtepu8_epi32(b), 23);
        __m256i hi = _mm256_slli_epi32(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(b, b)), 23);
        scale[0] = _mm256_mul_ps(_mm256_castsi256_ps(lo), _mm256_set1_ps(0.5f));
        scale[1] = _mm256_mul_ps(_mm256_castsi256_ps(hi), _mm256_set1_ps(0.5f));
    }
}

static inline __attribute__((always_inline)) void decode(const struct code_slice *s, enum weight_format format,
                                                         int block, values v, __m256 scale[2])
{
    const uint16_t *words = code_words(s->w, s->strip, block);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)code_e2m1));
    for (int q = 0; q < 4; q++) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(words + 16 * q));
        __m256i even = _mm256_and_si256(x, low), odd = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
        if (format != WF_U4B8)
            even = _mm256_shuffle_epi8(table, even), odd = _mm256_shuffle_epi8(table, odd);
        v[q][0] = _mm256_unpacklo_epi16(even, odd);
        v[q][1] = _mm256_unpackhi_epi16(even, odd);
    }
    scales(s, format, block, scale);
}

static inline __attribute__((always_inline)) void decode_tile(const struct code_slice *s, enum weight_format format,
                                                              int block, struct code_tile *o)
{
    values v;
    __m256 scale[2];
    decode(s, format, block, v, scale);
    for (int h = 0; h < 2; h++) {
        for (int q = 0; q < 4; q++)
            _mm256_store_si256((__m256i *)o->value[q] + h, v[q][h]);
        _mm256_store_ps(o->scale + 8 * h, scale[h]);
    }
    __asm__("" : : : "memory"); /* it is read from memory: it does not fit the registers */
}

/* --- one step of one row --- */

static inline __m256i four(const int8_t *digit, int quarter)
{
    int32_t x;
    memcpy(&x, digit + 4 * quarter, sizeof x);
    return _mm256_set1_epi32(x);
}

/* Sums of digit[k]*(V[k,lane] + bias) over eight k's in each 16-bit half of a lane. */
static inline __attribute__((always_inline)) void add_quarter(const __m256i *v, const int8_t *digit, int quarter,
                                                              __m256i sum[2])
{
    __m256i d = four(digit, quarter);
    for (int h = 0; h < 2; h++)
        sum[h] = _mm256_add_epi16(sum[h], _mm256_maddubs_epi16(v[h], d));
}

/* sum_k A[k]*V[k,lane], without the small ones. */
static inline __attribute__((always_inline)) void sum_of(const __m256i (*v)[2], const struct code_block *a,
                                                         __m256i sum[2])
{
    __m256i low[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, high[2] = {low[0], low[0]};
    for (int q = 0; q < 4; q++) {
        add_quarter(v[q], a->digit[0], q, low);
        add_quarter(v[q], a->digit[1], q, high);
    }
    for (int h = 0; h < 2; h++) {
        low[h] = _mm256_madd_epi16(low[h], _mm256_set1_epi16(1));
        high[h] = _mm256_madd_epi16(high[h], _mm256_set1_epi16(256));
        sum[h] = _mm256_sub_epi32(_mm256_add_epi32(low[h], high[h]), _mm256_set1_epi32(a->bias));
    }
}

static inline __attribute__((always_inline)) void wide_sum(const __m256i (*v)[2], const struct code_block *a,
                                                           __m256i sum[2])
{
    __m256i none = _mm256_setzero_si256(), digit[3][2] = {{none, none}, {none, none}, {none, none}};
    for (int q = 0; q < 4; q++)
        for (int i = 0; i < 3; i++)
            add_quarter(v[q], a->wide[i], q, digit[i]);
    for (int h = 0; h < 2; h++) {
        __m256i low = _mm256_madd_epi16(digit[0][h], _mm256_set1_epi16(1));
        __m256i middle = _mm256_madd_epi16(digit[1][h], _mm256_set1_epi16(256));
        __m256i high = _mm256_slli_epi32(_mm256_madd_epi16(digit[2][h], _mm256_set1_epi16(256)), 8);
        sum[h] = _mm256_add_epi32(_mm256_add_epi32(low, middle), high);
        sum[h] = _mm256_sub_epi32(sum[h], _mm256_set1_epi32(a->wide_bias));
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

/* Lanes of eight where a bound does not hold. */
static inline __attribute__((always_inline)) __m256 broken(const struct code_block *a, __m256 scale, __m256 limit,
                                                           __m256 c, __m256 whole)
{
    __m256 mag = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), c), reach = _mm256_mul_ps(scale, _mm256_set1_ps(a->reach));
    __m256 holds = _mm256_max_ps(_mm256_mul_ps(mag, _mm256_set1_ps(8)), whole);
    return _mm256_or_ps(_mm256_cmp_ps(mag, limit, _CMP_NLE_UQ), _mm256_cmp_ps(holds, reach, _CMP_NGE_UQ));
}

/* Accumulators of 16 columns. */
struct pair {
    __m256 c[2], whole[2];
};

/* Returns 0 and leaves p alone where a bound does not hold in some lane. fresh: c is 0, which needs no bound. */
static inline __attribute__((always_inline)) int step(const __m256i (*v)[2], const __m256 *scale,
                                                      const struct code_block *a, int fresh, struct pair *p)
{
    __m256 limit[2];
    int wide = a->plan == PLAN_WIDE;
    if (__builtin_expect(a->plan != PLAN_WHOLE, 0) && !wide)
        return 0;
    for (int h = 0; h < 2; h++)
        limit[h] = _mm256_mul_ps(scale[h], _mm256_set1_ps(wide ? a->wide_limit : a->limit));
    if (!fresh) {
        __m256 bad[2];
        for (int h = 0; h < 2; h++)
            bad[h] = broken(a, scale[h], limit[h], p->c[h], p->whole[h]);
        if (__builtin_expect(_mm256_movemask_ps(_mm256_or_ps(bad[0], bad[1])), 0))
            return 0;
    }
    __m256i sum[2];
    if (__builtin_expect(wide, 0)) {
        wide_sum(v, a, sum);
        for (int h = 0; h < 2; h++)
            p->c[h] = wide_add(sum[h], _mm256_mul_ps(scale[h], _mm256_set1_ps(a->wide_unit)), p->c[h]);
    } else {
        sum_of(v, a, sum);
        for (int h = 0; h < 2; h++)
            p->c[h] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[h]), _mm256_mul_ps(scale[h], _mm256_set1_ps(a->unit)), p->c[h]);
    }
    for (int h = 0; h < 2; h++)
        p->whole[h] = _mm256_min_ps(p->whole[h], limit[h]);
    return 1;
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
    __m256i sum[2];
    float most[STRIP] __attribute__((aligned(32)));
    const float *value = s->rows->value + (size_t)row * (size_t)s->rows->k + STRIP * block;
    int bias = s->w->format == WF_U4B8 ? 8 : 12;
    if (a->plan == PLAN_ZERO)
        return;
    if (a->plan != PLAN_CAREFUL) {
        sum_of((const __m256i(*)[2])o->value, a, sum);
        if (a->state == CODE_SCALAR) /* keys do not reach that far down */
            code_largest(o, value, bias, most);
        else
            largest(o, a, bias, most);
        if (code_step_cut(o, a, value, bias, (const int32_t *)sum, most, l))
            return;
    }
    code_step_careful(s, code_path_avx2.column, code_chain_avx2, row, block, l);
}

/* --- a slice --- */

static inline void clear(struct code_lanes *l)
{
    for (int h = 0; h < 2; h++) {
        _mm256_store_ps(l->c + 8 * h, _mm256_setzero_ps());
        _mm256_store_ps(l->whole + 8 * h, _mm256_set1_ps(0x1p127f));
    }
}

static inline void get(const struct code_lanes *l, struct pair *p)
{
    for (int h = 0; h < 2; h++) {
        p->c[h] = _mm256_load_ps(l->c + 8 * h);
        p->whole[h] = _mm256_load_ps(l->whole + 8 * h);
    }
}

static inline void put(const struct pair *p, struct code_lanes *l)
{
    for (int h = 0; h < 2; h++) {
        _mm256_store_ps(l->c + 8 * h, p->c[h]);
        _mm256_store_ps(l->whole + 8 * h, p->whole[h]);
    }
}

/* One warp row of one row, in registers. */
static inline __attribute__((always_inline)) void run_one(const struct code_slice *s, enum weight_format format,
                                                          int warp)
{
    const struct code_block *a = s->block_of + (size_t)s->row[0] * ((size_t)s->w->k / STRIP);
    struct pair p;
    int fresh = 1;
    p.c[0] = p.c[1] = _mm256_setzero_ps();
    p.whole[0] = p.whole[1] = _mm256_set1_ps(0x1p127f);
    for (int i = 2 * s->t0; i < 2 * s->t1; i++) {
        int block = i / 2 * 2 * s->warps + 2 * warp + i % 2;
        values v;
        __m256 scale[2];
        if (block >= s->last || a[block].plan == PLAN_ZERO)
            continue;
        decode(s, format, block, v, scale);
        if (__builtin_expect(!step((const __m256i(*)[2])v, scale, &a[block], fresh, &p), 0)) {
            struct code_lanes l;
            struct code_tile o;
            put(&p, &l);
            decode_tile(s, format, block, &o);
            other_step(s, &o, &a[block], s->row[0], block, &l);
            get(&l, &p);
        }
        fresh = 0;
    }
    float *acc = s->acc + (size_t)warp * s->part_size;
    _mm256_storeu_ps(acc, p.c[0]);
    _mm256_storeu_ps(acc + 8, p.c[1]);
}

/* One warp row of several rows, which share each decoded block. */
static inline __attribute__((always_inline)) void run_rows(const struct code_slice *s, enum weight_format format,
                                                           int warp)
{
    struct code_lanes lanes[64];
    struct code_tile o;
    size_t k = (size_t)s->w->k / STRIP;
    for (int r = 0; r < s->count; r++)
        clear(&lanes[r]);
    for (int i = 2 * s->t0; i < 2 * s->t1; i++) {
        int block = i / 2 * 2 * s->warps + 2 * warp + i % 2;
        if (block >= s->last)
            continue;
        decode_tile(s, format, block, &o);
        for (int r = 0; r < s->count; r++) {
            const struct code_block *a = s->block_of + (size_t)s->row[r] * k + block;
            const __m256 scale[2] = {_mm256_load_ps(o.scale), _mm256_load_ps(o.scale + 8)};
            struct pair p;
            get(&lanes[r], &p);
            if (__builtin_expect(step((const __m256i(*)[2])o.value, scale, a, 0, &p), 1))
                put(&p, &lanes[r]);
            else
                other_step(s, &o, a, s->row[r], block, &lanes[r]);
        }
    }
    for (int r = 0; r < s->count; r++)
        memcpy(s->acc + (size_t)warp * s->part_size + r * STRIP, lanes[r].c, sizeof lanes[r].c);
}

static inline __attribute__((always_inline)) void run(const struct code_slice *s, enum weight_format format)
{
    for (int warp = 0; warp < s->warps; warp++)
        if (s->count == 1)
            run_one(s, format, warp);
        else
            run_rows(s, format, warp);
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
