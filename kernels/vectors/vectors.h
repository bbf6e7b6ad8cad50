/* vectors - recorded GEMM cases of the real kernels: their description, and their inputs made again from it
 *
 * Inputs are a pure function of the case: splitmix64 streams, one a (what, problem, expert); no state is carried.
 */
#ifndef ASSAY_KERNELS_VECTORS_H
#define ASSAY_KERNELS_VECTORS_H

#include "harness/base/json.h"
#include "harness/base/sha256.h"
#include "kernels/plan.h"
#include "kernels/scalar/scalar.h"

enum vector_kind {
    KIND_NORM,
    KIND_CANCEL, /* the exact sum is nearly zero: what is left is rounding */
    KIND_WIDE,
    KIND_TINY,
    KIND_BIG,
    KIND_SPEC, /* infinities, NaN, odd scale bytes */
    KIND_LOWS, /* NVFP4 without a scale above 1 */
};

enum vector_build {
    BUILD_SM90,  /* compute_90 code */
    BUILD_PTX80, /* compute_80 PTX compiled by the driver */
    BUILDS
};

struct vector_case {
    char id[128];
    struct gemm_shape shape; /* group 0: channelwise */
    int group;               /* as the case names it: -1 for channelwise */
    enum vector_kind kind;
    int bias, mul;
    int has[BUILDS];                          /* the case was recorded in that build */
    char sha256[BUILDS][SHA256_HEX_SIZE];     /* "" when no single result was recorded */
    int64_t raw_offset, raw_bytes;            /* raw_bytes 0: none; bytes of the sm90 build */
    int raw_is_ptx80;                         /* the ptx80 build gave the same bytes */
    int launches[BUILDS];                     /* as observed */
    int launch[BUILDS][PLAN_LAUNCHES_MAX][7]; /* rows, tk, tn, threads, mb, m8, grid */
};

/* One line of cases.jsonl; name and line for messages. */
int vector_case_parse(const char *text, size_t bytes, const char *name, int line, struct vector_case *c, struct err *e);

const char *vector_build_name(enum vector_build b);
int vector_build_by_name(const char *name); /* -1: unknown */

struct vector_inputs {
    struct scalar_weight *weight;                          /* [experts]; arrays owned */
    uint16_t *a;                                           /* [m,k] */
    uint16_t *bias;                                        /* [experts,n] or NULL */
    int32_t *route_expert, *sorted_routes, *block_experts; /* NULL: dense */
    int blocks;
    float *route_weight; /* [m*topk] or NULL */
};

/* Caller frees with vector_inputs_free. The rest: all but weights and their scales, for who has them already. */
int vector_inputs_make(const struct vector_case *c, struct vector_inputs *in, struct err *e);
int vector_inputs_make_rest(const struct vector_case *c, struct vector_inputs *in, struct err *e);
void vector_inputs_free(const struct vector_case *c, struct vector_inputs *in);

/* Places routes into blocks, spec marlin-numerics 2.5: expert[r] is the expert of route r, in 0..experts-1. sorted
 * holds `capacity` places; padding is `routes`. Returns the number of blocks. */
int align_routes(const int32_t *expert, int routes, int experts, int block_rows, int32_t *sorted, int capacity,
                 int32_t *block_experts);

uint64_t vector_random(uint64_t seed, uint64_t i);

#endif
