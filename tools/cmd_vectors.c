/* vectors - runs recorded cases of the real kernels on this machine's CPU or GPU and compares every output byte */
#include "kernels/vectors/gpu.h"
#include "tools/command.h"

#include "harness/base/mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static const char usage[] =
    "usage: assay vectors CASES.jsonl [--raw FILE[.zst]] [--build sm90|ptx80] [--limit-macs N] [--scalar]\n"
    "                     [--engine cpu|cuda] [--way fast|strips|tiles|baseline] [--json]\n"
    "\n"
    "Makes the inputs of each case again, plans, runs, and compares the SHA-256 of all outputs with the recorded one.\n"
    "  --raw FILE       recorded output bytes: a mismatch shows its first differing element\n"
    "  --build B        which recorded build; the GPU profile follows: ptx80 = h200 (default), sm90 = h200-native\n"
    "  --limit-macs N   leave out cases of more than N multiply-adds (counted as left out)\n"
    "  --engine E       cpu (default), or cuda: the kernels of this project on the first GPU\n"
    "  --way W          how the GPU arranges the plan's sums; the bytes are the same (default fast)\n"
    "  --scalar         the slow reference executor instead of the fast one (atomic adds always take it)\n"
    "\n"
    "A case that cannot be run or has no single recorded result is NO_EVIDENCE, never a pass.\n"
    "Exit status: 0 all equal, 1 a mismatch, 4 nothing could be compared or no GPU.\n";

struct totals {
    long cases, compared, mismatches, absent, left_out, other_build, by_scalar;
    long long outputs;
};

struct vectors {
    struct tool *tool;
    const char *path;
    enum vector_build build;
    struct gpu_profile gpu;
    struct team *team;
    uint8_t *raw; /* NULL: none */
    size_t raw_bytes;
    long long limit;
    int scalar;
    struct vector_gpu gpu_case; /* part NULL: the CPU runs */
    struct vector_gpu_way way;
    struct totals sum;
};

static void report(struct vectors *v, const char *verdict, const char *id, const char *text)
{
    if (v->tool->json) {
        json_t *o = json_pack("{s:s,s:s,s:s}", "verdict", verdict, "case", id, "text", text);
        json_dumpf(o, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(o);
    } else {
        printf("%s %s: %s\n", verdict, id, text);
    }
}

static void report_mismatch(struct vectors *v, const struct vector_case *c, const uint16_t *got)
{
    char text[256];
    size_t n = (size_t)c->raw_bytes / 2;
    int usable = c->raw_bytes && (size_t)(c->raw_offset + c->raw_bytes) <= v->raw_bytes &&
                 (v->build == BUILD_SM90 || c->raw_is_ptx80);
    snprintf(text, sizeof text, "the SHA-256 of the outputs differs (%s build, profile %s)",
             vector_build_name(v->build), v->gpu.name);
    for (size_t i = 0; v->raw && usable && i < n; i++) {
        uint16_t want;
        memcpy(&want, v->raw + c->raw_offset + 2 * i, 2);
        if (want == got[i])
            continue;
        snprintf(text, sizeof text, "row %zu column %zu: got %04x, recorded %04x; the first difference of %zu outputs",
                 i / (size_t)c->shape.n, i % (size_t)c->shape.n, got[i], want, n);
        break;
    }
    report(v, "FAIL", c->id, text);
}

static int run_one(struct vectors *v, const struct vector_case *c, uint16_t *out, size_t n, struct err *e)
{
    static struct gemm_plan plan;
    struct vector_inputs in;
    if (plan_make(&c->shape, &v->gpu, &plan, e) || vector_launches_check(c, v->build, &plan, e) ||
        vector_inputs_make(c, &in, e))
        return e->code;
    memset(out, 0xa5, 2 * n);
    int by_scalar = v->scalar || c->shape.reduce == REDUCE_ATOMIC; /* only the scalar executor knows atomic tiles */
    v->sum.by_scalar += by_scalar;
    if (by_scalar)
        vector_run_scalar(c, &in, &plan, NULL, out, e);
    else
        vector_run(c, &in, &plan, v->team, out, e);
    vector_inputs_free(c, &in);
    return e->code;
}

static int compare_one(struct vectors *v, const struct vector_case *c, struct err *e)
{
    struct err local = {0};
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE];
    size_t n = (size_t)c->shape.m * (size_t)c->shape.topk * (size_t)c->shape.n;
    v->sum.cases++;
    if (!c->has[v->build]) {
        v->sum.other_build++;
        return OK;
    }
    if (v->limit && (long long)n * c->shape.k > v->limit) {
        v->sum.left_out++;
        return OK;
    }
    if (!c->sha256[v->build][0]) {
        v->sum.absent++;
        return OK;
    }
    uint16_t *out = malloc(2 * n);
    if (!out)
        return FAIL(e, E_NOMEM, "%s: outputs: out of memory", c->id);
    if (run_one(v, c, out, n, &local)) {
        int wrong = local.code == E_INTERNAL || local.code == E_ENGINE;
        *(wrong ? &v->sum.mismatches : &v->sum.absent) += 1;
        report(v, wrong ? "FAIL" : "NO_EVIDENCE", c->id, local.text);
    } else {
        v->sum.compared++;
        v->sum.outputs += (long long)n;
        sha256_of(out, 2 * n, hash);
        sha256_hex(hash, hex);
        if (strcmp(hex, c->sha256[v->build])) {
            v->sum.mismatches++;
            report_mismatch(v, c, out);
        }
    }
    free(out);
    return OK;
}

