/* probe - what a battery may hide of a mutant, single GEMMs on cancelling inputs show */
#ifndef ASSAY_KERNELS_VECTORS_PROBE_H
#define ASSAY_KERNELS_VECTORS_PROBE_H

#include "harness/base/err.h"
#include "kernels/mutant.h"
#include "kernels/profile.h"

struct probe {
    long outputs, differ; /* over all its GEMMs */
};

/* Runs each GEMM by the right executor and by the wrong one. The control must give the same bytes. */
int mutant_probe(const struct mutant *m, const struct gpu_profile *gpu, struct probe *p, struct err *e);

#endif
