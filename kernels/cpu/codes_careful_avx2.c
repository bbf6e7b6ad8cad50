/* codes, the careful path, AVX2 - integer sums of 16 products for 16 columns, two registers of eight 32-bit lanes
 *
 * exact      sum_k A[k]*V[k,c] by pmaddwd (A 15 bits, V at most 12), times the column's mantissa, shifted to the grid
 *            2^(E-25); E from byte keys whose maximum knows the exponent and whether the mantissas' product reaches 2
 * otherwise  a lane whose shift would be negative has terms to truncate: float products of the same operands, each
 *            truncated; a lane outside 2^-100..2^25, or whose sum is not surely below 2^31, goes to the scalar rule
 */
#include "kernels/codes.h"

#include <immintrin.h>
#include <string.h>

#define FRACTION    25
#define FLOOR_EXP   (-133)
#define NO_EXPONENT (-10000)
#define NO_UNIT     4000

/* Kept in memory on purpose: as operands of the instructions they cost nothing, as immediates three instructions. */
struct constants {
    __m256i three, one, bias, least_key, low, high, c_bias, subnormal, floor_field, up_bias, down_bias, fine;
};

/* --- operands of one block --- */

static inline void nibbles(const uint16_t *codes, int quarter, __m256i *lo, __m256i *hi)
{
    __m256i x = _mm256_loadu_si256((const __m256i *)(codes + 16 * quarter)), low = _mm256_set1_epi8(15);
    *lo = _mm256_and_si256(x, low);
    *hi = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
}

static inline __m256i table(const int8_t *t, __m256i index)
{
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)t)), index);
}

static inline void widen(int16_t *out, __m256i bytes)
{
    _mm256_store_si256((__m256i *)out, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(bytes)));
    _mm256_store_si256((__m256i *)(out + 16), _mm256_cvtepi8_epi16(_mm256_extracti128_si256(bytes, 1)));
}

static const int8_t e2m1_value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static const int8_t e2m1_key[16] = {-128, -4, 0, 2, 4, 6, 8, 10, -128, -4, 0, 2, 4, 6, 8, 10};
static const int8_t u4b8_value[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
static const int8_t u4b8_key[16] = {12, 11, 10, 9, 8, 6, 4, 0, -128, 0, 4, 6, 8, 9, 10, 11};

static void decode_codes(const uint16_t *codes, const int8_t *value, const int8_t *key, struct code_operands *o)
{
    for (int q = 0; q < 4; q++) {
        __m256i lo, hi;
        nibbles(codes, q, &lo, &hi);
        _mm256_store_si256((__m256i *)o->key[2 * q], table(key, lo));
        _mm256_store_si256((__m256i *)o->key[2 * q + 1], table(key, hi));
        widen(o->value[2 * q], table(value, lo));
        widen(o->value[2 * q + 1], table(value, hi));
    }
}

static void put(int32_t *to, int h, __m256i x)
{
    _mm256_store_si256((__m256i *)(to + 8 * h), x);
}

/* Bytes of the re-encoded scale: 5 exponent bits, 3 mantissa bits, 0 for a dropped scale. */
static void nvfp4_scales(const uint8_t *scale, int shift, struct code_operands *o)
{
    for (int h = 0; h < 2; h++) {
        __m256i s = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(scale + 8 * h)));
        __m256i none = _mm256_cmpeq_epi32(s, _mm256_setzero_si256()), m = _mm256_and_si256(s, _mm256_set1_epi32(7));
        __m256i e = _mm256_add_epi32(_mm256_srli_epi32(s, 3), _mm256_set1_epi32(shift - 126 - 15));
        __m256i carry = _mm256_cmpgt_epi32(m, _mm256_set1_epi32(2)); /* 1.5 * 1.375 reaches 2 */
        put(o->exponent, h, _mm256_blendv_epi8(e, _mm256_set1_epi32(NO_EXPONENT), none));
        put(o->unit, h,
            _mm256_blendv_epi8(_mm256_sub_epi32(e, _mm256_set1_epi32(4)), _mm256_set1_epi32(NO_UNIT), none));
        put(o->mantissa, h, _mm256_andnot_si256(none, _mm256_or_si256(m, _mm256_set1_epi32(8))));
        put(o->carry, h, _mm256_and_si256(carry, _mm256_set1_epi32(1 << 2)));
    }
}

