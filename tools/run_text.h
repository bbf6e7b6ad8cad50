/* run_text - a judged run for people, from its JSON object */
#ifndef ASSAY_TOOLS_RUN_TEXT_H
#define ASSAY_TOOLS_RUN_TEXT_H

#include "tools/command.h"
#include "tools/token_text.h"

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

/* The whole report. `roots_shown` 0: all of them. tok may be NULL. */
void run_text(FILE *f, const struct tool *t, const json_t *summary, int roots_shown, const struct token_text *tok);

/* One difference, one line:
 * strict: p06 token 11: DIVERGENT: got 783 " moon", oracle 412 " Moon", gap 0.1875 nat (3 ULP, razor 2) */
void run_text_row(FILE *f, const char *battery, const json_t *row, const struct token_text *tok);

/* 783 " moon"; negative: nothing. tok may be NULL. */
void run_text_id(FILE *f, long id, const struct token_text *tok);

/* The verdict's name, in colour where there is colour. */
void run_text_verdict(FILE *f, const struct tool *t, const char *verdict);

/* words[at] as the number of a run, 0 when there is no such word; more than `most` words are an error (E_USAGE). */
int run_number(int n, char **words, int at, int most, int64_t *run, struct err *e);

#endif
