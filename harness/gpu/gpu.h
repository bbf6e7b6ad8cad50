/* gpu - the CUDA kernels put to the proof: against the CPU, against themselves, and against the clock */
#ifndef ASSAY_HARNESS_GPU_H
#define ASSAY_HARNESS_GPU_H

#include "kernels/cuda/cuda.h"

#include <jansson.h>

struct gpu_job {
    const struct cuda_part *part;
    const struct cuda_device *device;
    const char *data_dir;
    int quick;        /* a tenth of the work, for memory checkers */
    const char *only; /* bench: a format, or NULL for all */
    int replays;      /* bench */
    void (*progress)(void *arg, const char *what, int done, int total);
    void *arg;
};

/* Each returns a new reference; "failed" counts what did not hold. */
int gpu_prove_equal(const struct gpu_job *j, json_t **report, struct err *e);  /* GPU = CPU executor */
int gpu_prove_steady(const struct gpu_job *j, json_t **report, struct err *e); /* runs, ways, graphs, streams, mutant */
int gpu_prove_atomic(const struct gpu_job *j, json_t **report, struct err *e); /* error table of atomic adds */
int gpu_bench(const struct gpu_job *j, json_t **report, struct err *e);

#endif