static void mxfp4_scales(const uint8_t *scale, struct code_operands *o)
{
    for (int h = 0; h < 2; h++) {
        __m256i s = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(scale + 8 * h)));
        __m256i none = _mm256_cmpeq_epi32(s, _mm256_setzero_si256()); /* the kernel reads byte 0 as zero */
        __m256i e = _mm256_sub_epi32(s, _mm256_set1_epi32(127));
        put(o->exponent, h, _mm256_blendv_epi8(e, _mm256_set1_epi32(NO_EXPONENT), none));
        put(o->unit, h,
            _mm256_blendv_epi8(_mm256_sub_epi32(s, _mm256_set1_epi32(128)), _mm256_set1_epi32(NO_UNIT), none));
        put(o->mantissa, h, _mm256_andnot_si256(none, _mm256_set1_epi32(1)));
        put(o->carry, h, _mm256_setzero_si256());
    }
}

/* |x| <= 2048 to 8 significant bits, nearest even. */
static inline __m256i round8(__m256i x)
{
    __m256i y = _mm256_abs_epi16(x), one = _mm256_set1_epi16(1);
    __m256i n1 = _mm256_cmpgt_epi16(y, _mm256_set1_epi16(255)), n2 = _mm256_cmpgt_epi16(y, _mm256_set1_epi16(511));
    __m256i n3 = _mm256_cmpgt_epi16(y, _mm256_set1_epi16(1023));
    __m256i mask =
        _mm256_or_si256(_mm256_and_si256(n1, one), _mm256_or_si256(_mm256_and_si256(n2, _mm256_set1_epi16(2)),
                                                                   _mm256_and_si256(n3, _mm256_set1_epi16(4))));
    __m256i last = _mm256_add_epi16(mask, one);
    __m256i odd = _mm256_and_si256(n1, _mm256_cmpeq_epi16(_mm256_and_si256(y, last), last)); /* -1 */
    y = _mm256_sub_epi16(_mm256_add_epi16(y, _mm256_srli_epi16(mask, 1)), odd);
    return _mm256_sign_epi16(_mm256_andnot_si256(mask, y), x);
}

static void u4b8_scales(const uint16_t *scale, struct code_operands *o)
{
    for (int h = 0; h < 2; h++) {
        __m256i s = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(scale + 8 * h)));
        __m256i mag = _mm256_and_si256(s, _mm256_set1_epi32(0x7fff));
        __m256i none = _mm256_cmpeq_epi32(mag, _mm256_setzero_si256());
        __m256i m = _mm256_or_si256(_mm256_and_si256(s, _mm256_set1_epi32(127)), _mm256_set1_epi32(128));
        __m256i e = _mm256_sub_epi32(_mm256_srli_epi32(mag, 7), _mm256_set1_epi32(127));
        /* 1.25 m, 1.5 m, 1.75 m round to 256 from 255.5 on */
        __m256i c1 = _mm256_and_si256(_mm256_cmpgt_epi32(m, _mm256_set1_epi32(204)), _mm256_set1_epi32(2));
        __m256i c2 = _mm256_and_si256(_mm256_cmpgt_epi32(m, _mm256_set1_epi32(170)), _mm256_set1_epi32(4));
        __m256i c3 = _mm256_and_si256(_mm256_cmpgt_epi32(m, _mm256_set1_epi32(145)), _mm256_set1_epi32(8));
        __m256i sign = _mm256_sub_epi32(_mm256_set1_epi32(1), _mm256_slli_epi32(_mm256_srli_epi32(s, 15), 1));
        put(o->exponent, h, _mm256_blendv_epi8(e, _mm256_set1_epi32(NO_EXPONENT), none));
        put(o->unit, h,
            _mm256_blendv_epi8(_mm256_sub_epi32(e, _mm256_set1_epi32(7)), _mm256_set1_epi32(NO_UNIT), none));
        put(o->mantissa, h, _mm256_andnot_si256(none, sign));
        put(o->carry, h, _mm256_or_si256(c1, _mm256_or_si256(c2, c3)));
        __m256i both = _mm256_or_si256(m, _mm256_slli_epi32(m, 16)); /* for k and k+1 of a column */
        for (int p = 0; p < 8; p++) {
            __m256i *v = (__m256i *)(o->value[p] + 16 * h);
            _mm256_store_si256(v, round8(_mm256_mullo_epi16(_mm256_load_si256(v), both)));
        }
    }
}

