/* help_golden - small goldens and streams in memory, for tests */
#ifndef ASSAY_TEST_HELP_GOLDEN_H
#define ASSAY_TEST_HELP_GOLDEN_H

#include "harness/base/golden.h"

/* A golden of `prompts` prompts named p0, p1, ... of `n` emitted ids each: position i of prompt p emits 100 + 10 p + i.
 * Row i holds that id at logit 16, the next id (id + 1) at 15.75, then 14.5, 14.25: ULP 0.125. Prefill equals decode.
 * Caller frees. */
struct golden *toy_golden(int prompts, int n);
/* The battery that goes with it: razor 2 ULP, cap 0.5 nat. Caller frees. */
struct battery *toy_battery(const struct golden *g);

/* Value number `slot` of the row (0: the largest). */
float *toy_value(struct view *v, int row, int slot);

/* What the golden itself would answer: its ids, finish and a copy of the view. Caller frees. */
struct stream toy_stream(const struct golden_prompt *p, const struct view *v);

#endif
