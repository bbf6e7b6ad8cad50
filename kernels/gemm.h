/* gemm - runs a plan on the CPU, bit for bit as the GPU would */
#ifndef ASSAY_KERNELS_GEMM_H
#define ASSAY_KERNELS_GEMM_H

#include "kernels/mutant.h"
#include "kernels/plan.h"
#include "kernels/weight.h"

#include <stddef.h>

struct team; /* threads, see harness/base/team.h; NULL: the caller alone */

/* C[row,n_used] = plan(A, W). All pointers borrowed for the call. */
struct gemm_problem {
    const struct gemm_plan *plan;
    const struct packed_weight *w; /* one, or plan->shape.experts of them */
    const uint16_t *a;             /* [m,k_used], row stride lda */
    int lda;
    uint16_t *c; /* [m*topk,n_used], row stride ldc */
    int ldc;
    /* grouped routes with real routing; NULL: one expert, rows in the order of spec 2.5 */
    const int32_t *sorted_routes;    /* [blocks*block_rows], padding = m*topk */
    const int32_t *block_experts;    /* [blocks], -1: not local, skipped */
    const float *route_weight;       /* [m*topk] router weights, multiplied at write-out, or NULL */
    const struct mutation *mutation; /* NULL: none */
};

/* Bytes of scratch that gemm_run needs for this problem with that many threads. */
size_t gemm_scratch_bytes(const struct gemm_problem *p, int threads);

/* scratch is 64-byte aligned. Fails only on contradictions between plan and weights (E_INTERNAL). */
int gemm_run(const struct gemm_problem *p, void *scratch, struct team *team, struct err *e);

/* One chain of steps without split, then one rounding: the plain bf16 linears (lm_head, router, unquantised models). */
int linear_run(const struct packed_weight *w, int sm, int m, const uint16_t *a, int lda, uint16_t *c, int ldc,
               void *scratch, struct team *team, struct err *e);
size_t linear_scratch_bytes(const struct packed_weight *w, int m, int threads);

#endif
