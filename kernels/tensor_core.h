/* tensor_core - one fused step of a tensor-core mma, bit for bit; spec tensor-core section 1 */
#ifndef ASSAY_KERNELS_TENSOR_CORE_H
#define ASSAY_KERNELS_TENSOR_CORE_H

#include "kernels/profile.h"

#include <stdint.h>

/* What distinguishes the generations. */
struct tensor_core_rule {
    int products;  /* of one fused step: 8 or 16 */
    int fraction;  /* bits kept below the largest exponent */
    int floor_exp; /* of the alignment exponent, fp32 result */
};

/* Compute capability 80, 86, 89: two steps of 8; 90 and later: one step of 16. */
struct tensor_core_rule tensor_core_rule(int sm);

/* c + sum_{j<16} a[j]*b[j] of 16-bit floats: one m16n8k16 for one output, truncated as the hardware does. */
float tensor_core_mma(struct tensor_core_rule rule, enum activation type, float c, const uint16_t *a,
                      const uint16_t *b);

#endif
