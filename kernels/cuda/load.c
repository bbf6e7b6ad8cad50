/* Finds the CUDA part at run time, so that one binary serves machines with and without a GPU. */
#include "kernels/cuda/cuda.h"

#include <dlfcn.h>
#include <unistd.h>

int cuda_load(const char *path, const struct cuda_part **part, struct err *e)
{
    cuda_part_fn *get = NULL;
    if (access(path, R_OK))
        return FAIL(e, E_MISSING, "%s is not there: this build has no CUDA part; `make cuda` makes it (needs nvcc)",
                    path);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return FAIL(e, E_MISSING, "%s cannot be loaded: %s", path, dlerror());
    *(void **)&get = dlsym(object, "assay_cuda_part");
    const struct cuda_part *p = get ? get() : NULL;
    if (!p || p->abi != CUDA_PART_ABI) {
        dlclose(object);
        return FAIL(e, E_MISSING, "%s belongs to another version of assay: run `make cuda` again", path);
    }
    *part = p;
    return OK;
}