static void channel_scales(struct code_operands *o)
{
    memset(o->exponent, 0, sizeof o->exponent);
    memset(o->unit, 0, sizeof o->unit);
    memset(o->carry, 0, sizeof o->carry);
    for (int h = 0; h < 2; h++)
        put(o->mantissa, h, _mm256_set1_epi32(1));
}

static void decode(const struct packed_weight *w, int strip, int block, struct code_operands *o)
{
    const uint16_t *codes = w->codes + ((size_t)strip * (size_t)(w->k / STRIP) + (size_t)block) * 64;
    int groups = w->group ? w->k / w->group : 1, group = w->group ? block * STRIP / w->group : 0;
    size_t at = ((size_t)strip * (size_t)groups + (size_t)((group + w->scale_shift) % groups)) * STRIP;
    if (w->format == WF_U4B8)
        decode_codes(codes, u4b8_value, u4b8_key, o);
    else
        decode_codes(codes, e2m1_value, e2m1_key, o);
    if (w->format == WF_NVFP4)
        nvfp4_scales((const uint8_t *)w->scales + at, w->shift, o);
    else if (w->format == WF_MXFP4)
        mxfp4_scales((const uint8_t *)w->scales + at, o);
    else if (w->group)
        u4b8_scales((const uint16_t *)w->scales + at, o);
    else
        channel_scales(o);
}

/* --- one step of one row --- */

static inline __m256i load32(const int32_t *p, int h)
{
    return _mm256_load_si256((const __m256i *)(p + 8 * h));
}

static inline void key_maximum(const struct code_operands *o, const struct code_careful *a, __m256i key[2])
{
    __m256i best = _mm256_set1_epi8(-128);
    for (int p = 0; p < 8; p++) {
        int16_t pair;
        memcpy(&pair, a->key + 2 * p, 2);
        __m256i k = _mm256_adds_epi8(_mm256_load_si256((const __m256i *)o->key[p]), _mm256_set1_epi16(pair));
        best = _mm256_max_epi8(best, k);
    }
    __m256i odd = _mm256_srai_epi16(best, 8), even = _mm256_srai_epi16(_mm256_slli_epi16(best, 8), 8);
    best = _mm256_max_epi16(odd, even);
    key[0] = _mm256_cvtepi16_epi32(_mm256_castsi256_si128(best));
    key[1] = _mm256_cvtepi16_epi32(_mm256_extracti128_si256(best, 1));
}

static inline __attribute__((always_inline)) __m256i acc_field(const struct constants *k, __m256 c, int shift)
{
    __m256i f = _mm256_srli_epi32(_mm256_slli_epi32(_mm256_castps_si256(c), 1), 24);
    if (shift) {
        __m256i zero = _mm256_castps_si256(_mm256_cmp_ps(c, _mm256_setzero_ps(), _CMP_EQ_OQ));
        f = _mm256_andnot_si256(zero, _mm256_max_epi32(f, k->subnormal));
    }
    return _mm256_add_epi32(f, k->c_bias);
}

