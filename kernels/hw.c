/* hw - ex2, rcp, rsqrt of sm_90 and exp
 *
 * rounding  the correctly rounded value is found in double (the nearest boundary is far enough: tested over the whole
 *           domain), then moved by the table's entry
 * specials  x at or below -126 gives 0 (flush); +inf is not met
 */
#include "kernels/hw.h"

#include "kernels/bits.h"

#include <math.h>

/* e^y for |y| <= 0.75 by its series in double-double, rounded to double: no library transcendental. */
static double series_exp(double hi, double lo)
{
    double sum = 1, rest = 0, term = 1, term_lo = 0;
    for (int n = 1; n < 28; n++) {
        double p = term * hi, pl = fma(term, hi, -p) + term * lo + term_lo * hi;
        double q = (p + pl) / n;
        double ql = (fma(-q, n, p) + pl) / n;
        term = q, term_lo = ql;
        double s = sum + q, b = s - sum;
        rest += (sum - (s - b)) + (q - b) + ql;
        sum = s;
    }
    return sum + rest;
}

#define LN2_HI 0x1.62e42fefa39efp-1
#define LN2_LO 0x1.abc9e3b39803fp-56

static double power(double x) /* 2^x, -1 < x <= 0 */
{
    double p = x * LN2_HI;
    return series_exp(p, fma(x, LN2_HI, -p) + x * LN2_LO);
}

void hw_init(struct hw_tables *h, const int8_t *ex2, const int8_t *rcp, const int8_t *rsq, const int8_t *lg2)
{
    h->ex2 = ex2, h->rcp = rcp, h->rsq = rsq, h->lg2 = lg2;
    for (int i = 0; i < 2048; i++)
        h->coarse[i] = power(-i / 2048.0);
    for (int i = 0; i < 4096; i++)
        h->fine[i] = power(-i / 8388608.0);
    int32_t step, value = 0;
    for (int i = 0; i < HW_LG2_VALUES; i++) {
        memcpy(&step, lg2 + 4 * i, 4);
        value += step;
        h->near_one[i] = (float)value * 0x1p-36f;
    }
    value = 0;
    for (int i = 0; i < HW_LG2_BELOW; i++) {
        int16_t down;
        memcpy(&down, lg2 + HW_LG2_BYTES - 2 * (HW_LG2_BELOW - i), 2);
        value -= down;
        h->below_one[i] = (float)value * 0x1p-36f;
    }
}

static float moved(float x, int ulps)
{
    return f32_from_bits(f32_bits(x) + (uint32_t)ulps);
}

static float scaled(float x, int exponent)
{
    return exponent < -126 ? 0 : x * f32_from_bits((uint32_t)(127 + exponent) << 23);
}

float hw_ex2_rounded(const struct hw_tables *h, int i, double *distance)
{
    double exact = h->coarse[i >> 12] * h->fine[i & 4095];
    float x = (float)exact;
    if (distance) {
        double half_ulp = x > 0.5f ? 0x1p-25 : 0x1p-26, off = fabs(exact - (double)x);
        *distance = (half_ulp - off) / exact;
    }
    return x;
}

float hw_ex2(const struct hw_tables *h, float x)
{
    float mag = x < 0 ? -x : x;
    if (x <= -126.f || x != x)
        return x != x ? x : 0;
    uint32_t q = (uint32_t)(mag * 0x1p23f), fraction = q & (HW_EX2_ENTRIES - 1), whole = q >> 23;
    if (x > 0) { /* the hardware complements the fraction */
        fraction = HW_EX2_ENTRIES - 1 - fraction;
        float y = moved(hw_ex2_rounded(h, (int)fraction, 0), h->ex2[fraction]);
        return y * f32_from_bits((128 + whole) << 23);
    }
    float y = moved(hw_ex2_rounded(h, (int)fraction, 0), h->ex2[fraction]);
    /* entry 0 is 1, all others lie in [0.5,1): the result is normal while its exponent is */
    y = scaled(y, -(int)whole);
    return y < 0x1p-126f ? 0 : y;
}

float hw_rcp(const struct hw_tables *h, float x)
{
    uint32_t u = f32_bits(x), i = u & 0x7fffff;
    int exponent = (int)(u >> 23 & 255) - 127;
    float y = moved(1.0f / f32_from_bits(0x3f800000 | i), h->rcp[i]);
    return scaled(y, -exponent);
}

float hw_rsqrt(const struct hw_tables *h, float x)
{
    uint32_t u = f32_bits(x);
    int exponent = (int)(u >> 23 & 255) - 127, half = exponent >> 1;
    uint32_t i = (u & 0x7fffff) | (uint32_t)(exponent & 1) << 23;
    double m = f32_from_bits(0x3f800000 + i);
    float y = moved((float)(1.0 / sqrt(m)), h->rsq[i]);
    return scaled(y, -half);
}

/* log2 of 1 + i*2^-23 by its series in double: 2 atanh(z) / ln 2, z = m / (2 + m). */
static double series_log2(double m)
{
    double z = m / (2 + m), square = z * z, term = z, sum = 0;
    for (int n = 1; n < 60; n += 2) {
        sum += term / n;
        term *= square;
    }
    return 2 * sum * 0x1.71547652b82fep0;
}

/* An exponent adds exactly, and the sum is cut toward zero: compared with the GPU over [1, 2^10). */
float hw_lg2(const struct hw_tables *h, float x)
{
    uint32_t u = f32_bits(x), i = u & 0x7fffff;
    int exponent = (int)(u >> 23) - 127;
    float fraction;
    if (0x3f7fffff - u < HW_LG2_BELOW)
        return h->below_one[0x3f7fffff - u];
    if (i < HW_LG2_VALUES)
        fraction = h->near_one[i];
    else
        fraction = moved((float)series_log2(i * 0x1p-23), h->lg2[4 * HW_LG2_VALUES + i - HW_LG2_VALUES]);
    double sum = exponent + (double)fraction;
    float cut = (float)sum;
    return fabs((double)cut) > fabs(sum) ? moved(cut, -1) : cut;
}

float hw_expf(const struct hw_tables *h, float x)
{
    float t = fmaf(x, 0x1.77313ap-8f, 0.5f); /* log2(e) / 252 */
    t = t > 0 ? t < 1 ? t : 1 : 0;           /* NaN saturates to 0, as on the GPU */
    int n = (int)floor((double)t * 252) - 126;
    float g = fmaf(x, 0x1.715476p0f, -(float)n);
    g = fmaf(x, 0x1.4ae0cp-26f, g);
    return hw_ex2(h, g) * f32_from_bits((uint32_t)(n + 127) << 23);
}

float exact_exp(float x)
{
    if (x != x)
        return x;
    if (x > 88.8f)
        return f32_from_bits(0x7f800000);
    if (x < -104)
        return 0;
    double n = rint((double)x * 0x1.71547652b82fep0);
    double hi = fma(-n, LN2_HI, (double)x), lo = -n * LN2_LO;
    double r = hi + lo, sum = 1, term = 1;
    for (int i = 1; i < 18; i++) {
        term = term * r / i;
        sum += term;
    }
    return (float)ldexp(sum, (int)n);
}
