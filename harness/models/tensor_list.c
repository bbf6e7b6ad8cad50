#include "harness/models/tensor_list.h"

#include <stdlib.h>
#include <string.h>

static int keep(struct tensor_list *l, void *p, struct err *e)
{
    void **more = p ? realloc(l->memory, ((size_t)l->memories + 1) * sizeof *more) : NULL;
    if (!more) {
        free(p);
        return FAIL(e, E_NOMEM, "tensors: out of memory");
    }
    l->memory = more;
    l->memory[l->memories++] = p;
    return OK;
}

int tensor_list_borrow(struct tensor_list *l, const struct tensor *t, struct err *e)
{
    if (l->tensors == l->room) {
        int room = l->room ? 2 * l->room : 64;
        struct tensor *more = realloc(l->tensor, (size_t)room * sizeof *more);
        if (!more)
            return FAIL(e, E_NOMEM, "tensors: out of memory");
        l->tensor = more;
        l->room = room;
    }
    l->tensor[l->tensors++] = *t;
    return OK;
}

int tensor_list_new(struct tensor_list *l, const char *name, enum dtype d, int64_t rows, int64_t cols, void **data,
                    struct err *e)
{
    struct tensor t = {.dtype = d, .rank = cols ? 2 : 1, .shape = {rows, cols}};
    char *copy = strdup(name);
    int rc = keep(l, copy, e);
    if (rc)
        return rc;
    t.name = copy;
    t.bytes = (size_t)rows * (size_t)(cols ? cols : 1) * (size_t)dtype_bytes(d);
    void *memory = calloc(1, t.bytes + 1);
    if ((rc = keep(l, memory, e)))
        return rc;
    t.data = *data = memory;
    return tensor_list_borrow(l, &t, e);
}

void tensor_list_free(struct tensor_list *l)
{
    for (int i = 0; i < l->memories; i++)
        free(l->memory[i]);
    free(l->memory);
    free(l->tensor);
    memset(l, 0, sizeof *l);
}
