/* What must not change a byte: repetition, arrangement, graphs, streams, poison, strides. What must: a wrong stride. */
#include "harness/gpu/gpu.h"

#include "kernels/vectors/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 100, WAYS = 4 };

static const struct {
    enum gemm_route route;
    enum weight_format format;
    enum activation act;
    int group, m, n, k;
    enum gemm_reduce reduce;
} cases[] = {
    {ROUTE_DENSE, WF_U4B8, ACT_BF16, 128, 1, 1280, 8192, REDUCE_F32},
    {ROUTE_DENSE, WF_U4B8, ACT_F16, 128, 16, 1024, 5120, REDUCE_F32},
    {ROUTE_DENSE, WF_U4B8, ACT_F16, 64, 64, 768, 4096, REDUCE_F16},
    {ROUTE_DENSE, WF_NVFP4, ACT_BF16, 16, 64, 5120, 5120, REDUCE_F32},
    {ROUTE_DENSE, WF_NVFP4, ACT_BF16, 16, 5, 5120, 5120, REDUCE_F16},
    {ROUTE_DENSE, WF_MXFP4, ACT_BF16, 32, 200, 1536, 8960, REDUCE_F32},
    {ROUTE_GROUPED, WF_U4B8, ACT_BF16, 0, 8, 1280, 8192, REDUCE_F32},
    {ROUTE_GROUPED, WF_NVFP4, ACT_F16, 16, 100, 1536, 8960, REDUCE_F32},
    {ROUTE_PAR1, WF_U4B8, ACT_BF16, 128, 16, 1280, 8192, REDUCE_F32},
};
enum { CASES = sizeof cases / sizeof *cases };

struct steady {
    const struct gpu_job *job;
    struct gpu_profile gpu;
    struct gemm_plan plan;
    struct vector_case c;
    struct vector_gpu g;
    uint16_t *first, *out;
    size_t bytes;
    struct {
        int runs, ways, graph, streams, strides, mutant; /* of each: how many times it did not hold */
    } bad;
};

static int differs(const struct steady *s)
{
    return memcmp(s->first, s->out, s->bytes) != 0;
}

static int load(struct steady *s, enum cuda_way way, int a_pad, int c_pad, int row_shift, struct err *e)
{
    struct vector_gpu_way w = {way, a_pad, c_pad, row_shift};
    return vector_gpu_load(&s->g, &s->c, &s->plan, &w, e);
}

/* The first run gives the bytes; poison alternates. */
static int repeat(struct steady *s, enum cuda_way way, int runs, int *bad, struct err *e)
{
    if (load(s, way, 0, 0, 0, e))
        return e->code;
    for (int i = 0; i < runs; i++) {
        int rc = vector_gpu_run(&s->g, &s->c, i % 2 ? 0xff : 0xa5, 0, s->out, e);
        if (rc)
            return rc;
        *bad += differs(s);
    }
    return OK;
}

static int in_graph(struct steady *s, struct err *e)
{
    struct cuda_graph *graph = NULL;
    const struct cuda_part *p = s->job->part;
    if (load(s, CUDA_FAST, 0, 0, 0, e) || p->graph_make(&s->g.problem, 1, &graph, e))
        return e->code;
    for (int i = 0; i < 3 && !e->code; i++)
        if (!p->fill(s->g.c.at, 0x5a, s->bytes, e) && !p->graph_run(graph, 1, NULL, e) &&
            !vector_gpu_fetch(&s->g, &s->c, s->out, e))
            s->bad.graph += differs(s);
    p->graph_free(graph);
    return e->code;
}

/* The same problem on two streams at once, each with an output and scratch of its own. */
static int on_streams(struct steady *s, struct err *e)
{
    const struct cuda_part *p = s->job->part;
    struct cuda_problem two[2] = {s->g.problem, s->g.problem};
    void *c = NULL, *scratch = NULL;
    if (p->alloc(s->bytes, &c, e) || p->alloc(s->g.scratch_bytes, &scratch, e) ||
        p->fill(scratch, 0, s->g.scratch_bytes, e) || p->fill(c, 0x11, s->bytes, e) ||
        p->fill(s->g.c.at, 0x22, s->bytes, e))
        goto out;
    two[1].c = c;
    two[1].scratch = scratch;
    for (int i = 0; i < (s->job->quick ? 4 : 20) && !e->code; i++)
        p->gemm(&two[i % 2], 1 + i % 2, e);
    for (int i = 0; i < 2 && !e->code; i++)
        if (!p->sync(e) && !p->get(s->out, two[i].c, s->bytes, e))
            s->bad.streams += differs(s);
out:
    p->release(c);
    p->release(scratch);
    return e->code;
}

