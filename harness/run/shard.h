/* shard - the part I/N of a battery, by the hash of each prompt
 *
 * Where a prompt goes depends on its name, its ids and N alone: not on its neighbours, nor on their order. It is stable
 * when N changes: from N to N+1 shards a prompt stays, or goes to the new shard N+1, and about one in N+1 does (the
 * jump consistent hash of Lamping and Veach). So answers of shards cut with another N overlap and never contradict.
 */
#ifndef ASSAY_RUN_SHARD_H
#define ASSAY_RUN_SHARD_H

#include "harness/base/golden.h"

#define SHARDS_MAX 100000

struct shard {
    int i, n; /* 1 <= i <= n; n 0: the whole battery */
};

/* "I/N". E_USAGE says what is wrong. */
int shard_parse(const char *text, struct shard *s, struct err *e);
/* 1..n */
int shard_of(const struct battery_prompt *p, int n);
/* A battery of that shard's prompts, which borrows everything of b; it may be empty. Caller frees part->prompt alone.
 */
int shard_cut(const struct battery *b, struct shard s, struct battery *part, struct err *e);

#endif
