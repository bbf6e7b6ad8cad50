#include "harness/bench/kernels.h"

#include "harness/base/sha256.h"
#include "harness/base/team.h"
#include "kernels/gemm.h"
#include "kernels/panel.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RUNS 64

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                      const float *b, int ldb, float beta, float *c, int ldc);

struct bench {
    const struct bench_spec *s;
    struct team *team;
    struct gpu_profile gpu;
    json_t *rows, *absent;
    float *dense; /* [n,k] fp32 weights of the opponents */
    sgemm_fn *sgemm;
    double fma[3], blas[3]; /* GMAC/s by place of m */
    int done;
};

static const int row_counts[3] = {1, 8, 64};

static double now(const struct bench_spec *s)
{
    struct timespec t;
    clock_gettime(s->cpu_clock ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return ((double)t.tv_sec + (double)t.tv_nsec * 1e-9) / (s->cpu_clock ? s->threads : 1);
}

static uint64_t random_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Bytes a second that one pass over a buffer larger than every cache reads. */
static double read_bandwidth(const struct bench_spec *spec)
{
    size_t n = (size_t)32 << 20;
    double *buffer = malloc(n * sizeof *buffer), best = 0, sink = 0;
    for (size_t i = 0; buffer && i < n; i++)
        buffer[i] = (double)i;
    for (int run = 0; buffer && run < 4; run++) {
        double start = now(spec), s[8] = {0};
        for (size_t i = 0; i < n; i += 8)
            for (int j = 0; j < 8; j++)
                s[j] += buffer[i + (size_t)j];
        double rate = (double)(n * sizeof *buffer) / ((now(spec) - start) * (spec->cpu_clock ? spec->threads : 1));
        sink += s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7];
        best = rate > best ? rate : best;
    }
    free(buffer);
    return sink == 1 ? 0 : best;
}

static void random_weights(const struct bench_spec *s, enum weight_format f, int group, struct linear *l)
{
    size_t cells = (size_t)s->n * (size_t)s->k, scales = (size_t)s->n * (size_t)(s->k / group);
    int wide = f == WF_U4B8;
    uint64_t *codes = malloc(cells / 2 + 8);
    uint8_t *scale = malloc(scales * 2);
    for (size_t i = 0; i < cells / 16; i++)
        codes[i] = random_at(1, i);
    for (size_t i = 0; i < scales; i++) {
        uint64_t u = random_at(2, i);
        if (wide)
            ((uint16_t *)(void *)scale)[i] = (uint16_t)(0x3c00 | (u & 127));
        else
            scale[i] = f == WF_NVFP4 ? (uint8_t)(0x50 + u % 24) : (uint8_t)(118 + u % 4);
    }
    *l = (struct linear){.n = s->n,
                         .k = s->k,
                         .group = group,
                         .format = f,
                         .packing = wide ? PACK_WORDS : PACK_BYTES,
                         .global_scale = 1000};
    l->weight = (struct tensor){"codes", DT_U8, 1, {(int64_t)cells / 2}, codes, cells / 2};
    l->scale = (struct tensor){"scales", wide ? DT_BF16 : DT_U8, 1, {(int64_t)scales}, scale, scales * (wide ? 2 : 1)};
}

struct timed {
    struct gemm_problem p;
    struct gemm_plan plan;
    void *scratch;
    size_t bytes;
};

/* Median seconds; the output is poisoned before every run and hashed after the last. */
static double time_gemm(struct bench *b, struct timed *t, double *spread, uint8_t hash[SHA256_BYTES], struct err *e)
{
    double seconds[MAX_RUNS];
    for (int i = 0; i < b->s->runs; i++) {
        memset(t->p.c, 0xa5, t->bytes);
        double start = now(b->s);
        if (gemm_run(&t->p, t->scratch, b->team, e))
            return 0;
        seconds[i] = now(b->s) - start;
    }
    sha256_of(t->p.c, t->bytes, hash);
    qsort(seconds, (size_t)b->s->runs, sizeof *seconds, ascending);
    *spread = seconds[b->s->runs - 1] / seconds[0] - 1;
    return seconds[b->s->runs / 2];
}

