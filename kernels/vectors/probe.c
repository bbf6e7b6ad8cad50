#include "kernels/vectors/probe.h"

#include "kernels/vectors/run.h"

#include <stdlib.h>
#include <string.h>

/* Long sums of many slices that end near zero: what is left is rounding, and in 16-bit output nothing hides it. */
static const struct gemm_shape shapes[] = {
    {.m = 4, .n = 128, .k = 4096, .format = WF_NVFP4, .act = ACT_BF16, .group = 16, .experts = 1, .topk = 1},
    {.m = 4, .n = 128, .k = 4096, .format = WF_U4B8, .act = ACT_F16, .group = 128, .experts = 1, .topk = 1},
};

static int run_pair(const struct vector_case *c, const struct mutation *m, const struct gpu_profile *gpu,
                    const struct vector_inputs *in, uint16_t *right, uint16_t *wrong, struct err *e)
{
    static struct gemm_plan plan;
    struct gemm_shape mutated = c->shape;
    if (m->reduce16)
        mutated.reduce = REDUCE_F16;
    if (plan_make(&c->shape, gpu, &plan, e) || vector_run(c, in, &plan, NULL, right, e) ||
        plan_make(&mutated, gpu, &plan, e) || vector_run_mutated(c, in, &plan, m, NULL, wrong, e))
        return e->code;
    return OK;
}

static int probe_shape(const struct gemm_shape *s, const struct mutation *m, const struct gpu_profile *gpu,
                       struct probe *p, struct err *e)
{
    struct vector_case c = {.id = "probe", .shape = *s, .group = s->group, .kind = KIND_CANCEL};
    struct vector_inputs in;
    size_t n = (size_t)s->m * (size_t)s->n;
    uint16_t *out = malloc(2 * n * sizeof *out);
    if (!out)
        return FAIL(e, E_NOMEM, "out of memory");
    int rc = vector_inputs_make(&c, &in, e);
    if (!rc) {
        memset(out, 0xa5, n * sizeof *out);
        memset(out + n, 0x5a, n * sizeof *out);
        rc = run_pair(&c, m, gpu, &in, out, out + n, e);
        vector_inputs_free(&c, &in);
    }
    for (size_t i = 0; i < n && !rc; i++)
        p->differ += out[i] != out[n + i];
    p->outputs += (long)n;
    free(out);
    return rc;
}

int mutant_probe(const struct mutant *m, const struct gpu_profile *gpu, struct probe *p, struct err *e)
{
    struct mutation x = {0};
    m->apply(&x);
    memset(p, 0, sizeof *p);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (probe_shape(&shapes[i], &x, gpu, p, e))
            return e->code;
    return OK;
}
