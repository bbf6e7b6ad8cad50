/* Names of the closed lists of a plan, as people and files write them. */
#include "kernels/plan.h"

#include <string.h>

static const char *const routes[] = {"dense", "grouped", "par1"};
static const char *const reduces[] = {"f32", "f16", "atomic"};
static const char *const formats[] = {"bf16", "u4b8", "nvfp4", "mxfp4"};
static const char *const activations[] = {"bf16", "fp16"};

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static int find(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return i;
    return -1;
}

const char *route_name(enum gemm_route r)
{
    return routes[r];
}

int route_by_name(const char *name)
{
    return find(routes, COUNT(routes), name);
}

const char *reduce_name(enum gemm_reduce r)
{
    return reduces[r];
}

int reduce_by_name(const char *name)
{
    return find(reduces, COUNT(reduces), name);
}

const char *format_name(enum weight_format f)
{
    return formats[f];
}

int format_by_name(const char *name)
{
    return find(formats, COUNT(formats), name);
}

const char *activation_name(enum activation a)
{
    return activations[a];
}

int activation_by_name(const char *name)
{
    return find(activations, COUNT(activations), name);
}
