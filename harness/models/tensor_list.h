/* tensor_list - tensors that are being made, with their names and memory */
#ifndef ASSAY_MODELS_TENSOR_LIST_H
#define ASSAY_MODELS_TENSOR_LIST_H

#include "harness/base/model.h"

struct tensor_list {
    struct tensor *tensor;
    int tensors, room;
    void **memory;
    int memories;
};

/* Adds NAME (copied), cols 0: one dimension. *data receives zeroed memory of the list to fill in. */
int tensor_list_new(struct tensor_list *l, const char *name, enum dtype d, int64_t rows, int64_t cols, void **data,
                    struct err *e);
/* Adds a tensor whose name and data live longer than the list. */
int tensor_list_borrow(struct tensor_list *l, const struct tensor *t, struct err *e);
void tensor_list_free(struct tensor_list *l); /* zeroed is fine */

#endif
