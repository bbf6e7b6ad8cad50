/* codes - chains of tensor-core steps straight from 4-bit codes, in integers
 *
 * A block of 16 activations that fits 16-bit integers A[k]*2^lsb, times small integers V[k,column], sums exactly. The
 * step is then one fp32 multiply-add towards zero,
 *     c' = RZ(c + (sum_k A[k]*V[k,column]) * scale*2^lsb),
 * as long as the step's grid 2^(E-25) drops nothing: no bit of a product (the grid is no coarser than the unit of the
 * sum) and no bit of c. Both are checked for every column from bounds, without knowing E:
 *     |c| <= 2^22 scale 2^lsb                     E <= exponent(c) keeps every product whole
 *     4|c| >= largest product, or c is a multiple of a unit that is no finer than largest product * 2^-25
 * A few activations far below the others are left out of the sum and cut product by product. What is left takes the
 * careful path, one step at a time: a code chain, or the panels. bf16 activations, 16-product rule only.
 */
#ifndef ASSAY_KERNELS_CODES_H
#define ASSAY_KERNELS_CODES_H

#include "kernels/panel.h"

/* One block of 16 activations of one row, for the quick path: a cache line, and another for PLAN_WIDE. */
struct code_block {
    int8_t digit[2][16];  /* digit[0] + 256*digit[1]: the activation over 2^bulk, 0 for the small ones */
    int32_t plan;         /* enum code_plan */
    int32_t bias;         /* of the sum, because tables hold V + code_bias */
    float unit, limit;    /* times a column's scale: the unit of the sum; the largest |c| that keeps products whole */
    float reach;          /* times a column's scale: twice the largest product */
    float raw_unit;       /* unit or wide_unit, for the scale's bits: see code_raw_exponent */
    int16_t raw_limit[2]; /* twice: to be added to a raw scale's upper bits for those of limit or wide_limit */
    int16_t raw_reach[2]; /* the same for reach, or a little more */

    int8_t wide[3][16]; /* PLAN_WIDE: all of them, over 2^lsb */
    float wide_unit, wide_limit;
    int32_t wide_bias;
    uint16_t small; /* bit k: activation k is a small one */
    uint16_t light; /* wide sums fit 24 bits */
} __attribute__((aligned(64)));

/* A scale as the bits of a bf16 float: exact but for a power of two, which is 2^code_raw_exponent(w) too small. */
static inline int code_raw_exponent(const struct packed_weight *w)
{
    return w->format == WF_NVFP4 ? 95 : w->format == WF_MXFP4 ? -1 : 0; /* V of E2M1 counts halves */
}

enum code_plan {
    PLAN_WHOLE,
    PLAN_WIDE,  /* three digits hold the small ones too; where they must be cut, as PLAN_SMALL */
    PLAN_SMALL, /* some products are cut one by one */
    PLAN_CAREFUL,
    PLAN_ZERO, /* the step is the identity */
};

enum code_state {
    CODE_INTEGER, /* value[] is exact */
    CODE_FLOAT,   /* exponents spread too far for 16 bits, but not for the keys */
    CODE_ZERO,
    CODE_SCALAR, /* infinite, NaN, huge, or spread beyond the keys */
};

/* The same block for the careful path. */
struct code_careful {
    int16_t value[16]; /* A[k]; only with CODE_INTEGER */
    int8_t key[16];    /* 4 * (exponent - top), -128 for zero */
    int32_t lsb, top;  /* exponent of 1 in value; largest exponent */
    int32_t state;     /* enum code_state */
};

/* Block by block, in each all `rows` rows: blocks [from,to) of out[k/16][rows], for weights like w. */
void code_prepare(const struct packed_weight *w, const struct prepared_rows *r, int rows, int from, int to,
                  struct code_block *out);
/* state: of the prepared row. */
void code_prepare_careful(const uint16_t *a, enum block_state state, struct code_careful *out);

/* `parts` chains over one strip that advance together, block by block: they are independent, so that one hides the
 * latency of the other. */
struct code_chain {
    const struct packed_weight *w; /* 4-bit format, codes kept */
    const struct prepared_rows *rows;
    const struct code_careful *careful; /* [k/16][all rows]; all 0: of the one block of the one row */
    int all;
    const int32_t *row;
    int count;
    const int32_t *block; /* [blocks][parts] k-blocks */
    int blocks, parts, strip;
    float *acc;       /* [parts], each [count][16], natural order, carried over */
    size_t part_size; /* floats from the accumulators of a part to those of the next */
};

typedef void code_chain_fn(const struct code_chain *c);
/* Any lane, any activation; NULL when this CPU has none: then the panels do it. */
code_chain_fn code_chain_avx2, code_chain_panel;
code_chain_fn *code_chain_best(void);

/* The warp rows of one slice of one strip by the quick path. Accumulators start at zero; they end in the lane order of
 * the instruction set and in shifted units, to be folded and added as they are, and put right by the finish function.
 */
struct code_slice {
    const struct packed_weight *w; /* of a format that code_is_quick */
    const struct prepared_rows *rows;
    const struct code_block *block_of; /* [k/16][all rows] */
    int all;
    const int32_t *row;
    int count, strip, warps, t0, t1; /* k-tiles [t0,t1) of 2*warps blocks */
    int last;                        /* blocks from here on are left out */
    float *acc;                      /* [warps], each [count][16] */
    size_t part_size;                /* floats from warp row to warp row */
};

struct code_path {
    const char *name;
    void (*slice)(const struct code_slice *s);
    uint8_t column[STRIP]; /* of each lane */
};
extern const struct code_path code_path_portable, code_path_avx2, code_path_avx512;
const struct code_path *code_path_best(void);

/* E2M1 formats, and u4b8 without groups, which has no scale before the product. */
static inline int code_is_quick(const struct packed_weight *w)
{
    return w->format == WF_NVFP4 || w->format == WF_MXFP4 || (w->format == WF_U4B8 && !w->group);
}

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