static int at_strides(struct steady *s, struct err *e)
{
    static const int pads[][2] = {{8, 2}, {3, 1}, {64, 64}};
    for (int i = 0; i < 3; i++) {
        if (load(s, CUDA_FAST, pads[i][0], pads[i][1], 0, e) || vector_gpu_run(&s->g, &s->c, 0xa5, 0, s->out, e))
            return e->code;
        s->bad.strides += differs(s);
    }
    return OK;
}

static int with_mutant(struct steady *s, struct err *e)
{
    if (s->c.shape.m == 1)
        return OK; /* one row cannot be taken for another */
    if (load(s, CUDA_FAST, 0, 0, 1, e) || vector_gpu_run(&s->g, &s->c, 0xa5, 0, s->out, e))
        return e->code;
    s->bad.mutant += !differs(s);
    return OK;
}

static int one_case(struct steady *s, struct err *e)
{
    int runs = s->job->quick ? 3 : RUNS;
    if (load(s, CUDA_BASELINE, 0, 0, 0, e) || vector_gpu_run(&s->g, &s->c, 0xa5, 0, s->first, e))
        return e->code;
    for (int way = 0; way < WAYS; way++)
        if (repeat(s, (enum cuda_way)way, way == CUDA_FAST ? runs : runs / 10 + 1,
                   way == CUDA_FAST ? &s->bad.runs : &s->bad.ways, e))
            return e->code;
    return in_graph(s, e) || on_streams(s, e) || at_strides(s, e) || with_mutant(s, e) ? e->code : OK;
}

static int set_case(struct steady *s, int i, struct err *e)
{
    s->c = (struct vector_case){.id = "made up", .kind = KIND_CANCEL, .bias = i % 2};
    s->c.shape = (struct gemm_shape){.route = cases[i].route,
                                     .m = cases[i].m,
                                     .n = cases[i].n,
                                     .k = cases[i].k,
                                     .format = cases[i].format,
                                     .act = cases[i].act,
                                     .group = cases[i].group,
                                     .experts = 1,
                                     .topk = 1,
                                     .reduce = cases[i].reduce};
    s->c.group = cases[i].group ? cases[i].group : -1;
    if (plan_make(&s->c.shape, &s->gpu, &s->plan, e))
        return e->code;
    s->c.shape = s->plan.shape;
    s->bytes = (size_t)cases[i].m * (size_t)cases[i].n * 2;
    s->first = malloc(s->bytes);
    s->out = malloc(s->bytes);
    return s->first && s->out ? OK : FAIL(e, E_NOMEM, "outputs: out of memory");
}

static int open_profile(const struct gpu_job *j, struct gpu_profile *gpu, struct err *e)
{
    char path[700];
    snprintf(path, sizeof path, "%s/batteries/gpus/h200.json", j->data_dir);
    return profile_read(path, gpu, e);
}

int gpu_prove_steady(const struct gpu_job *j, json_t **report, struct err *e)
{
    struct steady s = {.job = j, .g = {.part = j->part}};
    int done = 0;
    if (open_profile(j, &s.gpu, e))
        return e->code;
    for (; done < CASES && !e->code; done++) {
        if (!set_case(&s, done, e))
            one_case(&s, e);
        free(s.first);
        free(s.out);
        s.first = s.out = NULL;
        if (j->progress)
            j->progress(j->arg, "cases", done + 1, CASES);
    }
    int failed = s.bad.runs + s.bad.ways + s.bad.graph + s.bad.streams + s.bad.strides + s.bad.mutant;
    *report = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "cases", done, "runs_of_each", j->quick ? 3 : RUNS,
                        "runs_that_differ", s.bad.runs, "ways_that_differ", s.bad.ways, "graph_differs", s.bad.graph,
                        "streams_differ", s.bad.streams, "strides_differ", s.bad.strides, "row_shift_mutant_survived",
                        s.bad.mutant, "failed", failed);
    vector_gpu_free(&s.g);
    profile_free(&s.gpu);
    return e->code;
}

/* ---- atomic adds: not a defect to hide but a table to read ---- */

static float widen(uint16_t h, enum activation act)
{
    return (float)scalar_widen(h, act);
}

struct atomic_row {
    int distinct;
    double most_relative, varying;
};

