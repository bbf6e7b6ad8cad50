/* weights - takes the tensors of a checkpoint into the fields of a model: names, shapes, types and scales are checked
 */
#ifndef ASSAY_MODELS_WEIGHTS_H
#define ASSAY_MODELS_WEIGHTS_H

#include "harness/models/checkpoint.h"
#include "harness/models/config.h"

/* What a model's `owner` points at. */
struct owner {
    struct checkpoint checkpoint;
    struct config config;
    void **memory; /* weights that had to be rounded */
    int memories;
    int rounded; /* some tensor was fp16 or fp32 */
};

/* bf16 (or rounded to it) of exactly this shape; cols 0: one-dimensional. E_INPUT when it is missing. */
int take_plain(struct owner *w, const char *name, int64_t rows, int64_t cols, struct tensor *out, struct err *e);

/* The linear layer `prefix` with n outputs and k inputs, quantised iff the checkpoint holds codes for it. */
int take_linear(struct owner *w, const char *prefix, int n, int k, struct linear *out, struct err *e);

/* Takes every weight of the architecture; m->layer is allocated. */
int take_weights(struct owner *w, struct model *m, struct err *e);

#endif
