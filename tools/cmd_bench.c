/* bench - finds what is to be measured; each is a file tools/bench_NAME.c */
#include "tools/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *short_name(const struct command *c)
{
    return c->name + strlen("bench ");
}

static int by_order(const void *a, const void *b)
{
    return (*(const struct command *const *)a)->order - (*(const struct command *const *)b)->order;
}

static void print_list(FILE *f)
{
    const struct command *list[32];
    size_t n = 0;
    for (; bench_of_all[n] && n < 32; n++)
        list[n] = bench_of_all[n];
    qsort(list, n, sizeof *list, by_order);
    fputs("usage: assay bench WHAT [options]; `assay bench WHAT --help` explains them\n\n", f);
    for (size_t i = 0; i < n; i++)
        fprintf(f, "  %-10s %s\n", short_name(list[i]), list[i]->summary);
}

static int run(struct tool *t, int argc, char **argv)
{
    for (int i = 0; argc > 1 && bench_of_all[i]; i++)
        if (!strcmp(argv[1], short_name(bench_of_all[i])))
            return bench_of_all[i]->run(t, argc - 1, argv + 1);
    int help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    if (!help && argc > 1)
        fprintf(stderr, "assay bench: \"%s\" cannot be measured\n\n", argv[1]);
    print_list(help ? stdout : stderr);
    return help ? 0 : 2;
}

COMMAND(bench) = {
    .name = "bench",
    .summary = "speed and growth, measured in one run and tied to correctness",
    .usage = "usage: assay bench WHAT [options]; `assay bench --help` lists what can be measured\n",
    .order = 50,
    .run = run,
};
