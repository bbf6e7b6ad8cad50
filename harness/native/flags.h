/* flags - what batteries/flags.json and the command line make of the native engine's flags */
#ifndef ASSAY_HARNESS_NATIVE_FLAGS_H
#define ASSAY_HARNESS_NATIVE_FLAGS_H

#include "harness/gate/flags.h"
#include "kernels/plan.h"

struct native_flags {
    int marlin_dense, marlin_e1_par1, fp32_reduce, cuda_graph;
};

/* Defaults for a device ("cpu", "cuda"). E_INPUT: the file and this engine do not have the same flags. */
int native_flags_default(const struct flag_set *s, struct native_flags *f, struct err *e);
/* One flag=value; the last one wins. *taken = 0: it is none of these. A deprecated flag leaves its sentence in warning
 * (once, however often it is set) and changes nothing; a removed one is E_USAGE. */
int native_flags_set(const struct flag_set *s, const char *device, const char *name, const char *value,
                     struct native_flags *f, char *warning, int size, int *taken, struct err *e);

enum gemm_route native_flags_route(const struct native_flags *f);

#endif
