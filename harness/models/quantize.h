/* quantize - bf16 [n,k] -> 4-bit codes and scales, round to nearest
 *
 * The values of llm-compressor 0.12 with compressed-tensors 0.17, bit for bit.
 * shapes    w[n,k] bf16; codes as the formats of struct linear pack them; groups run along k
 * rounding  every step is written out: bf() to bf16, f() to fp32, both to nearest even
 * specials  weights must be finite; -0 keeps its sign in E2M1; a group of zeros gets the scale named below
 * limits    k is a multiple of the group
 */
#ifndef ASSAY_MODELS_QUANTIZE_H
#define ASSAY_MODELS_QUANTIZE_H

#include "harness/base/err.h"

#include <stdint.h>

/* Largest |w| as bf16 bits; a weight that is not finite gives its place in *bad (else -1). */
uint16_t quantize_largest(const uint16_t *w, int64_t count, int64_t *bad);

/* The divisor g = bf(bf(1/amax) * 2688) of weights whose largest magnitude is amax (bf16 bits). Zero weights: 1. */
float quantize_global(uint16_t amax);

/* codes[n,k/2], scale[n,k/16] E4M3 = f(g * bf(a/6)); a zero scale divides as the smallest E4M3. */
void quantize_nvfp4(const uint16_t *w, int64_t n, int64_t k, float g, uint8_t *codes, uint8_t *scale);

/* codes[n,k/2], scale[n,k/32] E8M0: power of two of a, rounded up from a mantissa of 1.75, over 4. */
void quantize_mxfp4(const uint16_t *w, int64_t n, int64_t k, uint8_t *codes, uint8_t *scale);

/* words[n,k/8], scale[n,k/group] bf16 = bf(a/7.5); a group of zeros gets 2^-7. */
void quantize_int4(const uint16_t *w, int64_t n, int64_t k, int64_t group, int32_t *words, uint16_t *scale);

#endif
