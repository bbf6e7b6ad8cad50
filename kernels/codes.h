/* codes - chains of tensor-core steps straight from 4-bit codes, in integers
 *
 * A block of 16 activations that fits 16-bit integers A[k]*2^lsb, times integer operands V[k,column], sums exactly;
 * where no product has bits below the step's grid, that sum is the sum of the truncated terms. Other lanes take
 * truncated float products, lanes outside the common range the scalar rule. bf16 activations, 16-product rule only.
 */
#ifndef ASSAY_KERNELS_CODES_H
#define ASSAY_KERNELS_CODES_H

#include "kernels/panel.h"

/* One block of 16 activations of one row. */
struct code_block {
    int16_t value[16]; /* A[k]; only with state CODE_INTEGER */
    int8_t key[16];    /* 4 * (exponent - top), -128 for zero */
    int32_t lsb, top;  /* exponent of 1 in value; largest exponent */
    int32_t state;     /* enum code_state */
};

enum code_state {
    CODE_INTEGER, /* value[] is exact */
    CODE_FLOAT,   /* exponents spread too far for 16 bits, but not for the keys */
    CODE_ZERO,
    CODE_SCALAR, /* infinite, NaN, huge, or spread beyond the keys */
};

void code_prepare_row(const struct prepared_rows *r, int row, struct code_block *out); /* k/16 blocks */

/* `parts` chains over one strip that advance together, block by block: they are independent, so that one hides the
 * latency of the other. */
struct code_chain {
    const struct packed_weight *w; /* 4-bit format, codes kept */
    const struct prepared_rows *rows;
    const struct code_block *block_of; /* [rows,k/16] */
    const int32_t *row;
    int count;
    const int32_t *block; /* [blocks][parts] k-blocks */
    int blocks, parts, strip;
    float *acc;       /* [parts], each [count][16], natural order, carried over */
    size_t part_size; /* floats from the accumulators of a part to those of the next */
};

typedef void code_chain_fn(const struct code_chain *c);
code_chain_fn code_chain_avx2, code_chain_avx512;

/* NULL when this CPU has none; then codes are decoded for the panels. */
code_chain_fn *code_chain_best(void);

/* Scalar rule for the columns of mask (bit = column), from the accumulators before the step. */
void code_step_scalar(const struct code_chain *c, int row, int block, unsigned mask, const float *before, float *acc);

/* What one block of a strip decodes to. Column c, k: value[k/2][2*c + k%2]. */
struct code_operands {
    int16_t value[8][32] __attribute__((aligned(64)));
    int8_t key[8][32];    /* 4 * exponent + class of the mantissa; -128 for zero */
    int32_t exponent[16]; /* added to a key's exponent: exponent of the operand */
    int32_t unit[16];     /* exponent of 1 in value * mantissa */
    int32_t mantissa[16]; /* multiplies the integer sum; 0: the column is zero */
    int32_t carry[16];    /* bit class: the mantissa product reaches 2 */
};

#endif