/* Exponent field (bias 254) of the step. */
static inline __attribute__((always_inline)) __m256i step_field(const struct constants *k,
                                                                const struct code_operands *o,
                                                                const struct code_careful *a, int h, __m256i key,
                                                                __m256 c, int shift)
{
    __m256i class = _mm256_and_si256(key, k->three);
    __m256i carry = _mm256_and_si256(_mm256_srlv_epi32(load32(o->carry, h), class), k->one);
    __m256i e = _mm256_add_epi32(_mm256_add_epi32(_mm256_srai_epi32(key, 2), carry), load32(o->exponent, h));
    e = _mm256_add_epi32(_mm256_add_epi32(e, k->bias), _mm256_set1_epi32(a->top));
    e = _mm256_and_si256(e, _mm256_cmpgt_epi32(key, k->least_key));
    e = _mm256_max_epi32(e, acc_field(k, c, shift));
    return shift ? _mm256_max_epi32(e, k->floor_field) : e;
}

/* c * 2^(F-E), truncated. */
static inline __m256i acc_grid(const struct constants *k, __m256 c, __m256i field)
{
    __m256i up = _mm256_slli_epi32(_mm256_sub_epi32(k->up_bias, field), 23);
    return _mm256_cvttps_epi32(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(c), up)));
}

/* Sum of the products on the grid, exact unless *up is negative in a lane; *fits: lanes surely below 2^30. */
static inline __attribute__((always_inline)) __m256i integer_sum(const struct constants *k,
                                                                 const struct code_operands *o,
                                                                 const struct code_careful *a, int h, __m256i field,
                                                                 __m256i *up, __m256i *fits)
{
    __m256i s0 = _mm256_setzero_si256(), s1 = s0;
    for (int p = 0; p < 8; p += 2) {
        int32_t x, y;
        memcpy(&x, a->value + 2 * p, 4);
        memcpy(&y, a->value + 2 * p + 2, 4);
        const __m256i *v = (const __m256i *)(o->value[p] + 16 * h), *w = (const __m256i *)(o->value[p + 1] + 16 * h);
        s0 = _mm256_add_epi32(s0, _mm256_madd_epi16(_mm256_load_si256(v), _mm256_set1_epi32(x)));
        s1 = _mm256_add_epi32(s1, _mm256_madd_epi16(_mm256_load_si256(w), _mm256_set1_epi32(y)));
    }
    __m256i sum = _mm256_mullo_epi32(_mm256_add_epi32(s0, s1), load32(o->mantissa, h));
    __m256i unit = _mm256_add_epi32(load32(o->unit, h), _mm256_set1_epi32(a->lsb));
    *up = _mm256_add_epi32(unit, _mm256_sub_epi32(k->up_bias, field));
    __m256i one = _mm256_add_epi32(*up, k->one);
    *fits = _mm256_cmpeq_epi32(_mm256_srav_epi32(_mm256_sllv_epi32(sum, one), one), sum);
    return _mm256_sllv_epi32(sum, *up);
}

/* The same with every product truncated. Exact in fp32: 8 by 8 bits (u4b8) or 8 by 2 and 4 bits. */
static __attribute__((noinline)) __m256i truncated_sum(const struct code_operands *o, const float *a, int h,
                                                       __m256i field)
{
    __m256i sum = _mm256_setzero_si256();
    __m256i up = _mm256_add_epi32(load32(o->unit, h), _mm256_set1_epi32(254 + FRACTION + 127));
    up = _mm256_sub_epi32(up, field); /* may leave the exponent range only where nothing is left to add */
    up = _mm256_max_epi32(_mm256_min_epi32(up, _mm256_set1_epi32(254)), _mm256_setzero_si256());
    __m256 scale =
        _mm256_mul_ps(_mm256_cvtepi32_ps(load32(o->mantissa, h)), _mm256_castsi256_ps(_mm256_slli_epi32(up, 23)));
    for (int p = 0; p < 8; p++) {
        __m256i v = _mm256_load_si256((const __m256i *)(o->value[p] + 16 * h));
        __m256 even = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(v, 16), 16));
        __m256 odd = _mm256_cvtepi32_ps(_mm256_srai_epi32(v, 16));
        even = _mm256_mul_ps(_mm256_mul_ps(even, _mm256_broadcast_ss(a + 2 * p)), scale);
        odd = _mm256_mul_ps(_mm256_mul_ps(odd, _mm256_broadcast_ss(a + 2 * p + 1)), scale);
        sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_cvttps_epi32(even), _mm256_cvttps_epi32(odd)));
    }
    return sum;
}

