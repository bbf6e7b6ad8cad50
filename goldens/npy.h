/* npy - NumPy arrays of 32-bit integers (format 1.0 and 2.0, C order) */
#ifndef ASSAY_GOLDENS_NPY_H
#define ASSAY_GOLDENS_NPY_H

#include "harness/base/err.h"

#include <stdint.h>

struct npy {
    int rank;
    int64_t shape[4], count;
    int32_t *data; /* owned */
};

/* E_MISSING when there is no such file; other types and orders are E_INPUT with what was found. Caller frees. */
int npy_read(const char *path, struct npy *a, struct err *e);
void npy_free(struct npy *a); /* zeroed is fine */

#endif