static int bench_rows(struct bench *b, const struct packed_weight *w, const char *format, double bytes, double read,
                      struct err *e)
{
    static const char *const paths[] = {"avx512", "avx2", "portable"};
    for (int i = 0; i < 3; i++) {
        int m = row_counts[i], have = 0;
        if (b->s->m && b->s->m != m)
            continue;
        uint8_t first[SHA256_BYTES];
        uint16_t *a = malloc((size_t)m * (size_t)w->k * 2);
        struct timed t = {.bytes = (size_t)m * (size_t)w->n_used * 2};
        struct gemm_shape shape = {.route = ROUTE_DENSE,
                                   .m = m,
                                   .n = w->n,
                                   .k = w->k,
                                   .format = w->format,
                                   .act = w->act,
                                   .group = w->group,
                                   .experts = 1,
                                   .topk = 1};
        for (int j = 0; j < m * w->k; j++)
            a[j] = (uint16_t)(0x3e80 + (random_at(3, (uint64_t)j) & 0x81ff)); /* +-0.25 to 4 */
        if (plan_make(&shape, &b->gpu, &t.plan, e))
            return e->code;
        t.p =
            (struct gemm_problem){.plan = &t.plan, .w = w, .a = a, .lda = w->k, .c = malloc(t.bytes), .ldc = w->n_used};
        size_t scratch = gemm_scratch_bytes(&t.p, team_members(b->team));
        t.scratch = aligned_alloc(64, (scratch + 63) / 64 * 64);
        for (int path = 0; path < 3; path++) {
            double spread = 0, gmac = (double)m * w->n * w->k * 1e-9;
            uint8_t hash[SHA256_BYTES];
            if (b->s->progress)
                b->s->progress(b->s->arg, format, b->done++, 27);
            if ((b->s->path && strcmp(b->s->path, paths[path])) || !panel_choose(paths[path]) ||
                (path == 2 && m > 8)) /* portable code at 64 rows tells nothing new */
                continue;
            double s = time_gemm(b, &t, &spread, hash, e);
            if (e->code)
                return e->code;
            if (!have++)
                memcpy(first, hash, sizeof first);
            json_array_append_new(b->rows,
                                  json_pack("{s:s,s:i,s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:b,s:f,s:f}", "format", format, "m",
                                            m, "path", paths[path], "gmac_s", gmac / s, "spread", spread, "gb_s",
                                            bytes / s * 1e-9, "share_of_read", read > 0 ? bytes / s / read : 0,
                                            "limit_gmac_s", gmac * read / bytes, "bytes_per_weight",
                                            bytes / ((double)w->n * w->k), "equal", !memcmp(first, hash, sizeof first),
                                            "vs_fma", b->fma[i] > 0 ? gmac / s / b->fma[i] : 0, "vs_openblas",
                                            b->blas[i] > 0 ? gmac / s / b->blas[i] : 0));
        }
        panel_choose(NULL);
        free(a);
        free(t.p.c);
        free(t.scratch);
    }
    return OK;
}

static int bench_format(struct bench *b, enum weight_format f, int group, const char *name, double read, struct err *e)
{
    struct linear l;
    struct packed_weight w;
    if (b->s->format && strncmp(name, b->s->format, strlen(b->s->format)))
        return OK;
    random_weights(b->s, f, group, &l);
    struct weight_source s = {.part = {&l}, .parts = 1};
    size_t bytes = weight_bytes(&s, 0);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    int rc = memory ? weight_pack(&s, ACT_BF16, 0, memory, &w, e) : FAIL(e, E_NOMEM, "out of memory");
    if (!rc)
        rc = bench_rows(b, &w, name, (double)bytes, read, e);
    free(memory);
    free((void *)(size_t)l.weight.data);
    free((void *)(size_t)l.scale.data);
    return rc;
}

/* The opponent of this house: fp32 multiply and add, as plain as it gets. */
static void plain_fma(const float *w, const float *a, float *c, int m, int n, int k)
{
    for (int row = 0; row < n; row++)
        for (int i = 0; i < m; i++) {
            float s[16] = {0};
            for (int j = 0; j < k; j += 16)
                for (int lane = 0; lane < 16; lane++)
                    s[lane] +=
                        w[(size_t)row * (size_t)k + (size_t)(j + lane)] * a[(size_t)i * (size_t)k + (size_t)(j + lane)];
            float sum = 0;
            for (int lane = 0; lane < 16; lane++)
                sum += s[lane];
            c[(size_t)i * (size_t)n + (size_t)row] = sum;
        }
}