static __m256 cut_subnormal(__m256 x, int shift)
{
    __m256 mag = _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
    __m256 limit = _mm256_castsi256_ps(_mm256_set1_epi32((1 + shift) << 23));
    __m256 up = _mm256_castsi256_ps(_mm256_set1_epi32((127 + 149 - shift) << 23));
    __m256 down = _mm256_castsi256_ps(_mm256_set1_epi32((127 - 149 + shift) << 23));
    __m256 cut = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvttps_epi32(_mm256_mul_ps(x, up))), down);
    return _mm256_blendv_ps(x, cut, _mm256_cmp_ps(mag, limit, _CMP_LT_OQ));
}

static inline __attribute__((always_inline)) __m256 result(const struct constants *k, __m256i t, __m256i field,
                                                           int shift)
{
    __m256i down = _mm256_slli_epi32(_mm256_sub_epi32(field, k->down_bias), 23);
    __m256 c = _mm256_mul_ps(_mm256_cvtepi32_ps(t), _mm256_castsi256_ps(down));
    if (!shift)
        return c;
    __m256i fine = _mm256_cmpgt_epi32(k->fine, field);
    return __builtin_expect(_mm256_testz_si256(fine, fine), 1) ? c : cut_subnormal(c, shift);
}

/* One step of eight columns; returns the lanes for the scalar rule. */
static inline __attribute__((always_inline)) unsigned half_step(const struct constants *k,
                                                                const struct code_operands *o,
                                                                const struct code_careful *a, const float *value, int h,
                                                                __m256i key, __m256 *c, int shift)
{
    __m256i field = step_field(k, o, a, h, key, *c, shift), up = k->least_key, fits = up, t = up;
    __m256i bad = _mm256_cmpgt_epi32(field, k->high);
    __m256i start = acc_grid(k, *c, field);
    if (!shift)
        bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(k->low, field));
    if (__builtin_expect(a->state == CODE_INTEGER, 1))
        t = integer_sum(k, o, a, h, field, &up, &fits);
    if (__builtin_expect(_mm256_movemask_ps(_mm256_castsi256_ps(up)), 0)) {
        t = truncated_sum(o, value, h, field);
        fits = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << 30), _mm256_abs_epi32(t));
    }
    *c = result(k, _mm256_add_epi32(t, start), field, shift);
    return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(bad)) |
           (0xff & ~(unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(fits)));
}

static __attribute__((noinline)) void redo(const struct code_chain *ch, int row, int block, unsigned mask,
                                           const __m256 before[2], float *acc)
{
    float in[16], down = 1, up = 1;
    unsigned mode = _mm_getcsr();
    for (int i = 0; i < ch->w->shift; i++)
        down *= 0.5f, up *= 2;
    for (int i = 0; i < 2; i++)
        _mm256_storeu_ps(in + 8 * i, _mm256_mul_ps(before[i], _mm256_set1_ps(down)));
    for (int i = 0; i < STRIP; i++)
        acc[i] *= down;
    _mm_setcsr(mode & ~(unsigned)_MM_ROUND_MASK);
    code_step_scalar(ch, row, block, mask, in, acc);
    _mm_setcsr(mode);
    for (int i = 0; i < STRIP; i++)
        acc[i] *= up;
}

