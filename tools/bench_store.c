/* bench store - how the store, memory and time grow with what is judged */
#include "harness/bench/growth.h"
#include "tools/bench.h"
#include "tools/growth_svg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const struct command bench_of_store;

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
    const json_t *m = json_object_get(r, "merge");
    size_t i;
    json_t *row;
    printf("batteries of at most %.0f positions, prompts of %.0f tokens, ", real(r, "battery"), real(r, "prompt"));
    real(r, "top_k") > 0 ? printf("the %.0f largest logits of each\n\n", real(r, "top_k")) : puts("ids alone\n");
    printf("%10s %9s %11s %8s %8s %9s %10s %10s\n", "positions", "batteries", "store MiB", "B/pos", "mem MiB", "s",
           "first s/M", "last s/M");
    json_array_foreach(json_object_get(r, "rows"), i, row)
        printf("%10.0f %9.0f %11.2f %8.1f %8.1f %9.2f %10.2f %10.2f\n", real(row, "positions"), real(row, "batteries"),
               real(row, "store_bytes") / (1 << 20), real(row, "store_bytes") / real(row, "positions"),
               real(row, "memory_bytes") / (1 << 20), real(row, "seconds"), real(row, "first_s"), real(row, "last_s"));
    if (json_is_object(m))
        printf("\nmerging %.0f shards of %.0f positions: %.2f s, %.1f MiB of memory, a store of %.2f MiB\n",
               real(m, "shards"), real(m, "positions"), real(m, "seconds"), real(m, "memory_bytes") / (1 << 20),
               real(m, "store_bytes") / (1 << 20));
}

/* "1e6" is a number here too. */
static int number(const char *name, const char *text, double lo, double hi, int64_t *out, struct err *e)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !(v >= lo && v <= hi) || v != (double)(int64_t)v)
        return FAIL(e, E_USAGE, "--%s %s: a whole number from %.0f to %.0f is needed", name, text, lo, hi);
    *out = (int64_t)v;
    return OK;
}

extern const struct command bench_of_logits;

static int run(struct tool *t, int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--logits"))
        return bench_of_logits.run(t, argc - 1, argv + 1);
    const char *growth = NULL, *from = "1e3", *to = "1e7", *battery = "1e4", *prompt = "100", *top_k = "0",
               *shards = "1000", *svg = NULL;
    const struct option_spec spec[] = {{"growth", NULL, &growth},  {"from", "N", &from},     {"to", "N", &to},
                                       {"battery", "N", &battery}, {"prompt", "N", &prompt}, {"top-k", "N", &top_k},
                                       {"shards", "N", &shards},   {"svg", "FILE", &svg},    {0}};
    char **words = calloc((size_t)argc + 1, sizeof *words), folder[600];
    const char *where = getenv("TMPDIR");
    int status = 3, n = words ? tool_options(t, &bench_of_store, argc, argv, spec, words, &status) : -1;
    struct growth_spec s = {.folder = folder, .progress = show, .arg = t};
    int64_t p = 0, k = 0, sh = 0;
    struct err e = {0};
    json_t *report = NULL;
    if (n < 0)
        goto out;
    snprintf(folder, sizeof folder, "%.500s/assay-growth-XXXXXX", where && *where ? where : "/tmp");
    if (n || !growth)
        FAIL(&e, E_USAGE, "--growth is expected");
    else if (number("from", from, 1, 1e9, &s.from, &e) || number("to", to, 1, 1e9, &s.to, &e) ||
             number("battery", battery, 1, 1e7, &s.battery, &e) || number("prompt", prompt, 1, 1e5, &p, &e) ||
             number("top-k", top_k, 0, 64, &k, &e) || number("shards", shards, 0, 1e5, &sh, &e))
        ;
    else if (!mkdtemp(folder))
        FAIL(&e, E_IO, "%s: cannot be made", folder);
    else {
        s.prompt = (int)p, s.top_k = (int)k, s.shards = (int)sh;
        bench_growth(&s, &report, &e);
        rmdir(folder);
    }
    tool_progress(t, "", 1, 1);
    if (!e.code && svg)
        growth_svg(svg, report, &e);
    if (e.code) {
        status = tool_fail(t, "bench", &e);
        goto out;
    }
    status = 0;
    if (t->json) {
        json_dumpf(report, stdout, JSON_COMPACT);
        putchar('\n');
    } else {
        print(report);
    }
out:
    json_decref(report);
    free(words);
    return status;
}

BENCH(store) = {
    .name = "bench store",
    .summary = "growth of store, memory and time with the number of judged positions",
    .usage =
        "usage: assay bench store --growth [--from 1e3] [--to 1e7] [--battery 1e4] [--prompt 100] [--top-k 0]\n"
        "                         [--shards 1000] [--svg FILE]\n"
        "\nGenerated streams go through the engine replay into one store and are judged: sizes by tens, each in a\n"
        "process of its own; a size is as many batteries of --battery positions as it takes. Then --shards stores of\n"
        "two prompts each are merged. Seconds are those of golden, answers, verdict; generating is not counted.\n"
        "s/M: seconds a million positions, of the first and of the last battery of the store. Options: --json.\n",
    .order = 20,
    .run = run,
};
