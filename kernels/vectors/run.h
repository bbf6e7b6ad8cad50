/* run - a recorded case through the executor, or through the slow scalar one */
#ifndef ASSAY_KERNELS_VECTORS_RUN_H
#define ASSAY_KERNELS_VECTORS_RUN_H

#include "harness/base/team.h"
#include "kernels/mutant.h"
#include "kernels/vectors/vectors.h"
#include "kernels/weight.h"

/* A case's weights as the executors take them. */
struct vector_packed {
    struct packed_weight *w; /* [experts]; bias borrowed from the inputs */
    void **memory;
    uint8_t *nibbles; /* codes of one expert, two a byte */
};

/* Packs into a zeroed struct; caller unpacks, after a failure too. */
int vector_pack(const struct vector_case *c, const struct vector_inputs *in, struct vector_packed *p, struct err *e);
void vector_unpack(struct vector_packed *p, int experts);

/* c is [m*topk,n]. E_UNSUPPORTED: there is no single result, or no kernel for it. */
int vector_run(const struct vector_case *c, const struct vector_inputs *in, const struct gemm_plan *plan,
               struct team *team, uint16_t *out, struct err *e);
/* The same by a wrong executor; NULL: the right one. */
int vector_run_mutated(const struct vector_case *c, const struct vector_inputs *in, const struct gemm_plan *plan,
                       const struct mutation *mutation, struct team *team, uint16_t *out, struct err *e);
int vector_run_scalar(const struct vector_case *c, const struct vector_inputs *in, const struct gemm_plan *plan,
                      const struct scalar_mutation *mutation, uint16_t *out, struct err *e);

/* OK when the plan's launches are those that were observed; E_INTERNAL says which is not. */
int vector_launches_check(const struct vector_case *c, enum vector_build build, const struct gemm_plan *plan,
                          struct err *e);

#endif
