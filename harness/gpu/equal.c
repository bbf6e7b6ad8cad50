/* Every format, type, route and row count of a list: the GPU's bytes against the CPU executor's. */
#include "harness/gpu/gpu.h"

#include "harness/base/team.h"
#include "kernels/gemm.h"
#include "kernels/vectors/gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 256 };

static const int shapes[][2] = {{576, 1536}, {768, 4096}, {1024, 5120}, {1280, 8192}};
static const int row_counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,  11,  12,  13, 14,
                                 15, 16, 17, 31, 33, 48, 63, 64, 65, 100, 129, 200, 256};
static const struct {
    enum weight_format format;
    int group;
} formats[] = {{WF_U4B8, 32}, {WF_U4B8, 64}, {WF_U4B8, 128}, {WF_U4B8, 0}, {WF_NVFP4, 16}, {WF_MXFP4, 32}};

enum {
    SHAPES = sizeof shapes / sizeof *shapes,
    ROW_COUNTS = sizeof row_counts / sizeof *row_counts,
    FORMATS = sizeof formats / sizeof *formats
};

struct equal {
    const struct gpu_job *job;
    struct gpu_profile gpu;
    struct team *team;
    struct vector_inputs in;
    struct vector_packed packed;
    struct cuda_weight weight;
    void *a, *c, *scratch, *cpu_scratch;
    size_t scratch_bytes, cpu_scratch_bytes;
    uint16_t *mine, *theirs;
    json_t *rows;
    long long outputs, mismatches;
    long cases, repacked_wrong;
    char first[256];
};

static int grow(const struct equal *q, size_t need, struct err *e)
{
    struct equal *w = (struct equal *)q;
    if (need <= w->scratch_bytes)
        return OK;
    w->job->part->release(w->scratch);
    w->scratch_bytes = need;
    return w->job->part->alloc(need, &w->scratch, e) || w->job->part->fill(w->scratch, 0, need, e) ? e->code : OK;
}

static int run_cpu(struct equal *q, const struct vector_case *c, const struct gemm_plan *plan, struct err *e)
{
    struct gemm_problem p = {
        .plan = plan, .w = q->packed.w, .a = q->in.a, .lda = c->shape.k, .c = q->mine, .ldc = c->shape.n};
    size_t need = gemm_scratch_bytes(&p, team_members(q->team));
    if (need > q->cpu_scratch_bytes) {
        free(q->cpu_scratch);
        q->cpu_scratch_bytes = (need / 64 + 1) * 64;
        q->cpu_scratch = aligned_alloc(64, q->cpu_scratch_bytes);
    }
    return q->cpu_scratch ? gemm_run(&p, q->cpu_scratch, q->team, e) : FAIL(e, E_NOMEM, "out of memory");
}

static int run_gpu(struct equal *q, const struct vector_case *c, const struct gemm_plan *plan, enum cuda_way way,
                   struct err *e)
{
    const struct cuda_part *g = q->job->part;
    size_t bytes = (size_t)c->shape.m * (size_t)c->shape.n * 2;
    struct cuda_problem p = {
        .plan = plan, .w = &q->weight, .a = q->a, .lda = c->shape.k, .c = q->c, .ldc = c->shape.n, .way = way};
    if (grow(q, g->scratch_bytes(&p), e))
        return e->code;
    p.scratch = q->scratch;
    return g->fill(q->c, 0xff, bytes, e) || g->gemm(&p, 0, e) || g->sync(e) || g->get(q->theirs, q->c, bytes, e)
               ? e->code
               : OK;
}

static void compare(struct equal *q, const struct vector_case *c, const char *way)
{
    size_t n = (size_t)c->shape.m * (size_t)c->shape.n;
    q->outputs += (long long)n;
    q->cases++;
    if (!memcmp(q->mine, q->theirs, 2 * n))
        return;
    for (size_t i = 0; i < n; i++) {
        if (q->mine[i] == q->theirs[i])
            continue;
        if (!q->mismatches++)
            snprintf(q->first, sizeof q->first,
                     "%s %s %s g%d %dx%d m %d, way %s: row %zu column %zu: GPU %04x, CPU %04x",
                     route_name(c->shape.route), format_name(c->shape.format), activation_name(c->shape.act), c->group,
                     c->shape.n, c->shape.k, c->shape.m, way, i / (size_t)c->shape.n, i % (size_t)c->shape.n,
                     q->theirs[i], q->mine[i]);
    }
}

