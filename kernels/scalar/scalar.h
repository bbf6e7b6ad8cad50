/* scalar - the slow, obvious executor of a GEMM plan: what the fast ones are tested against
 *
 * shapes    C[m*topk,n] = A[m,k] * W[expert][n,k]^T, row-major
 * units     bf16 or fp16 in and out, as the plan's shape says
 * rounding  spec marlin-numerics 1, 3.3, 4.4, 5; the tensor core's truncation by spec tensor-core 1
 * order     k-tiles ascending in a warp row, fold over warp rows, slices bottom first
 * specials  every NaN result is 7fff; nothing is flushed to zero
 * limits    about 0.05 G multiply-adds a second
 */
#ifndef ASSAY_KERNELS_SCALAR_H
#define ASSAY_KERNELS_SCALAR_H

#include "kernels/plan.h"

#include <stdint.h>

/* Links of the contract that can be broken on purpose; all zero: none is. */
struct scalar_mutation {
    int fraction;         /* fraction bits of the tensor core instead of the rule's */
    int halves;           /* two steps of 8 with the fraction of one step of 16 */
    int fold_left;        /* ((w0 + w1) + w2) + w3 */
    int top_first;        /* slices combined from the smallest k */
    int truncate_operand; /* u4b8: code * scale cut off instead of rounded */
    int global_after;     /* NVFP4: global scale after the 16-bit rounding */
    int wrong_group;      /* the scale of the next group */
    int keep_small;       /* NVFP4: re-encode without zeroing scales below 2 */
    int par_regrouped;    /* tiles numbered by columns first */
    int first_slice_wins; /* the other slices are lost */
};

struct tensor_core {
    int products, fraction, floor_f32, floor_f16;
};

struct tensor_core scalar_tensor_core(int sm);
/* c + sum of `count` (8 or 16) products; float bits. */
float scalar_mma(const struct tensor_core *t, enum activation act, float c, const uint16_t *a, const uint16_t *b,
                 int count);
/* The same with fp16 inputs and an fp16 accumulator. */
uint16_t scalar_mma_f16(const struct tensor_core *t, uint16_t c, const uint16_t *a, const uint16_t *b, int count);

double scalar_widen(uint16_t h, enum activation act);
uint16_t scalar_round(double x, enum activation act); /* nearest even, once */
uint16_t scalar_mul(uint16_t a, uint16_t b, enum activation act);
uint16_t scalar_add(uint16_t a, uint16_t b, enum activation act);
uint16_t scalar_fma(uint16_t a, uint16_t b, uint16_t c, enum activation act);

/* Weights of one expert as a checkpoint presents them. */
struct scalar_weight {
    const uint8_t *codes; /* [n,k], one a byte */
    const void *scales;   /* [n,k/group] or [n]: uint16_t for u4b8, bytes else */
    float global;         /* NVFP4: g, the factor */
};

/* Largest positive E4M3 scale among `count` bytes; 0: none. */
float scalar_max_scale(const uint8_t *scales, long count);

/* Operands [n,k] of the tensor core, and the factor of the accumulator. max_scale: over the stack of experts. */
void scalar_operands(const struct gemm_shape *s, const struct scalar_weight *w, float max_scale,
                     const struct scalar_mutation *x, uint16_t *out, float *global);

struct scalar_problem {
    const struct gemm_plan *plan;
    const struct scalar_weight *w;          /* [experts] */
    const uint16_t *a;                      /* [m,k] */
    int lda;                                /* row stride */
    const uint16_t *bias;                   /* [experts,n] or NULL */
    const int32_t *sorted_routes;           /* grouped: [blocks*block_rows], padding is m*topk */
    const int32_t *block_experts;           /* grouped: [blocks]; below 0: skipped */
    const float *route_weight;              /* [m*topk] or NULL */
    const struct scalar_mutation *mutation; /* NULL: none */
};

/* Rows of experts that are skipped stay as they are. E_UNSUPPORTED for atomic tiles of three slices or more: they have
 * no single result, see scalar_atomic_set. */
int scalar_gemm_run(const struct scalar_problem *p, uint16_t *c, struct err *e);

/* Every 16-bit sum of `count` (1..8) values that some order of the adds gives, starting from +0. Returns how many
 * distinct ones, or -1 when more than max (out then holds max of them). */
int scalar_atomic_set(const uint16_t *value, int count, enum activation act, uint16_t *out, int max);

#endif
