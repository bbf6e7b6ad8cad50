/* prompts - a battery's prompts out of plain text or JSON Lines */
#ifndef ASSAY_PROMPTS_H
#define ASSAY_PROMPTS_H

#include "harness/base/golden.h"
#include "harness/tokenizer/tokenizer.h"

/* Appends the prompts of a text to b. JSON Lines {"name","text"} when the first line is a JSON object; else a prompt a
 * paragraph, named p00, p01, ...; paragraphs are parted by lines of nothing but blanks. `path` stands for the text in
 * messages. What would make the battery unreadable (a name twice, a NUL byte, no prompt at all) is an error. */
int prompts_add(struct battery *b, struct tokenizer *t, const char *path, const char *text, size_t bytes,
                struct err *e);

#endif
