/* Microseconds of a GEMM: CUDA graph replays over rotating weights that L2 cannot hold, medians, every output hashed.
 */
#include "harness/gpu/gpu.h"

#include "harness/base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES_MOST = 64, REPLAYS_MOST = 400, WARM_UP = 5 };

static const size_t rotated = (size_t)160 << 20; /* bytes of weights between two uses of the same */

struct bench_case {
    enum gemm_route route;
    enum weight_format format;
    enum activation act;
    int group, n, k, m;
    enum gemm_reduce reduce;
};

struct bench {
    const struct gpu_job *job;
    struct gpu_profile gpu;
    double copy_rate;
    char *times; /* the real op's, as CSV */
    json_t *rows;
    int failed, done, total;
    struct cuda_weight weight[COPIES_MOST];
    int copies;
    enum weight_format format; /* of the loaded weights */
    enum activation act;
    int n, k, group;
};

static uint64_t random_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static void free_weights(struct bench *b)
{
    for (int i = 0; i < b->copies; i++)
        b->job->part->weight_free(&b->weight[i]);
    b->copies = 0;
}

/* Scales near one in every format. */
static void random_scales(const struct bench_case *c, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t u = random_at(2, i);
        if (c->format == WF_U4B8)
            ((uint16_t *)out)[i] = (uint16_t)(c->act == ACT_BF16 ? 0x3c00 | (u & 127) : 0x2000 | (u & 1023));
        else
            ((uint8_t *)out)[i] = (uint8_t)(c->format == WF_NVFP4 ? 0xb0 + u % 24 : 118 + u % 4);
    }
}

static int load_weights(struct bench *b, const struct bench_case *c, struct err *e)
{
    size_t codes = (size_t)c->n * (size_t)c->k / 2, scales = (size_t)c->n * (size_t)(c->k / c->group);
    struct packed_weight w = {.format = c->format,
                              .act = c->act,
                              .n = c->n,
                              .k = c->k,
                              .n_used = c->n,
                              .k_used = c->k,
                              .group = c->group,
                              .global = c->act == ACT_BF16 ? 0x1p100f : 1};
    if (b->copies && b->format == c->format && b->act == c->act && b->n == c->n && b->k == c->k)
        return OK;
    free_weights(b);
    uint64_t *words = malloc(codes);
    void *scale = malloc(scales * 2);
    if (!words || !scale)
        FAIL(e, E_NOMEM, "weights: out of memory");
    for (size_t i = 0; !e->code && i < codes / 8; i++)
        words[i] = random_at(1, i);
    if (!e->code)
        random_scales(c, scales, scale);
    w.codes = (const uint16_t *)words;
    w.scales = scale;
    size_t wanted = rotated / (codes + scales) + 1;
    int copies = wanted > COPIES_MOST ? COPIES_MOST : (int)wanted;
    for (b->copies = 0; b->copies < copies && !e->code; b->copies++)
        if (b->job->part->weight_load(&w, 1, &b->weight[b->copies], e))
            break;
    b->format = c->format, b->act = c->act, b->n = c->n, b->k = c->k;
    free(words);
    free(scale);
    return e->code;
}

static int ascending(const void *x, const void *y)
{
    float a = *(const float *)x, b = *(const float *)y;
    return a < b ? -1 : a > b;
}

struct timed {
    double us, low, high;
    struct cuda_launch_facts facts;
    char sha256[SHA256_HEX_SIZE];
};

static int hash_output(struct bench *b, const struct cuda_problem *p, size_t bytes, char *hex, struct err *e)
{
    uint8_t hash[SHA256_BYTES];
    void *host = malloc(bytes);
    if (!host)
        return FAIL(e, E_NOMEM, "outputs: out of memory");
    if (!b->job->part->get(host, p->c, bytes, e)) {
        sha256_of(host, bytes, hash);
        sha256_hex(hash, hex);
    }
    free(host);
    return e->code;
}

