/* cuda - the CUDA part as C sees it: a table of functions in a shared object that is looked for at run time
 *
 * A build without nvcc has no such object and a machine without a GPU has no device: both are E_MISSING. Every pointer
 * named `device` is GPU memory of this part. Functions are called by one thread at a time.
 */
#ifndef ASSAY_KERNELS_CUDA_H
#define ASSAY_KERNELS_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "kernels/plan.h"
#include "kernels/weight.h"

#define CUDA_PART_ABI  1
#define CUDA_PART_NAME "libassay-cuda.so"

struct cuda_device {
    char name[128];
    int sm, sms, smem_optin, l2_bytes;
    int driver, runtime; /* CUDA versions, 13000 for 13.0 */
    size_t memory;
};

/* Weights of one linear or a stack of experts, resident on the GPU in the layout of gemm_weight.cuh. */
struct cuda_weight {
    enum weight_format format;
    enum activation act;
    int n, k, n_used, k_used, group, experts;
    void *codes, *scales, *column, *bias, *global; /* inside one allocation; column and bias NULL where absent */
    size_t codes_size, scales_size;                /* bytes of one expert */
    size_t bytes;                                  /* codes and scales of all experts */
};

enum cuda_way {
    CUDA_FAST,     /* the quickest arrangement of the plan's sums that this GPU has */
    CUDA_STRIPS,   /* few rows: whole strips of columns in a CTA, nothing to meet between CTAs */
    CUDA_TILES,    /* CTA tiles of the plan's slices, one-shot reduce */
    CUDA_BASELINE, /* the plan's own grid, stripes and serial reduce: the algorithm as the contract tells it */
};

/* Device pointers throughout; as struct gemm_problem otherwise. */
struct cuda_problem {
    const struct gemm_plan *plan;
    const struct cuda_weight *w;
    const uint16_t *a;
    int lda;
    uint16_t *c;
    int ldc;
    const int32_t *sorted_routes, *block_experts;
    const float *route_weight;
    int row_shift; /* a mutant: rows of A are read that many further, wrapping */
    enum cuda_way way;
    void *scratch; /* scratch_bytes of it, cleared once; every launch leaves it clean */
};

struct cuda_graph;

struct cuda_launch_facts {
    int grid, threads, registers, smem; /* of the last launch's main kernel */
};

struct cuda_part {
    int abi;
    /* E_MISSING: no GPU, or no driver. index 0: the first */
    int (*device)(int index, struct cuda_device *d, struct err *e);
    int (*alloc)(size_t bytes, void **device, struct err *e);
    void (*release)(void *device); /* NULL is fine */
    int (*put)(void *device, const void *host, size_t bytes, struct err *e);
    int (*get)(void *host, const void *device, size_t bytes, struct err *e);
    int (*fill)(void *device, int byte, size_t bytes, struct err *e);
    /* Loads packed codes (w->codes kept) of `experts` weights; caller frees with weight_free. */
    int (*weight_load)(const struct packed_weight *w, int experts, struct cuda_weight *out, struct err *e);
    void (*weight_free)(struct cuda_weight *w);
    /* The layout made on the host, and how many bytes the device's differ from it. */
    int (*weight_check)(const struct packed_weight *w, const struct cuda_weight *on_device, long *differing,
                        struct err *e);
    /* Routes to aligned blocks on the device, spec 2.5: expert[r], r < routes; out arrays on the device too. */
    int (*align)(const int32_t *expert, int routes, int experts, int block_rows, int32_t *sorted, int capacity,
                 int32_t *block_experts, int32_t *blocks, struct err *e);
    size_t (*scratch_bytes)(const struct cuda_problem *p);
    int (*gemm)(const struct cuda_problem *p, int stream, struct err *e); /* asynchronous; streams 0..3 */
    int (*sync)(struct err *e);                                           /* all streams */
    int (*facts)(const struct cuda_problem *p, struct cuda_launch_facts *f, struct err *e);
    /* A graph of all problems in order. */
    int (*graph_make)(const struct cuda_problem *p, int count, struct cuda_graph **g, struct err *e);
    int (*graph_run)(struct cuda_graph *g, int times, float *microseconds, struct err *e); /* one time a replay */
    void (*graph_free)(struct cuda_graph *g);
    int (*copy_bandwidth)(double *bytes_a_second, struct err *e); /* device to device, read plus written */
};

typedef const struct cuda_part *cuda_part_fn(void);
extern cuda_part_fn assay_cuda_part; /* the object's one exported name */

/* Loads the object at `path` once and checks its version. E_MISSING says how to build it. */
int cuda_load(const char *path, const struct cuda_part **part, struct err *e);

#ifdef __cplusplus
}
#endif

#endif
