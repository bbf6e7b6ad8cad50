/* estimate - what a run will cost: tokens and multiplications counted, memory and seconds from a dry run on this
 * machine
 *
 * units     MAC: one multiply-add of a linear layer or of attention
 * limits    every prompt is taken to emit all the tokens that its battery allows, and to agree with the golden; each
 *           prompt that does not costs its tokens once more
 */
#ifndef ASSAY_RUN_ESTIMATE_H
#define ASSAY_RUN_ESTIMATE_H

#include "harness/engine.h"
#include "harness/run/shard.h"

struct work {
    int prompts;
    int64_t fed, emitted, forced; /* tokens: prompt ids, decoded ids, ids of the forced prefill */
    double macs;                  /* 0 without a model */
};

/* m NULL: the engine has none, and macs stay 0. */
struct work work_of(const struct battery *b, const struct model *m, int has_logits);

struct estimate {
    struct work all, shard, largest; /* the battery; the shard asked for; the largest of its N (all, without shards) */
    struct work dry;                 /* what the dry run did */
    double dry_seconds;
    int64_t memory_bytes; /* largest resident size so far, dry run included */
};

/* Asks for a few prompts of middle length, as many as the engine answers at once, and stores nothing. */
int estimate_run(struct engine *g, const struct golden *golden, const struct battery *b, const struct model *m,
                 struct shard s, struct estimate *out, struct err *e);
/* Seconds of that work at the dry run's pace. */
double estimate_seconds(const struct estimate *e, const struct work *w);

#endif
