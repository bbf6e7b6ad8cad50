/* growth - how store, memory and time grow with the number of judged positions, and how long 1,000 shards take to merge
 *
 * Streams are generated from a seed, answered by `replay` and judged by the same code as any run. Each size has a
 * process of its own, so that its largest resident size is its own too.
 */
#ifndef ASSAY_BENCH_GROWTH_H
#define ASSAY_BENCH_GROWTH_H

#include "harness/base/err.h"

#include <jansson.h>
#include <stdint.h>

struct growth_spec {
    const char *folder; /* for the stores; they are removed again */
    int64_t from, to;   /* positions, by tens */
    int64_t battery;    /* positions of one battery; larger sizes are several of them in one store */
    int prompt;         /* tokens of a prompt */
    int top_k;          /* logits a position holds; 0: ids alone */
    int shards;         /* to merge; 0: no merging */
    void (*progress)(void *arg, const char *what, int done, int total);
    void *arg;
};

/* {rows: [{positions, batteries, store_bytes, memory_bytes, seconds, first_s, last_s}], merge: {shards, positions,
 * store_bytes, memory_bytes, seconds}}. first_s and last_s: of the first and of the last battery, scaled to a million
 * positions. E_VOID when a run is not PASS. */
int bench_growth(const struct growth_spec *s, json_t **report, struct err *e);

#endif
