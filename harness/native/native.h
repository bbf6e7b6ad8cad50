/* native - this project's own engine on the CPU: weights packed once, sessions that step, every op in its written order
 *
 * On profile h200, route dense (experts grouped), its logits are vLLM's eager logits byte for byte.
 */
#ifndef ASSAY_HARNESS_NATIVE_H
#define ASSAY_HARNESS_NATIVE_H

#include "harness/base/model.h"
#include "harness/base/sha256.h"
#include "harness/base/team.h"
#include "kernels/gemm.h"
#include "kernels/hw.h"
#include "kernels/mutant.h"
#include "kernels/ops.h"

struct native_layer {
    struct packed_weight qkv, o, gate_up, down; /* dense parts; gate_up and down unused in an MoE layer */
    struct packed_weight router, *w13, *w2;     /* MoE: one a expert */
};

struct native_options {
    enum gemm_route route; /* of a dense model's linears; experts are grouped unless par1 */
    enum gemm_reduce reduce;
    int decoded;              /* keep decoded panels: faster, 2 bytes a weight */
    struct mutation mutation; /* zero: none */
    int mutated;
};

struct native {
    const struct model *model;
    struct gpu_profile gpu;
    struct native_options o;
    struct native_layer *layer;
    struct packed_weight head;
    struct hw_tables hw;
    uint16_t *silu;               /* 65536 entries */
    uint16_t *rope;               /* [rope_rows][head_dim] */
    int rope_rows, rope_measured; /* measured: from a GPU, else computed here */
    size_t weight_bytes;          /* resident */
    /* of the GPU profile's file, and of the tables that were read: they decide bytes as the program does */
    char profile_sha256[SHA256_HEX_SIZE], tables_sha256[SHA256_HEX_SIZE];
    struct owned *owned; /* list of allocations */
};

/* data_dir holds batteries/gpus and kernels/tables. Caller closes. */
int native_open(const struct model *m, const char *data_dir, const char *gpu, const struct native_options *o,
                struct native **out, struct err *e);
void native_close(struct native *n); /* NULL is fine */

/* Where a value of the forward pass is shown; data is bf16 [rows,cols], and what is left in it goes on. Layer -1: not
 * in a layer. */
typedef void native_tap(void *arg, int layer, const char *op, uint16_t *data, int rows, int cols);

struct native_counts {
    int64_t dense_gemms, grouped_gemms, par1_gemms, plain_gemms, steps;
};

struct native_session;

/* Room for `sequences` of up to `positions` ids each. team NULL: the caller's thread alone (borrowed). */
int native_session_open(const struct native *n, int sequences, int positions, struct team *team,
                        struct native_session **s, struct err *e);
void native_session_close(struct native_session *s); /* NULL is fine */
void native_session_tap(struct native_session *s, native_tap *tap, void *arg);

/* Rows of one sequence in a step: ids at positions first, first+1, ... (first = ids already cached). */
struct segment {
    int sequence, rows;
    const int32_t *ids;
};

/* Forgets a sequence. */
void native_reset(struct native_session *s, int sequence);
/* One forward step over all rows of all segments. */
int native_step(struct native_session *s, const struct segment *seg, int segments, struct err *e);
/* Logits (bf16 [n,vocab]) of rows of the last step; row: index over all its rows in order. */
int native_logits(struct native_session *s, const int32_t *row, int n, uint16_t *logits, struct err *e);

const struct native_counts *native_counts(const struct native_session *s);
/* What counts must be after `steps` steps of any rows. */
struct native_counts native_expected(const struct native *n, int64_t steps);

#endif
