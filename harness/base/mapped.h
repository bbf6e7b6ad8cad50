/* mapped - a file as read-only memory */
#ifndef ASSAY_BASE_MAPPED_H
#define ASSAY_BASE_MAPPED_H

#include "harness/base/err.h"

#include <stddef.h>

struct mapped {
    const void *data; /* never NULL after a successful open, also for an empty file */
    size_t bytes;
    int owned; /* internal: pages to unmap */
};

/* E_MISSING when there is no such file, E_IO otherwise. Caller closes. */
int mapped_open(const char *path, struct mapped *m, struct err *e);
/* A zeroed or closed struct is fine. */
void mapped_close(struct mapped *m);

#endif
