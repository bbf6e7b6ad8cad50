/* names - the place of a name in a list, found at once however long the list is */
#ifndef ASSAY_BASE_NAMES_H
#define ASSAY_BASE_NAMES_H

#include "harness/base/err.h"

struct names {
    struct name_at *slot;
    int size, n;
};

/* The name is borrowed. One that is there already keeps its first place. */
int names_put(struct names *t, const char *name, int place, struct err *e);
/* -1 when it is not there; a zeroed table is empty. */
int names_get(const struct names *t, const char *name);
void names_free(struct names *t); /* zeroed is fine */

#endif
