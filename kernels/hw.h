/* hw - transcendental functions as an sm_90 computes them, from measured tables; and a correctly rounded exp
 *
 * A table entry is the difference, in units of the last place, between the hardware's result and the correctly
 * rounded one. Domains, hashes and error counts: spec native-parity, "Hardware functions".
 */
#ifndef ASSAY_KERNELS_HW_H
#define ASSAY_KERNELS_HW_H

#include <stdint.h>

#define HW_EX2_ENTRIES (1 << 23)
#define HW_RCP_ENTRIES (1 << 23)
#define HW_RSQ_ENTRIES (1 << 24)
/* lg2 on [1,2): near 1 the relative error is large; there 2^17 int32 little-endian first differences of value * 2^36,
 * exact, and then bytes like the others'; last, for 1 - i*2^-24, i = 1.. (where a softmax's sum ends up when one key
 * has all the weight), 2^14 int16 differences downward of value * 2^36, exact */
#define HW_LG2_VALUES (1 << 17)
#define HW_LG2_BELOW  (1 << 14)
#define HW_LG2_BYTES  (HW_LG2_VALUES * 4 + (1 << 23) - HW_LG2_VALUES + HW_LG2_BELOW * 2)

struct hw_tables {
    const int8_t *ex2, *rcp, *rsq;   /* borrowed */
    const int8_t *lg2;               /* HW_LG2_BYTES, borrowed */
    float near_one[HW_LG2_VALUES];   /* lg2(1 + i/2^23), set by hw_init */
    float below_one[HW_LG2_BELOW];   /* lg2(1 - (1+i)/2^24) */
    double coarse[2048], fine[4096]; /* 2^(-i/2048), 2^(-i/2^23): own exp2, set by hw_init */
};

void hw_init(struct hw_tables *h, const int8_t *ex2, const int8_t *rcp, const int8_t *rsq, const int8_t *lg2);

float hw_ex2(const struct hw_tables *h, float x);   /* ex2.approx.ftz: 2^x, x below 126 */
float hw_rcp(const struct hw_tables *h, float x);   /* rcp.approx.ftz: 1/x, x normal and positive */
float hw_rsqrt(const struct hw_tables *h, float x); /* rsqrt.approx: 1/sqrt(x), x normal and positive */

/* lg2.approx.ftz: log2 x, x from 1 - 2^-10 on; below, the result is not the hardware's */
float hw_lg2(const struct hw_tables *h, float x);

/* expf as nvcc compiles it without fast-math: argument reduction by two fma, ex2.approx, an exact power of two. */
float hw_expf(const struct hw_tables *h, float x);

/* e^x rounded once to fp32 (nearest even). */
float exact_exp(float x);

/* Correctly rounded 2^(-i/2^23) before the table's correction; for tests. *distance: relative distance of the double
 * result from the nearest rounding boundary of fp32. */
float hw_ex2_rounded(const struct hw_tables *h, int i, double *distance);

#endif