static int run_file(struct vectors *v, struct err *e)
{
    struct mapped m;
    static struct vector_case c;
    if (mapped_open(v->path, &m, e))
        return e->code;
    const char *p = m.data, *end = p + m.bytes;
    int line = 0;
    while (p < end && !e->code) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((stop ? stop : end) - p);
        line++;
        if (length && !vector_case_parse(p, length, v->path, line, &c, e))
            compare_one(v, &c, e);
        p += length + 1;
        tool_progress(v->tool, "bytes of cases", (long)(p - (const char *)m.data), (long)m.bytes);
    }
    mapped_close(&m);
    return e->code;
}

static int read_raw(struct vectors *v, const char *path, struct err *e)
{
    struct mapped m;
    if (mapped_open(path, &m, e))
        return e->code;
    unsigned long long size = ZSTD_getFrameContentSize(m.data, m.bytes);
    int packed = size != ZSTD_CONTENTSIZE_ERROR;
    v->raw_bytes = packed ? (size_t)size : m.bytes;
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || v->raw_bytes > 1u << 30)
        FAIL(e, E_INPUT, "%s: a zstd frame must state its size, 1 GiB at most", path);
    else if (!(v->raw = malloc(v->raw_bytes + 1)))
        FAIL(e, E_NOMEM, "%s: out of memory", path);
    else if (!packed)
        memcpy(v->raw, m.data, m.bytes);
    else if (ZSTD_decompress(v->raw, v->raw_bytes, m.data, m.bytes) != v->raw_bytes)
        FAIL(e, E_INPUT, "%s: the zstd data are damaged", path);
    mapped_close(&m);
    return e->code;
}

static int finish(struct vectors *v)
{
    const struct totals *s = &v->sum;
    int status = s->mismatches ? 1 : s->compared ? 0 : 4;
    const char *verdict = status == 1 ? "FAIL" : status ? "NO_EVIDENCE" : "PASS";
    if (v->tool->json)
        printf(
            "{\"verdict\":\"%s\",\"profile\":\"%s\",\"build\":\"%s\",\"cases\":%ld,\"compared\":%ld,\"outputs\":%lld,"
            "\"engine\":\"%s\",\"mismatches\":%ld,\"no_evidence\":%ld,\"left_out\":%ld,\"other_build\":%ld,\"by_"
            "scalar\":%ld}\n",
            verdict, v->gpu.name, vector_build_name(v->build), s->cases, s->compared, s->outputs,
            v->gpu_case.part ? "cuda" : "cpu", s->mismatches, s->absent, s->left_out, s->other_build, s->by_scalar);
    else
        printf("%s: %ld cases, %ld compared, %lld outputs, %ld mismatches; NO_EVIDENCE %ld, over the limit %ld, "
               "other build only %ld; by the scalar executor %ld (profile %s, build %s%s)\n",
               verdict, s->cases, s->compared, s->outputs, s->mismatches, s->absent, s->left_out, s->other_build,
               s->by_scalar, v->gpu.name, vector_build_name(v->build), v->gpu_case.part ? ", on the GPU" : "");
    return status;
}

