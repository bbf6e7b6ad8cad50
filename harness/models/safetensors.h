/* safetensors - one file of tensors, mapped; nothing in its header is believed before it is checked */
#ifndef ASSAY_MODELS_SAFETENSORS_H
#define ASSAY_MODELS_SAFETENSORS_H

#include "harness/base/mapped.h"
#include "harness/base/model.h"

struct safetensors {
    struct mapped map;
    struct tensor *tensor; /* sorted by name; names and data belong to this struct */
    int tensors;
    char *names;
};

/* Every entry's shape, type, place and size agree, entries do not overlap and leave no gap. E_INPUT otherwise. Caller
 * closes. */
int safetensors_open(const char *path, struct safetensors *s, struct err *e);
void safetensors_close(struct safetensors *s); /* zeroed is fine */

/* NULL when there is no such tensor. */
const struct tensor *safetensors_find(const struct safetensors *s, const char *name);

/* The same bytes as the safetensors library writes for these tensors (any order; names not sorted): larger types
 * first, then by name; header padded with spaces to 8 bytes. Written beside and renamed. */
int safetensors_write(const char *path, const struct tensor *t, int n, struct err *e);

#endif
