/* form - one shape of a report: a file reports/form_NAME.c that defines FORM(NAME) */
#ifndef ASSAY_REPORTS_FORM_H
#define ASSAY_REPORTS_FORM_H

#include "reports/gather.h"

struct form {
    const char *name, *summary;
    const char *ending; /* of file names, with the dot */
    /* Writes one report about runs[n], n >= 1. E_NOMEM; a full disk shows in ferror(f). */
    int (*write)(FILE *f, const struct report *const *runs, int n, struct err *e);
};

#define FORM(NAME) const struct form form_##NAME

extern const struct form *const form_all[]; /* NULL-terminated, made by the Makefile */

/* NULL when there is none. */
const struct form *form_by_name(const char *name);
const struct form *form_by_ending(const char *path);

#endif
