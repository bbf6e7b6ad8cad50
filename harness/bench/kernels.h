/* kernels - how fast the executor is, against named opponents in the same run; every timed output is checked */
#ifndef ASSAY_BENCH_KERNELS_H
#define ASSAY_BENCH_KERNELS_H

#include "harness/base/err.h"

#include <jansson.h>

struct bench_spec {
    int n, k, runs, threads;
    const char *path;   /* that instruction set alone; NULL: all, and the opponents */
    const char *format; /* that format alone; NULL: all */
    int m;              /* that number of rows alone; 0: all */
    int cpu_clock;      /* CPU seconds over threads, for a machine that does other things too; 0: wall clock */
    const char *data_dir;
    void (*progress)(void *arg, const char *what, int done, int total); /* NULL is fine */
    void *arg;
};

/* {machine, read_gb_s, shape, rows:[{format, m, path, gmac_s, spread, gb_s, share_of_read, limit_gmac_s, equal, vs_fma,
 * vs_openblas}], opponents:[...], absent:[...]}. New reference. */
int bench_kernels(const struct bench_spec *s, json_t **report, struct err *e);

#endif