static void scale_all(const struct code_chain *ch, int exponent)
{
    __m256 by = _mm256_castsi256_ps(_mm256_set1_epi32((127 + exponent) << 23));
    for (int p = 0; p < ch->parts; p++)
        for (float *a = ch->acc + (size_t)p * ch->part_size, *end = a + ch->count * STRIP; a < end; a += 8)
            _mm256_storeu_ps(a, _mm256_mul_ps(_mm256_loadu_ps(a), by));
}

static void set_constants(struct constants *k, int shift)
{
    k->three = _mm256_set1_epi32(3);
    k->one = _mm256_set1_epi32(1);
    k->bias = _mm256_set1_epi32(254);
    k->least_key = _mm256_set1_epi32(-112); /* zero times the largest code gives -116 */
    k->low = _mm256_set1_epi32(154);
    k->high = _mm256_set1_epi32(254 + FRACTION);
    k->c_bias = _mm256_set1_epi32(127);
    k->subnormal = _mm256_set1_epi32(1 + shift);
    k->floor_field = _mm256_set1_epi32(FLOOR_EXP + shift + 254);
    k->up_bias = _mm256_set1_epi32(FRACTION + 254);
    k->down_bias = _mm256_set1_epi32(254 - 127 + FRACTION);
    k->fine = _mm256_set1_epi32(shift - 149 + 254 + FRACTION);
}

static inline __attribute__((always_inline)) void step_row(const struct constants *k, const struct code_chain *ch,
                                                           const struct code_operands *o, int r, int block, float *acc,
                                                           int shift)
{
    const struct code_careful *a = ch->careful + (ch->all ? (size_t)block * (size_t)ch->all + (size_t)ch->row[r] : 0);
    const float *value = ch->rows->value + (size_t)ch->row[r] * (size_t)ch->rows->k + STRIP * block;
    if (a->state == CODE_ZERO)
        return;
    __m256 before[2] = {_mm256_loadu_ps(acc), _mm256_loadu_ps(acc + 8)}, c[2] = {before[0], before[1]};
    unsigned bad = 0xffff;
    if (__builtin_expect(a->state != CODE_SCALAR, 1)) {
        __m256i key[2];
        key_maximum(o, a, key);
        bad = half_step(k, o, a, value, 0, key[0], &c[0], shift);
        bad |= half_step(k, o, a, value, 1, key[1], &c[1], shift) << 8;
    }
    _mm256_storeu_ps(acc, c[0]);
    _mm256_storeu_ps(acc + 8, c[1]);
    if (__builtin_expect(bad, 0))
        redo(ch, ch->row[r], block, bad, before, acc);
}

static inline __attribute__((always_inline)) void run(const struct code_chain *ch, int shift)
{
    struct code_operands o;
    struct constants fixed;
    const struct constants *k = &fixed;
    set_constants(&fixed, shift);
    __asm__("" : "+r"(k) : : "memory"); /* so that the constants stay in memory */
    if (shift)
        scale_all(ch, shift);
    for (int i = 0; i < ch->blocks; i++)
        for (int p = 0; p < ch->parts; p++) {
            int block = ch->block[i * ch->parts + p];
            float *acc = ch->acc + (size_t)p * ch->part_size;
            decode(ch->w, ch->strip, block, &o);
            for (int r = 0; r < ch->count; r++)
                step_row(k, ch, &o, r, block, acc + r * STRIP, shift);
        }
    if (shift)
        scale_all(ch, -shift);
}

void code_chain_avx2(const struct code_chain *c)
{
    unsigned mode = _mm_getcsr();
    _mm_setcsr((mode & ~(unsigned)_MM_ROUND_MASK) | _MM_ROUND_TOWARD_ZERO);
    if (c->w->shift)
        run(c, 110);
    else
        run(c, 0);
    _mm_setcsr(mode);
}
