/* weights - checkpoint weights as plain numbers, decoded the slow way; shares nothing with kernels/ */
#ifndef ASSAY_ORACLE_WEIGHTS_H
#define ASSAY_ORACLE_WEIGHTS_H

#include "harness/base/model.h"

double oracle_bf16(uint16_t h);
double oracle_f16(uint16_t h);
double oracle_e4m3(uint8_t b);
double oracle_e8m0(uint8_t b);
double oracle_e2m1(int code);
/* Nearest even. */
uint16_t oracle_to_bf16(double x);

/* w[n,k] without the factor 1/global_scale (exact in fp32 for all formats). */
void oracle_decode(const struct linear *l, float *w);
/* y[n] = (sum_k w[n,k] x[k]) / global + bias[n], double, left to right. */
void oracle_product(const struct linear *l, const float *w, const double *x, double *y);

#endif
