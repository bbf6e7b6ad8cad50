/* bench cuda - the GPU's GEMMs against the plan's own launch and against recorded times of the real operator */
#include "harness/gpu/gpu.h"
#include "tools/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command bench_of_cuda;

static void show(void *arg, const char *what, int done, int total)
{
    tool_progress(arg, what, done, total);
}

static double real(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static const char *text(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static void ratio(double us, double opponent)
{
    if (opponent > 0)
        printf(" %8.2f %6.2f", opponent, opponent / us);
    else
        printf(" %8s %6s", "-", "-");
}

static void print(const struct cuda_device *d, const json_t *r)
{
    size_t i;
    json_t *o;
    printf("%s, %d SMs; a copy moves %.0f GB/s; medians of %d graph replays, weights rotate beyond L2\n\n", d->name,
           d->sms, real(r, "copy_gb_s"), (int)real(r, "replays"));
    printf("%-8s %-6s %-5s %6s %6s %5s %-9s %9s %7s %5s %8s %6s %8s %6s  %5s %4s %4s  %s\n", "route", "format", "dtype",
           "n", "k", "m", "way", "us", "GB/s", "copy", "real us", "ratio", "base us", "ratio", "grid", "thr", "regs",
           "equal");
    json_array_foreach(json_object_get(r, "rows"), i, o)
    {
        double us = real(o, "us");
        printf("%-8s %-6s %-5s %6d %6d %5d %-9s %9.2f %7.0f %4.0f%%", text(o, "route"), text(o, "format"),
               text(o, "dtype"), (int)real(o, "n"), (int)real(o, "k"), (int)real(o, "m"), text(o, "way"), us,
               real(o, "gb_s"), 100 * real(o, "share_of_copy"));
        ratio(us, real(o, "real_us"));
        ratio(us, real(o, "baseline_us"));
        printf("  %5d %4d %4d  %s\n", (int)real(o, "grid"), (int)real(o, "threads"), (int)real(o, "registers"),
               json_is_true(json_object_get(o, "equal")) ? "yes" : "NO");
    }
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *cuda = NULL, *only = NULL, *replays = "50";
    const struct option_spec spec[] = {
        {"cuda", NULL, &cuda}, {"only", "FORMAT", &only}, {"replays", "R", &replays}, {0}};
    struct err e = {0};
    struct cuda_device d;
    struct gpu_job j = {.device = &d, .data_dir = t->data_dir, .progress = show, .arg = t};
    json_t *r = NULL;
    char *words[64];
    int status, count = argc <= 64 ? tool_options(t, &bench_of_cuda, argc, argv, spec, words, &status) : -1;
    if (count < 0)
        return argc <= 64 ? status : 2;
    j.only = only;
    j.replays = atoi(replays);
    if (count)
        FAIL(&e, E_USAGE, "unexpected word \"%s\"", words[0]);
    if (e.code || tool_cuda(&j.part, &d, &e) || gpu_bench(&j, &r, &e)) {
        json_decref(r);
        return tool_fail(t, "bench cuda", &e);
    }
    tool_progress(t, "bench", 1, 1);
    json_object_set_new(r, "gpu", json_string(d.name));
    json_object_set_new(r, "driver", json_integer(d.driver));
    if (t->json) {
        json_dumpf(r, stdout, JSON_COMPACT | JSON_REAL_PRECISION(5));
        putchar('\n');
    } else {
        print(&d, r);
    }
    status = real(r, "failed") > 0;
    json_decref(r);
    return status;
}

BENCH(cuda) = {
    .name = "bench cuda",
    .summary = "GEMMs of the first GPU against the plan's own launch and the real operator's recorded times",
    .usage = "usage: assay bench cuda [--only u4b8|nvfp4|mxfp4] [--replays 50]      (or: assay bench kernels --cuda)\n"
             "\nMedians of CUDA graph replays over weights that rotate beyond L2. Every timed output is hashed; the "
             "fast kernels\n"
             "must give the bytes of the plan's own launch, run beside them: a difference is exit status 1. Without a "
             "GPU:\n"
             "NO_EVIDENCE, exit status 4. Options: --json.\n",
    .order = 12,
    .run = run,
};
