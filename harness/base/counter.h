/* counter - how often something really ran, beside how often it should have: stored with the answer that it was for */
#ifndef ASSAY_BASE_COUNTER_H
#define ASSAY_BASE_COUNTER_H

#include <stdint.h>

#define COUNTERS_MAX 64

struct counter {
    char name[48];
    int64_t ran, expected; /* expected: computed from the requests, -1 when the engine cannot know */
};

/* Adds each of add[adds] to the one of its name in sum[n], or puts it behind; what is not known stays not known.
 * Returns the new n, never more than max. */
int counters_add(struct counter *sum, int n, int max, const struct counter *add, int adds);
/* What `now` has more than `before`, which holds the same names first. Returns now_n. */
int counters_since(const struct counter *now, int now_n, const struct counter *before, int before_n,
                   struct counter *out);

#endif