static int one_count(struct equal *q, struct vector_case *c, int m, struct err *e)
{
    static const enum cuda_way ways[] = {CUDA_FAST, CUDA_BASELINE, CUDA_TILES, CUDA_STRIPS};
    static const char *const names[] = {"fast", "baseline", "tiles", "strips"};
    static struct gemm_plan plan;
    for (int route = ROUTE_DENSE; route <= ROUTE_PAR1; route++) {
        c->shape.m = m;
        c->shape.route = (enum gemm_route)route;
        c->shape.block_rows = c->shape.blocks = 0;
        if (plan_make(&c->shape, &q->gpu, &plan, e) || run_cpu(q, c, &plan, e))
            return e->code;
        for (int w = 0; w < 4; w++) {
            if (w && (m + route) % 3 != w % 3) /* the other ways take turns */
                continue;
            if (run_gpu(q, c, &plan, ways[w], e))
                return e->code;
            compare(q, c, names[w]);
        }
    }
    return OK;
}

static int one_problem(struct equal *q, struct vector_case *c, struct err *e)
{
    const struct cuda_part *g = q->job->part;
    long wrong = 0;
    size_t n = (size_t)c->shape.n, k = (size_t)c->shape.k;
    c->shape.m = MOST_ROWS;
    if (vector_inputs_make(c, &q->in, e) || vector_pack(c, &q->in, &q->packed, e) ||
        g->weight_load(q->packed.w, 1, &q->weight, e) || g->weight_check(q->packed.w, &q->weight, &wrong, e) ||
        g->alloc(MOST_ROWS * k * 2, &q->a, e) || g->put(q->a, q->in.a, MOST_ROWS * k * 2, e) ||
        g->alloc(MOST_ROWS * n * 2, &q->c, e))
        goto out;
    q->repacked_wrong += wrong;
    for (int i = 0; i < ROW_COUNTS; i++) {
        if (q->job->quick && i % 6)
            continue;
        if (one_count(q, c, row_counts[i], e))
            goto out;
    }
out:
    vector_unpack(&q->packed, 1);
    q->packed = (struct vector_packed){0};
    c->shape.m = MOST_ROWS;
    vector_inputs_free(c, &q->in);
    g->weight_free(&q->weight);
    g->release(q->a);
    g->release(q->c);
    q->a = q->c = NULL;
    return e->code;
}

/* Every (shape, format, type) with random and with cancelling inputs; a bias with the latter. */
static int all_problems(struct equal *q, struct err *e)
{
    int total = SHAPES * FORMATS * 2 * 2, done = 0;
    for (int i = 0; i < total && !e->code; i++, done++) {
        int s = i % SHAPES, f = i / SHAPES % FORMATS, act = i / SHAPES / FORMATS % 2, kind = i / SHAPES / FORMATS / 2;
        if ((formats[f].format == WF_MXFP4 && act == ACT_F16) || (q->job->quick && (s > 1 || f % 2 != act)))
            continue;
        struct vector_case c = {.id = "made up", .kind = kind ? KIND_CANCEL : KIND_NORM, .bias = kind};
        c.shape = (struct gemm_shape){.n = shapes[s][0],
                                      .k = shapes[s][1],
                                      .format = formats[f].format,
                                      .act = (enum activation)act,
                                      .group = formats[f].group,
                                      .experts = 1,
                                      .topk = 1};
        c.group = formats[f].group ? formats[f].group : -1;
        long long before = q->mismatches, outputs = q->outputs;
        if (one_problem(q, &c, e))
            break;
        json_array_append_new(
            q->rows, json_pack("{s:s,s:s,s:i,s:i,s:i,s:s,s:I,s:I}", "format", format_name(c.shape.format), "dtype",
                               activation_name(c.shape.act), "group", c.group, "n", c.shape.n, "k", c.shape.k, "inputs",
                               kind ? "cancelling" : "random", "outputs", (json_int_t)(q->outputs - outputs),
                               "mismatches", (json_int_t)(q->mismatches - before)));
        if (q->job->progress)
            q->job->progress(q->job->arg, "problems", done, total);
    }
    return e->code;
}

int gpu_prove_equal(const struct gpu_job *j, json_t **report, struct err *e)
{
    struct equal q = {.job = j, .rows = json_array()};
    char path[700];
    size_t most = (size_t)MOST_ROWS * 1280 * 2;
    q.mine = malloc(most);
    q.theirs = malloc(most);
    snprintf(path, sizeof path, "%s/batteries/gpus/h200.json", j->data_dir);
    if (!q.mine || !q.theirs)
        FAIL(e, E_NOMEM, "outputs: out of memory");
    else if (!profile_read(path, &q.gpu, e) && !team_start(team_cpus(), &q.team, e))
        all_problems(&q, e);
    *report = json_pack("{s:i,s:I,s:I,s:i,s:s,s:o,s:b}", "cases", (int)q.cases, "outputs", (json_int_t)q.outputs,
                        "mismatches", (json_int_t)q.mismatches, "repacked_bytes_wrong", (int)q.repacked_wrong, "first",
                        q.first, "problems", q.rows, "failed", q.mismatches || q.repacked_wrong);
    team_stop(q.team);
    profile_free(&q.gpu);
    j->part->release(q.scratch);
    free(q.cpu_scratch);
    free(q.mine);
    free(q.theirs);
    return e->code;
}
