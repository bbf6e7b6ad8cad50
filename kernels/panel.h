/* panel - the inner loop of the executor: chains of tensor-core steps over strips of 16 columns
 *
 * Several implementations, one result: portable C, AVX2, AVX-512; chosen at run time.
 */
#ifndef ASSAY_KERNELS_PANEL_H
#define ASSAY_KERNELS_PANEL_H

#include "kernels/tensor_core.h"
#include "kernels/weight.h"

#include <stddef.h>
#include <stdint.h>

enum block_state {
    BLOCK_NORMAL,
    BLOCK_ZERO,    /* all zero: the step is the identity */
    BLOCK_SPECIAL, /* infinite, NaN or too large for the fast path */
};

/* Activations, prepared once a GEMM. k is a multiple of 16. */
struct prepared_rows {
    int k;                /* padded */
    const uint16_t *raw;  /* [rows,k] */
    const float *value;   /* [rows,k] */
    const uint32_t *key;  /* [rows,k] exponent fields in place (fp16: subnormals lifted to field 1), in both halves */
    const uint8_t *state; /* [rows,k/16] enum block_state */
};

struct chain {
    struct tensor_core_rule rule;
    enum activation act;
    int shift;   /* of the operands b */
    int special; /* b needs the scalar code */
    const struct prepared_rows *rows;
    const int32_t *row;   /* which rows */
    int count;            /* how many rows */
    const int32_t *block; /* k-blocks in order */
    int blocks;
    const uint16_t *b; /* operands: block i at b + 256 * (packed ? i : block[i]) */
    int packed;
    int strips;    /* 1, or 2 neighbours at once (two chains hide each other's latency) */
    size_t stride; /* from the operands of a strip to those of the next */
    float *acc;    /* [strips][count][16] columns, natural order; carried over from call to call */
};

typedef void panel_chain_fn(const struct chain *c);

panel_chain_fn panel_chain_portable, panel_chain_avx2, panel_chain_avx512;

/* Fastest that this CPU has. Name for reports in *name (NULL is fine). */
panel_chain_fn *panel_chain_best(const char **name);
/* From now on only that implementation, for benchmarks and tests; NULL: the fastest again. 0 when there is none. */
int panel_choose(const char *name);
/* By name: portable, avx2, avx512; NULL when this CPU or build has it not. */
panel_chain_fn *panel_chain_named(const char *name);

/* The fast paths know the two rules of tensor_core_rule and ordinary operands; shifted accumulators must also stay
 * far from overflow, so a special activation sends the whole chain to the scalar code. */
int panel_needs_scalar(const struct chain *c);

/* One step of one row and column by the scalar rule, for lanes outside the fast path. place: see weight.h. */
float panel_step_scalar(const struct chain *c, int row, int block, const uint16_t *b, int place, float acc);
/* The whole chain by the scalar rule. */
void panel_chain_scalar(const struct chain *c);

/* Fills value, key, state of one row of k (zero-padded from k_used). */
void panel_prepare_row(enum activation act, int shift, const uint16_t *a, int k_used, int k, uint16_t *raw,
                       float *value, uint32_t *key, uint8_t *state);

/* The same for m rows, into scratch of panel_rows_bytes; returns what follows, aligned. */
char *panel_prepare_rows(struct prepared_rows *r, enum activation act, int shift, int m, int k_used, int k,
                         const uint16_t *a, int lda, char *scratch);
size_t panel_rows_bytes(int m, int k);

static inline char *panel_aligned(char *at)
{
    return at + (64 - (uintptr_t)at % 64) % 64;
}

#endif
