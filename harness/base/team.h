/* team - a few threads that do one thing together, many times a second */
#ifndef ASSAY_BASE_TEAM_H
#define ASSAY_BASE_TEAM_H

#include "harness/base/err.h"

struct team;

typedef void team_fn(void *arg, int member, int members);

/* members includes the caller; 1 starts no thread. Caller stops. */
int team_start(int members, struct team **t, struct err *e);
void team_stop(struct team *t); /* NULL is fine */

/* Runs fn(arg, 0..members-1, members), member 0 in the caller; returns when all are done. NULL: the caller alone. */
void team_run(struct team *t, team_fn *fn, void *arg);
int team_members(const struct team *t); /* NULL: 1 */

/* CPUs this process may use. */
int team_cpus(void);

#endif
