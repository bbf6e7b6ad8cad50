/* shards - parts of a run in stores of their own, alone or several processes at once */
#ifndef ASSAY_TOOLS_SHARDS_H
#define ASSAY_TOOLS_SHARDS_H

#include "harness/run/shard.h"
#include "tools/session.h"

/* The session's battery, cut; answers go to `store` (the session's, or another one). Caller frees r. */
int shard_gather(const struct session *s, struct store *store, struct shard shard, int fresh,
                 void (*progress)(void *, int done, int total), void *arg, struct run_result *r, struct err *e);

struct jobs {
    const struct session_spec *spec;
    int jobs, fresh;
    char folder[620]; /* where the shards' stores lie, filled by jobs_gather; for jobs_clear */
    int lock;         /* of that folder, held until jobs_clear or the end of all processes */
};

/* Starts j->jobs processes, one a shard, waits for them and merges what they stored into t's store. What a process that
 * failed or was killed has stored is taken up by the next call. Call it before any thread is started. */
int jobs_gather(const struct tool *t, struct jobs *j, struct err *e);
/* Removes the shards' stores: when the run has its verdict. */
void jobs_clear(struct jobs *j);

#endif
