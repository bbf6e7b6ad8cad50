/* flip - a decision of the gate about a default, from its row in the ledger, in the forms of a report */
#ifndef ASSAY_REPORTS_FLIP_H
#define ASSAY_REPORTS_FLIP_H

#include "harness/base/err.h"

#include <jansson.h>
#include <stdio.h>

/* row: {seq, at, what, sha256} as store_ledger_list gives it; form: of form_all. E_INPUT when the row is no decision,
 * E_NOMEM. */
int flip_write(FILE *f, const char *form, const json_t *row, struct err *e);

#endif
