#include "harness/native/flags.h"

#include <stddef.h>
#include <string.h>

static const struct known {
    const char *name;
    size_t at;
} known[] = {
    {"marlin_dense", offsetof(struct native_flags, marlin_dense)},
    {"marlin_e1_par1", offsetof(struct native_flags, marlin_e1_par1)},
    {"fp32_reduce", offsetof(struct native_flags, fp32_reduce)},
    {"cuda_graph", offsetof(struct native_flags, cuda_graph)},
};

#define KNOWN (sizeof known / sizeof *known)

static int *field(struct native_flags *f, const char *name)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (!strcmp(known[i].name, name))
            return (int *)((char *)f + known[i].at);
    return NULL;
}

int native_flags_default(const struct flag_set *s, struct native_flags *f, struct err *e)
{
    for (size_t i = 0; i < KNOWN; i++) {
        const struct flag *x = flags_find(s, known[i].name);
        if (!x || x->stage >= STAGE_DEPRECATED)
            return FAIL(e, E_INPUT, "%s: the native engine has a flag %s, the file has not", s->path, known[i].name);
        *field(f, known[i].name) = x->on;
    }
    for (int i = 0; i < s->flags; i++) {
        const struct flag *x = &s->flag[i];
        if (!strcmp(x->engine, "native") && x->stage < STAGE_DEPRECATED && !field(f, x->name))
            return FAIL(e, E_INPUT, "%s: flag %s: the native engine has no such flag", s->path, x->name);
    }
    return OK;
}

/* route=, reduce= and graph= are older words for the same flags. */
static int set_word(const char *name, const char *value, struct native_flags *f, int *taken, struct err *e)
{
    int r;
    *taken = 1;
    if (!strcmp(name, "route")) {
        if ((r = route_by_name(value)) < 0)
            return FAIL(e, E_USAGE, "route=%s: dense, grouped or par1 is expected", value);
        f->marlin_dense = r == ROUTE_DENSE;
        f->marlin_e1_par1 = r == ROUTE_PAR1;
    } else if (!strcmp(name, "reduce")) {
        if ((r = reduce_by_name(value)) < 0 || r == REDUCE_ATOMIC)
            return FAIL(e, E_USAGE, "reduce=%s: f32 or f16 is expected (atomic add has no single result)", value);
        f->fp32_reduce = r == REDUCE_F32;
    } else {
        *taken = 0;
    }
    return OK;
}

static int set_flag(const struct flag *x, const char *device, const char *value, struct native_flags *f, char *warning,
                    int size, struct err *e)
{
    int on = !strcmp(value, "on");
    if (x->stage == STAGE_REMOVED)
        return FAIL(e, E_USAGE, "%s was removed in version %s", x->name, x->removal);
    if (!on && strcmp(value, "off"))
        return FAIL(e, E_USAGE, "%s=%s: on or off is expected", x->name, value);
    if (*x->device && strcmp(x->device, device))
        return FAIL(e, E_USAGE, "%s is a flag of native:%s, this is native:%s", x->name, x->device, device);
    if (x->stage == STAGE_DEPRECATED)
        flags_deprecation(x, warning, size);
    else
        *field(f, x->name) = on;
    return OK;
}

int native_flags_set(const struct flag_set *s, const char *device, const char *name, const char *value,
                     struct native_flags *f, char *warning, int size, int *taken, struct err *e)
{
    const struct flag *x = flags_find(s, !strcmp(name, "graph") ? "cuda_graph" : name);
    if (!x || strcmp(x->engine, "native"))
        return set_word(name, value, f, taken, e);
    *taken = 1;
    return set_flag(x, device, value, f, warning, size, e);
}

enum gemm_route native_flags_route(const struct native_flags *f)
{
    return f->marlin_dense ? ROUTE_DENSE : f->marlin_e1_par1 ? ROUTE_PAR1 : ROUTE_GROUPED;
}
