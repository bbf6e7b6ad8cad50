/* stage - a folder that appears complete or not at all: filled beside its place, then renamed */
#ifndef ASSAY_MODELS_STAGE_H
#define ASSAY_MODELS_STAGE_H

#include "harness/base/err.h"

struct stage {
    char final[768], path[800]; /* path: where files are written until stage_commit */
};

/* Also makes missing parents. E_USAGE when DST exists; what an interrupted attempt left is removed. */
int stage_open(const char *dst, struct stage *s, struct err *e);
int stage_commit(struct stage *s, struct err *e);
void stage_abandon(struct stage *s); /* removes the files; after a commit it does nothing */

/* Makes the folders above PATH. */
int stage_parents(const char *path, struct err *e);

/* Removes a folder and what is in it; one that is not there is fine. */
void stage_remove(const char *path);

/* Byte copy into the stage under the same or another name. */
int stage_copy(const struct stage *s, const char *from, const char *name, struct err *e);
int stage_write(const struct stage *s, const char *name, const void *data, unsigned long bytes, struct err *e);

#endif