static int options(struct vectors *v, const char *build, const char *limit, struct err *e)
{
    char path[600], *end = NULL;
    int b = build ? vector_build_by_name(build) : BUILD_PTX80;
    if (b < 0)
        return FAIL(e, E_USAGE, "--build %s: sm90 or ptx80 is expected", build);
    v->build = (enum vector_build)b;
    v->limit = limit ? strtoll(limit, &end, 10) : 0;
    if (limit && (*end || v->limit < 1))
        return FAIL(e, E_USAGE, "--limit-macs %s: a positive number is expected", limit);
    snprintf(path, sizeof path, "%s/batteries/gpus/%s.json", v->tool->data_dir,
             b == BUILD_SM90 ? "h200-native" : "h200");
    return profile_read(path, &v->gpu, e);
}

static int choose_engine(struct vectors *v, const char *engine, const char *way, struct err *e)
{
    static const char *const ways[] = {"fast", "strips", "tiles", "baseline"};
    struct cuda_device d;
    int cuda = engine && !strcmp(engine, "cuda"), i = 0;
    if (engine && !cuda && strcmp(engine, "cpu"))
        return FAIL(e, E_USAGE, "--engine %s: cpu or cuda is expected", engine);
    while (way && i < 4 && strcmp(way, ways[i]))
        i++;
    if (i == 4)
        return FAIL(e, E_USAGE, "--way %s: fast, strips, tiles or baseline is expected", way);
    v->way.way = (enum cuda_way)i;
    if (cuda && v->scalar)
        return FAIL(e, E_USAGE, "--scalar belongs to --engine cpu");
    return cuda ? tool_cuda(&v->gpu_case.part, &d, e) : OK;
}

static int run(struct tool *t, int argc, char **argv);

COMMAND(vectors) = {.name = "vectors",
                    .summary = "kernels against recorded outputs of the real ones",
                    .usage = usage,
                    .order = 60,
                    .run = run};

static int run(struct tool *t, int argc, char **argv)
{
    const char *raw = NULL, *build = NULL, *limit = NULL, *scalar = NULL, *engine = NULL, *way = NULL;
    const struct option_spec spec[] = {{"raw", "FILE", &raw},
                                       {"build", "B", &build},
                                       {"limit-macs", "N", &limit},
                                       {"scalar", NULL, &scalar},
                                       {"engine", "E", &engine},
                                       {"way", "W", &way},
                                       {0}};
    struct err e = {0};
    int status;
    char **words = calloc((size_t)argc + 1, sizeof *words);
    struct vectors v = {.tool = t};
    if (!words)
        return 3;
    int n = tool_options(t, &command_vectors, argc, argv, spec, words, &status);
    if (n < 0)
        goto out;
    v.path = words[0];
    v.scalar = scalar != NULL;
    if (n != 1)
        FAIL(&e, E_USAGE, "one file of cases is expected, %d were given", n);
    if (e.code || options(&v, build, limit, &e) || choose_engine(&v, engine, way, &e) ||
        (raw && read_raw(&v, raw, &e)) || team_start(team_cpus(), &v.team, &e) || run_file(&v, &e))
        status = tool_fail(t, "vectors", &e);
    else
        status = finish(&v);
out:
    vector_gpu_free(&v.gpu_case);
    team_stop(v.team);
    profile_free(&v.gpu);
    free(v.raw);
    free(words);
    return status;
}
