/* lint - what would make a battery worthless */
#ifndef ASSAY_LINT_H
#define ASSAY_LINT_H

#include "harness/base/golden.h"
#include "harness/base/model.h"
#include "harness/tokenizer/tokenizer.h"

/* Complaints as an array of strings (new reference; empty: none). model and tokenizer may be NULL: then what needs
 * them is not checked. tokenizer_sha256: of the tokenizer's file, "" when unknown. */
int battery_lint(const struct battery *b, const struct model *m, struct tokenizer *t, const char *tokenizer_sha256,
                 json_t **complaints, struct err *e);

#endif
