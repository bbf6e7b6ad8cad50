/* bench kernels - the GEMM executor against named opponents, in one run and tied to correctness */
#include "harness/base/team.h"
#include "harness/bench/kernels.h"
#include "kernels/panel.h"
#include "tools/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command bench_of_kernels, bench_of_cuda;

static void show(void *arg, const char *what, int done, int total)
{
    tool_progress(arg, what, done, total);
}

static double real(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void print(const json_t *r)
{
    size_t i;
    json_t *o;
    int cpu = !strcmp(json_string_value(json_object_get(r, "clock")), "cpu");
    printf("n %d, k %d, %d threads, median of %d%s", (int)real(r, "n"), (int)real(r, "k"), (int)real(r, "threads"),
           (int)real(r, "runs"), cpu ? ", CPU time" : "");
    if (real(r, "read_gb_s") > 0)
        printf("; this machine reads %.1f GB/s from memory (one thread)", real(r, "read_gb_s"));
    printf("\n\n");
    printf("%-10s %3s  %-9s %8s %8s %7s %8s %8s %7s  %-5s %8s %9s\n", "format", "m", "path", "GMAC/s", "limit",
           "spread", "GB/s", "of read", "B/w", "equal", "x fma", "x openblas");
    json_array_foreach(json_object_get(r, "rows"), i, o)
        printf("%-10s %3d  %-9s %8.2f %8.1f %6.0f%% %8.2f %7.0f%% %7.3f  %-5s %8.2f %9.2f\n",
               json_string_value(json_object_get(o, "format")), (int)real(o, "m"),
               json_string_value(json_object_get(o, "path")), real(o, "gmac_s"), real(o, "limit_gmac_s"),
               100 * real(o, "spread"), real(o, "gb_s"), 100 * real(o, "share_of_read"), real(o, "bytes_per_weight"),
               json_is_true(json_object_get(o, "equal")) ? "yes" : "NO", real(o, "vs_fma"), real(o, "vs_openblas"));
    if (json_array_size(json_object_get(r, "opponents")))
        printf("\nopponents, fp32 weights, same shape (not bit-exact to anything):\n");
    json_array_foreach(json_object_get(r, "opponents"), i, o)
        printf("m %3d  plain fma %8.2f GMAC/s  OpenBLAS sgemm %8.2f GMAC/s\n", (int)real(o, "m"), real(o, "fma_gmac_s"),
               real(o, "openblas_gmac_s"));
    json_array_foreach(json_object_get(r, "absent"), i, o)
        printf("NO_EVIDENCE: %s is not here\n", json_string_value(o));
}

static int all_equal(const json_t *r)
{
    size_t i;
    json_t *o;
    int equal = 1;
    json_array_foreach(json_object_get(r, "rows"), i, o) equal &= json_is_true(json_object_get(o, "equal"));
    return equal;
}

static int run(struct tool *t, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--cuda"))
            return bench_of_cuda.run(t, argc, argv);
    const char *cpu = NULL, *n = "16384", *k = "4096", *runs = "5", *threads = "1", *m = "0";
    const char *path = NULL, *format = NULL, *clock = NULL;
    const struct option_spec spec[] = {{"cpu", NULL, &cpu},
                                       {"n", "N", &n},
                                       {"k", "K", &k},
                                       {"runs", "R", &runs},
                                       {"threads", "T", &threads},
                                       {"m", "M", &m},
                                       {"path", "P", &path},
                                       {"format", "F", &format},
                                       {"cpu-clock", NULL, &clock},
                                       {0}};
    char *words[64];
    int status, count = argc <= 64 ? tool_options(t, &bench_of_kernels, argc, argv, spec, words, &status) : -1;
    struct err e = {0};
    json_t *report = NULL;
    if (count < 0)
        return argc <= 64 ? status : 2;
    struct bench_spec s = {atoi(n), atoi(k),       atoi(runs),  atoi(threads), path, format,
                           atoi(m), clock != NULL, t->data_dir, show,          t};
    if (path && !panel_chain_named(path))
        FAIL(&e, E_USAGE, "--path %s: avx512, avx2 or portable is expected, and this CPU must have it", path);
    else if (count)
        FAIL(&e, E_USAGE, "unexpected word \"%s\"", words[0]);
    else
        bench_kernels(&s, &report, &e);
    if (e.code)
        return tool_fail(t, "bench", &e);
    tool_progress(t, "bench", 1, 1);
    if (t->json) {
        json_dumpf(report, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        print(report);
    }
    status = all_equal(report) ? 0 : 1;
    json_decref(report);
    return status;
}

BENCH(kernels) = {
    .name = "bench kernels",
    .summary = "GEMMs of this CPU against a plain multiply-add and OpenBLAS",
    .usage =
        "usage: assay bench kernels [--cpu] [--n 16384] [--k 4096] [--runs 5] [--threads 1]\n"
        "                     [--path avx512|avx2|portable] [--format nvfp4|mxfp4|u4b8] [--m 1|8|64] [--cpu-clock]\n"
        "       assay bench kernels --cuda       see assay bench cuda --help\n"
        "\nThe executor from packed 4-bit weights larger than the L3 cache, by every instruction set of this CPU, "
        "against a\n"
        "plain fp32 multiply-add GEMM and OpenBLAS sgemm (found at run time). Outputs are poisoned before each "
        "run and\n"
        "compared after: a difference between instruction sets is exit status 1. limit: what reading the "
        "weights once\nat the measured bandwidth of one thread would allow. --path: that instruction set alone, "
        "without opponents.\nOptions: --json.\n",
    .order = 10,
    .run = run,
};