static int time_way(struct bench *b, const struct gemm_plan *plan, enum cuda_way way, const uint16_t *a, void *c,
                    struct timed *t, struct err *e)
{
    const struct cuda_part *g = b->job->part;
    const struct gemm_shape *s = &plan->shape;
    static struct cuda_problem p[COPIES_MOST];
    struct cuda_graph *graph = NULL;
    float us[REPLAYS_MOST];
    size_t bytes = (size_t)s->m * (size_t)s->n * 2, scratch = 0;
    int calls = b->copies < 16 && s->m < 256 ? b->copies * (16 / b->copies) : b->copies;
    for (int i = 0; i < calls; i++)
        p[i] = (struct cuda_problem){
            .plan = plan, .w = &b->weight[i % b->copies], .a = a, .lda = s->k, .c = c, .ldc = s->n, .way = way};
    void *memory = NULL;
    scratch = g->scratch_bytes(p);
    if (g->alloc(scratch, &memory, e) || g->fill(memory, 0, scratch, e) || g->fill(c, 0xa5, bytes, e))
        goto out;
    for (int i = 0; i < calls; i++)
        p[i].scratch = memory;
    if (g->facts(p, &t->facts, e) || g->graph_make(p, calls, &graph, e) || g->graph_run(graph, WARM_UP, us, e) ||
        g->graph_run(graph, b->job->replays, us, e) || hash_output(b, p, bytes, t->sha256, e))
        goto out;
    qsort(us, (size_t)b->job->replays, sizeof *us, ascending);
    t->us = us[b->job->replays / 2] / (float)calls;
    t->low = us[0] / (float)calls;
    t->high = us[b->job->replays - 1] / (float)calls;
out:
    g->graph_free(graph);
    g->release(memory);
    return e->code;
}

/* The recorded time of the real op; 0: none. */
static double real_time(const struct bench *b, const struct bench_case *c)
{
    char key[160];
    snprintf(key, sizeof key, "\n%s,%s,%s,%d,%d,%d,%d,%s,", route_name(c->route), format_name(c->format),
             activation_name(c->act), c->group, c->n, c->k, c->m, reduce_name(c->reduce));
    const char *at = b->times ? strstr(b->times, key) : NULL;
    return at ? atof(at + strlen(key)) : 0;
}

static void report_row(struct bench *b, const struct bench_case *c, const char *way, const struct timed *t,
                       double baseline, int equal)
{
    double bytes = (double)b->weight[0].bytes, real = real_time(b, c);
    json_t *row = json_pack("{s:s,s:s,s:s,s:i,s:i,s:i,s:s,s:s}", "route", route_name(c->route), "format",
                            format_name(c->format), "dtype", activation_name(c->act), "n", c->n, "k", c->k, "m", c->m,
                            "reduce", reduce_name(c->reduce), "way", way);
    json_t *figures =
        json_pack("{s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:i,s:i,s:i,s:b,s:s}", "us", t->us, "us_least", t->low, "us_most",
                  t->high, "gb_s", bytes / t->us * 1e-3, "share_of_copy", bytes / t->us * 1e6 / b->copy_rate, "real_us",
                  real, "baseline_us", baseline, "grid", t->facts.grid, "threads", t->facts.threads, "registers",
                  t->facts.registers, "equal", equal, "sha256", t->sha256);
    json_object_update(row, figures);
    json_decref(figures);
    json_array_append_new(b->rows, row);
    b->failed += !equal;
}

static int bench_one(struct bench *b, const struct bench_case *c, struct err *e)
{
    static struct gemm_plan plan;
    const struct cuda_part *g = b->job->part;
    struct timed base = {0}, fast = {0};
    void *a = NULL, *out = NULL;
    size_t cells = (size_t)c->m * (size_t)c->k;
    uint16_t *rows = malloc(cells * 2);
    struct gemm_shape s = {.route = c->route,
                           .m = c->m,
                           .n = c->n,
                           .k = c->k,
                           .format = c->format,
                           .act = c->act,
                           .group = c->group,
                           .experts = 1,
                           .topk = 1,
                           .reduce = c->reduce};
    for (size_t i = 0; rows && i < cells; i++)
        rows[i] = (uint16_t)((c->act == ACT_BF16 ? 0x3e80 : 0x3400) + (random_at(3, i) & 0x81ff));
    if (!rows)
        FAIL(e, E_NOMEM, "rows: out of memory");
    if (e->code || plan_make(&s, &b->gpu, &plan, e) || load_weights(b, c, e) || g->alloc(cells * 2, &a, e) ||
        g->put(a, rows, cells * 2, e) || g->alloc((size_t)c->m * (size_t)c->n * 2, &out, e))
        goto out;
    if (c->reduce == REDUCE_ATOMIC) {
        if (!time_way(b, &plan, CUDA_FAST, a, out, &fast, e))
            report_row(b, c, "atomic", &fast, 0, 1);
    } else if (!time_way(b, &plan, CUDA_BASELINE, a, out, &base, e) &&
               !time_way(b, &plan, CUDA_FAST, a, out, &fast, e)) {
        report_row(b, c, "baseline", &base, base.us, 1);
        report_row(b, c, "fast", &fast, base.us, !strcmp(base.sha256, fast.sha256));
    }
out:
    g->release(a);
    g->release(out);
    free(rows);
    return e->code;
}

