/* import_more - kinds of `assay import` that are no goldens */
#ifndef ASSAY_TOOLS_IMPORT_MORE_H
#define ASSAY_TOOLS_IMPORT_MORE_H

#include "goldens/store.h"
#include "tools/command.h"

struct import_options {
    const char *status, *variant, *name, *model, *tokens; /* NULL when not given */
};

int import_kld(const struct tool *t, struct store *s, const char *path, const struct import_options *o, struct err *e);
int import_lm_eval(const struct tool *t, struct store *s, const char *path, const struct import_options *o,
                   struct err *e);

/* assay diff kld BASE TEST: each a name or hash of the store, or a file. Returns the exit status. */
int diff_kld(const struct tool *t, const char *base, const char *test, struct err *e);

#endif