/* RUNS outputs against the ordered fp32 sum; relative errors where the sum is above a tenth of its rms. */
static void measure(const struct steady *s, const uint16_t *runs, int count, struct atomic_row *r)
{
    size_t n = s->bytes / 2, varying = 0;
    double square = 0;
    for (size_t i = 0; i < n; i++)
        square += (double)widen(s->first[i], s->c.shape.act) * widen(s->first[i], s->c.shape.act);
    double floor2 = square / (double)n / 100;
    for (size_t i = 0; i < n; i++) {
        double want = widen(s->first[i], s->c.shape.act);
        int differs_here = 0;
        for (int k = 0; k < count; k++) {
            double got = widen(runs[(size_t)k * n + i], s->c.shape.act), error = got > want ? got - want : want - got;
            differs_here |= runs[(size_t)k * n + i] != runs[i];
            double size = want < 0 ? -want : want;
            if (want * want > floor2 && error / size > r->most_relative)
                r->most_relative = error / size;
        }
        varying += (size_t)differs_here;
    }
    r->varying = (double)varying / (double)n;
    for (int k = 0; k < count; k++) {
        int seen = 0;
        for (int before = 0; before < k && !seen; before++)
            seen = !memcmp(runs + (size_t)k * n, runs + (size_t)before * n, s->bytes);
        r->distinct += !seen;
    }
}

static int atomic_case(struct steady *s, json_t *rows, struct err *e)
{
    int count = s->job->quick ? 5 : RUNS, slices = 0;
    struct atomic_row r = {0};
    uint16_t *runs = malloc((size_t)count * s->bytes);
    if (!runs)
        return FAIL(e, E_NOMEM, "outputs: out of memory");
    if (plan_make(&s->c.shape, &s->gpu, &s->plan, e) || load(s, CUDA_FAST, 0, 0, 0, e) ||
        vector_gpu_run(&s->g, &s->c, 0xa5, 0, s->first, e))
        goto out;
    s->c.shape.reduce = REDUCE_ATOMIC;
    if (plan_make(&s->c.shape, &s->gpu, &s->plan, e) || load(s, CUDA_FAST, 0, 0, 0, e))
        goto out;
    for (int tile = 0; tile < s->plan.launch[0].R; tile++) {
        int n = plan_slices(&s->plan.launch[0], tile, NULL, 0);
        slices = n > slices ? n : slices;
    }
    for (int i = 0; i < count; i++)
        if (vector_gpu_run(&s->g, &s->c, 0xa5, 0, runs + (size_t)i * s->bytes / 2, e))
            goto out;
    measure(s, runs, count, &r);
    s->bad.runs += slices <= 2 && r.distinct != 1;
    json_array_append_new(rows,
                          json_pack("{s:s,s:i,s:i,s:i,s:i,s:i,s:i,s:f,s:f}", "dtype", activation_name(s->c.shape.act),
                                    "m", s->c.shape.m, "n", s->c.shape.n, "k", s->c.shape.k, "slices", slices, "runs",
                                    count, "distinct_results", r.distinct, "share_of_outputs_that_vary", r.varying,
                                    "largest_relative_error", r.most_relative));
out:
    free(runs);
    return e->code;
}

int gpu_prove_atomic(const struct gpu_job *j, json_t **report, struct err *e)
{
    static const int shapes[][3] = {{1, 1280, 8192}, {16, 1280, 8192}, {1, 1024, 5120}, {1, 768, 4096},
                                    {16, 768, 4096}, {1, 1024, 14336}, {4, 512, 2048},  {4, 1984, 2048}};
    struct steady s = {.job = j, .g = {.part = j->part}};
    json_t *rows = json_array();
    if (open_profile(j, &s.gpu, e))
        return e->code;
    for (int i = 0; i < 2 * 8 && !e->code; i++) {
        const int *x = shapes[i / 2];
        s.c = (struct vector_case){.id = "made up", .kind = KIND_NORM, .group = 128};
        s.c.shape = (struct gemm_shape){.m = x[0],
                                        .n = x[1],
                                        .k = x[2],
                                        .format = WF_U4B8,
                                        .act = (enum activation)(i % 2),
                                        .group = 128,
                                        .experts = 1,
                                        .topk = 1};
        s.bytes = (size_t)x[0] * (size_t)x[1] * 2;
        s.first = malloc(s.bytes);
        if (!s.first)
            FAIL(e, E_NOMEM, "outputs: out of memory");
        else
            atomic_case(&s, rows, e);
        free(s.first);
    }
    *report = json_pack("{s:o,s:i}", "rows", rows, "failed", s.bad.runs);
    vector_gpu_free(&s.g);
    profile_free(&s.gpu);
    return e->code;
}