static int bench_rows(struct bench *b, struct bench_case c, const int *rows, int count, struct err *e)
{
    if (b->job->only && strcmp(b->job->only, format_name(c.format)))
        return OK;
    for (int i = 0; i < count && !e->code; i++) {
        c.m = rows[i];
        bench_one(b, &c, e);
        if (b->job->progress)
            b->job->progress(b->job->arg, format_name(c.format), ++b->done, 200);
    }
    return e->code;
}

static int small_shapes(struct bench *b, struct err *e)
{
    static const int shapes[][2] = {{1280, 8192}, {1024, 5120}, {768, 4096}, {1024, 14336}, {1536, 8960}};
    static const int rows[] = {1, 16, 64};
    for (int i = 0; i < 5 * 2 && !e->code; i++)
        for (int way = 0; way < 3; way++) {
            enum gemm_route route = way == 1 ? ROUTE_GROUPED : ROUTE_DENSE;
            struct bench_case c = {route,
                                   WF_U4B8,
                                   i % 2 ? ACT_F16 : ACT_BF16,
                                   128,
                                   shapes[i / 2][0],
                                   shapes[i / 2][1],
                                   1,
                                   way == 2 ? REDUCE_ATOMIC : REDUCE_F32};
            bench_rows(b, c, rows, 3, e);
        }
    return e->code;
}

static int nvfp4_shapes(struct bench *b, struct err *e)
{
    static const int shapes[][2] = {{5120, 5120}, {25600, 5120}, {5120, 25600}};
    static const int rows[] = {1, 8, 16, 64};
    for (int i = 0; i < 3 * 2 && !e->code; i++) {
        struct bench_case c = {i % 2 ? ROUTE_GROUPED : ROUTE_DENSE,
                               WF_NVFP4,
                               ACT_BF16,
                               16,
                               shapes[i / 2][0],
                               shapes[i / 2][1],
                               1,
                               REDUCE_F32};
        bench_rows(b, c, rows, 4, e);
    }
    return e->code;
}

static int large_shapes(struct bench *b, struct err *e)
{
    static const int shapes[][2] = {{8192, 8192}, {4096, 14336}, {14336, 4096}};
    static const int rows[] = {1, 8, 16, 64, 256, 2048};
    static const enum weight_format formats[] = {WF_U4B8, WF_NVFP4, WF_MXFP4};
    static const int groups[] = {128, 16, 32};
    for (int i = 0; i < 9 && !e->code; i++) {
        struct bench_case c = {ROUTE_DENSE,      formats[i % 3],   ACT_BF16, groups[i % 3],
                               shapes[i / 3][0], shapes[i / 3][1], 1,        REDUCE_F32};
        bench_rows(b, c, rows, 6, e);
    }
    return e->code;
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "r");
    char *text = calloc(1, 1 << 16);
    if (f && text)
        text[fread(text, 1, (1 << 16) - 1, f)] = 0;
    if (f)
        fclose(f);
    return text;
}

int gpu_bench(const struct gpu_job *j, json_t **report, struct err *e)
{
    static struct bench b;
    char path[700];
    b = (struct bench){.job = j, .rows = json_array()};
    if (j->replays < 1 || j->replays > REPLAYS_MOST)
        return FAIL(e, E_USAGE, "1 to %d replays are possible, not %d", REPLAYS_MOST, j->replays);
    snprintf(path, sizeof path, "%s/batteries/gpus/marlin-h200-times.csv", j->data_dir);
    b.times = read_text(path);
    snprintf(path, sizeof path, "%s/batteries/gpus/h200.json", j->data_dir);
    if (!profile_read(path, &b.gpu, e) && !j->part->copy_bandwidth(&b.copy_rate, e) && !small_shapes(&b, e) &&
        !nvfp4_shapes(&b, e))
        large_shapes(&b, e);
    *report = json_pack("{s:f,s:i,s:o,s:i}", "copy_gb_s", b.copy_rate * 1e-9, "replays", j->replays, "rows", b.rows,
                        "failed", b.failed);
    free_weights(&b);
    profile_free(&b.gpu);
    free(b.times);
    return e->code;
}
