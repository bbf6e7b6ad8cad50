/* decode - tokens a second of several arms, measured in turns and tied to the tokens themselves
 *
 * Each arm lives in a process of its own, so that its memory is its own; the arms take turns, run by run. The tokens of
 * every timed answer are compared with those of an untimed one. What else ran on the machine meanwhile is measured, not
 * guessed: CPU time that was used and not by the arm, time stolen by a hypervisor, and the spread of the runs.
 */
#ifndef ASSAY_BENCH_DECODE_H
#define ASSAY_BENCH_DECODE_H

#include "harness/engine.h"

#define DECODE_ARMS  8
#define DECODE_SIZES 8
#define DECODE_RUNS  32

struct decode_arm {
    const char *label;
    char *const *words; /* flag=value */
    int n;
};

struct decode_spec {
    const char *engine, *data_dir;
    const struct model *model;
    const struct battery *battery;
    const struct golden *golden; /* NULL is fine: then nothing is said about the oracle's tokens */
    struct decode_arm arm[DECODE_ARMS];
    int arms, size[DECODE_SIZES], sizes; /* batch sizes */
    int runs, tokens, threads;
    int cpu_clock;                  /* tokens a second of CPU time: for machines that do other things too */
    double max_foreign, max_spread; /* above these the measurement is void; shares */
    void (*progress)(void *arg, int done, int total); /* NULL is fine */
    void *arg;
};

/* {clock, runs, tokens, arms:[{arm, label, memory_bytes, weight_bytes}], rows:[{label, size, tokens_s, spread, foreign,
 * tokens_stable, golden, ratio}], void: null or why}. ratio: to the first arm. New reference. */
int bench_decode(const struct decode_spec *s, json_t **report, struct err *e);

/* Pure, for the report and its tests: median and (largest - smallest) / median. */
double bench_median(const double *x, int n);
double bench_spread(const double *x, int n);

#endif