static void bench_opponents(struct bench *b)
{
    const struct bench_spec *s = b->s;
    size_t cells = (size_t)s->n * (size_t)s->k;
    float *w = malloc(cells * sizeof *w), *a = malloc((size_t)64 * (size_t)s->k * sizeof *a),
          *c = malloc((size_t)64 * (size_t)s->n * sizeof *c);
    for (size_t i = 0; w && i < cells; i++)
        w[i] = (float)(random_at(1, i) & 255) - 127;
    for (int i = 0; a && i < 64 * s->k; i++)
        a[i] = (float)(random_at(3, (uint64_t)i) & 255) - 127;
    for (int i = 0; w && a && c && i < 3; i++)
        for (int blas = 0; blas < 1 + (b->sgemm != NULL); blas++) {
            double seconds[MAX_RUNS];
            for (int r = 0; r < s->runs; r++) {
                double start = now(s);
                if (blas)
                    b->sgemm(101, 111, 112, row_counts[i], s->n, s->k, 1, a, s->k, w, s->k, 0, c, s->n);
                else
                    plain_fma(w, a, c, row_counts[i], s->n, s->k);
                seconds[r] = now(s) - start;
            }
            qsort(seconds, (size_t)s->runs, sizeof *seconds, ascending);
            (blas ? b->blas : b->fma)[i] = (double)row_counts[i] * (double)cells / seconds[s->runs / 2] * 1e-9;
        }
    free(w);
    free(a);
    free(c);
}

static void find_openblas(struct bench *b)
{
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    void (*set_threads)(int) = NULL;
    if (library) {
        *(void **)&b->sgemm = dlsym(library, "cblas_sgemm");
        *(void **)&set_threads = dlsym(library, "openblas_set_num_threads");
    }
    if (set_threads)
        set_threads(b->s->threads);
    if (!b->sgemm)
        json_array_append_new(b->absent, json_string("OpenBLAS (apt-get install libopenblas0)"));
    json_array_append_new(b->absent, json_string("ggml (no Debian package here)"));
}

int bench_kernels(const struct bench_spec *s, json_t **report, struct err *e)
{
    struct bench b = {.s = s, .rows = json_array(), .absent = json_array()};
    char path[800];
    json_t *opponents = json_array();
    double read = s->path ? 0 : read_bandwidth(s);
    if (s->runs < 1 || s->runs > MAX_RUNS || s->n % 256 || s->k % 128 || s->n < 256 || s->k < 128)
        return FAIL(e, E_USAGE, "n must be a multiple of 256, k of 128, runs 1 to %d", MAX_RUNS);
    snprintf(path, sizeof path, "%s/batteries/gpus/h200.json", s->data_dir);
    if (profile_read(path, &b.gpu, e) || team_start(s->threads, &b.team, e))
        return e->code;
    if (!s->path) {
        find_openblas(&b);
        bench_opponents(&b);
    }
    for (int i = 0; i < 3 && !s->path; i++)
        json_array_append_new(opponents, json_pack("{s:i,s:f,s:f}", "m", row_counts[i], "fma_gmac_s", b.fma[i],
                                                   "openblas_gmac_s", b.blas[i]));
    if (!bench_format(&b, WF_NVFP4, 16, "nvfp4", read, e) && !bench_format(&b, WF_MXFP4, 32, "mxfp4", read, e))
        bench_format(&b, WF_U4B8, 128, "u4b8 g128", read, e);
    team_stop(b.team);
    profile_free(&b.gpu);
    *report = json_pack("{s:s,s:i,s:i,s:i,s:i,s:f,s:o,s:o,s:o}", "clock", s->cpu_clock ? "cpu" : "wall", "n", s->n, "k",
                        s->k, "threads", s->threads, "runs", s->runs, "read_gb_s", read * 1e-9, "opponents", opponents,
                        "rows", b.rows, "absent", b.absent);
    return e->code;
}
