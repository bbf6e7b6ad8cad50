/* cuda - the GPU kernels put to the proof: against the CPU executor, and against themselves */
#include "harness/gpu/gpu.h"
#include "tools/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct command command_cuda;

static void show(void *arg, const char *what, int done, int total)
{
    tool_progress(arg, what, done, total);
}

typedef int proof_fn(const struct gpu_job *j, json_t **report, struct err *e);

static const struct proof {
    const char *name, *what;
    proof_fn *run;
} proofs[] = {
    {"equal", "GPU = CPU executor, every format, route and row count of a list", gpu_prove_equal},
    {"steady", "100 runs, arrangements, graphs, streams, poison, strides; a row-shifted stride fails",
     gpu_prove_steady},
    {"atomic", "atomic adds: distinct results and relative error; two slices are deterministic", gpu_prove_atomic},
};
enum { PROOFS = sizeof proofs / sizeof *proofs };

static void print(const struct proof *p, const json_t *r)
{
    const char *key;
    json_t *x;
    printf("%s %s: %s\n",
           json_integer_value(json_object_get(r, "failed")) || json_is_true(json_object_get(r, "failed")) ? "FAIL"
                                                                                                          : "PASS",
           p->name, p->what);
    json_object_foreach((json_t *)(size_t)r, key, x)
    {
        if (json_is_integer(x))
            printf("  %-28s %lld\n", key, (long long)json_integer_value(x));
        if (json_is_string(x) && *json_string_value(x))
            printf("  %-28s %s\n", key, json_string_value(x));
    }
    size_t i;
    json_array_foreach(json_object_get(r, "rows"), i, x)
    {
        char *line = json_dumps(x, JSON_COMPACT | JSON_REAL_PRECISION(4));
        printf("  %s\n", line);
        free(line);
    }
}

static json_t *about(const struct cuda_device *d)
{
    return json_pack("{s:s,s:i,s:i,s:i,s:i}", "name", d->name, "sm", d->sm, "sms", d->sms, "driver", d->driver,
                     "runtime", d->runtime);
}

static int failed(const json_t *r)
{
    const json_t *f = json_object_get(r, "failed");
    return json_is_true(f) || json_integer_value(f) > 0;
}

static int run(struct tool *t, int argc, char **argv)
{
    const char *quick = NULL;
    const struct option_spec spec[] = {{"quick", NULL, &quick}, {0}};
    char *words[64];
    int status = 0, n = argc <= 64 ? tool_options(t, &command_cuda, argc, argv, spec, words, &status) : -1, bad = 0;
    struct err e = {0};
    struct cuda_device d;
    struct gpu_job j = {.device = &d, .data_dir = t->data_dir, .quick = quick != NULL, .progress = show, .arg = t};
    if (n < 0)
        return argc <= 64 ? status : 2;
    const char *only = n > 1 ? words[1] : NULL;
    int known = !only;
    for (int i = 0; i < PROOFS && only; i++)
        known |= !strcmp(only, proofs[i].name);
    if (n < 1 || n > 2 || strcmp(words[0], "prove") || !known)
        FAIL(&e, E_USAGE, "prove [equal|steady|atomic] is expected");
    if (e.code || tool_cuda(&j.part, &d, &e))
        return tool_fail(t, "cuda", &e);
    json_t *all = json_pack("{s:o}", "gpu", about(&d));
    for (int i = 0; i < PROOFS && !e.code; i++) {
        json_t *r = NULL;
        if (only && strcmp(only, proofs[i].name))
            continue;
        proofs[i].run(&j, &r, &e);
        bad += r && failed(r);
        if (r && !t->json && !e.code)
            print(&proofs[i], r);
        json_object_set_new(all, proofs[i].name, r ? r : json_null());
    }
    tool_progress(t, "proofs", 1, 1);
    if (t->json && !e.code) {
        json_dumpf(all, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
        putchar('\n');
    }
    json_decref(all);
    return e.code ? tool_fail(t, "cuda", &e) : bad ? 1 : 0;
}

COMMAND(cuda) = {
    .name = "cuda",
    .summary = "the GPU kernels against the CPU executor and against themselves",
    .usage =
        "usage: assay cuda prove [equal|steady|atomic] [--quick]\n"
        "\n"
        "equal   every format, type, route and arrangement, 1 to 256 rows: bytes against the CPU executor\n"
        "steady  100 runs, graph replays, two streams, poisoned outputs, odd strides: the bytes stay; a kernel that\n"
        "        reads rows at a shifted stride is seen to fail\n"
        "atomic  how often atomic adds give another result, and how far from the ordered fp32 sum\n"
        "\n"
        "--quick does a tenth, for memory checkers. Options: --json.\n"
        "Exit status: 0 all hold, 1 one does not, 4 no GPU or no CUDA part (make cuda).\n",
    .order = 61,
    .run = run,
};
