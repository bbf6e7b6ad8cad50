/* merge - one store brought into another, inside a transaction of `to`; private to this folder */
#ifndef ASSAY_GOLDENS_MERGE_H
#define ASSAY_GOLDENS_MERGE_H

#include "goldens/seal.h"

struct merge {
    struct store *to, *from;
    const char *path; /* of from */
    enum merge_into into;
    int64_t goldens, batteries, runs, answers, decisions;
    json_t *conflicts;
};

/* Notes a conflict: with one of them nothing is merged. */
void merge_conflict(struct merge *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What travels as it is. */
int merge_goldens(struct merge *m, struct err *e);
int merge_batteries(struct merge *m, struct err *e);
/* Columns of q as MERGE_RUN_COLUMNS, a finished run. */
int merge_copy_run(struct merge *m, sqlite3_stmt *q, struct err *e);
/* What people signed stays where they signed it; it is counted, so that nobody takes it for merged. */
int merge_count_decisions(struct merge *m, struct err *e);

#define MERGE_RUN_COLUMNS                                                                                              \
    "id, started, finished, model, model_sha256, battery, battery_sha256, golden_sha256, arm, commit_id, verdict,"     \
    " summary, shard"

#endif
