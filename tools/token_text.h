/* token_text - what a token id says, for reports: from the model's tokenizer.json, quoted and escaped
 *
 * For display only; nothing is judged by it. Byte-level vocabularies (GPT-2 alphabet) are turned back into bytes.
 */
#ifndef ASSAY_TOOLS_TOKEN_TEXT_H
#define ASSAY_TOOLS_TOKEN_TEXT_H

#include "tools/command.h"

#include <stddef.h>
#include <stdint.h>

struct token_text; /* NULL: no tokenizer at hand */

/* NULL when the model or its tokenizer is not there or not understood. Caller closes. */
struct token_text *token_text_open(const struct tool *t, const char *model);
void token_text_close(struct token_text *tok); /* NULL is fine */

/* Writes `"text"` into buf, "" when unknown; returns buf. Cut at a character when it does not fit. */
const char *token_text_quote(const struct token_text *tok, int32_t id, char *buf, size_t size);

#endif
