/* gpu - recorded and made-up cases through the CUDA kernels */
#ifndef ASSAY_KERNELS_VECTORS_GPU_H
#define ASSAY_KERNELS_VECTORS_GPU_H

#include "kernels/cuda/cuda.h"
#include "kernels/vectors/run.h"

/* A case's operands on the GPU; weights stay while the next case has the same. */
struct vector_gpu {
    const struct cuda_part *part;
    char key[160]; /* of the weights; "" none */
    struct cuda_weight weight;
    struct {
        void *at;
        size_t bytes;
    } a, c, sorted, blocks, route_weight, route_expert, count, scratch; /* grow, and stay for the next case */
    size_t scratch_bytes;                                               /* of the case */
    struct cuda_problem problem;                                        /* borrows all of the above */
    long repacked_wrong; /* bytes of the device's weight layout that differ from the host's, all loads */
    int check_repack;
};

/* How a case is put before the GPU beyond what it says itself. */
struct vector_gpu_way {
    enum cuda_way way;
    int a_pad, c_pad; /* elements between rows beyond k and n */
    int row_shift;
};

/* Loads inputs (made again inside), aligns routes on the device. E_UNSUPPORTED, E_MISSING as the part says. */
int vector_gpu_load(struct vector_gpu *g, const struct vector_case *c, const struct gemm_plan *plan,
                    const struct vector_gpu_way *way, struct err *e);
/* Poisons C with `poison`, runs, waits, copies C [m*topk,n] to out. */
int vector_gpu_run(struct vector_gpu *g, const struct vector_case *c, int poison, int stream, uint16_t *out,
                   struct err *e);
/* C as it is now. */
int vector_gpu_fetch(struct vector_gpu *g, const struct vector_case *c, uint16_t *out, struct err *e);
void vector_gpu_free(struct vector_gpu *g);

#endif
