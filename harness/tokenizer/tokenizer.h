/* tokenizer - byte-level BPE from a Hugging Face tokenizer.json
 *
 * Understands what GPT-2's descendants use: ByteLevel, Split, Digits and Sequence pre-tokenizers, added tokens, merges
 * as strings or pairs, ignore_merges. Normalizer NFC is accepted for texts that it leaves alone. Anything else is
 * refused by name, and so is a byte without a piece of its own: a stand-in would be another prompt.
 */
#ifndef ASSAY_TOKENIZER_H
#define ASSAY_TOKENIZER_H

#include "harness/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer;

/* path may end in .zst. Caller closes. */
int tokenizer_open(const char *path, struct tokenizer **t, struct err *e);
/* The same for a file of which only the pieces are wanted: what only encoding needs is not read. */
int tokenizer_open_pieces(const char *path, struct tokenizer **t, struct err *e);
void tokenizer_close(struct tokenizer *t);      /* NULL is fine */
int tokenizer_vocab(const struct tokenizer *t); /* largest id + 1 */

/* Text (UTF-8) to ids; no special tokens are added. Caller frees *ids. */
int tokenizer_encode(struct tokenizer *t, const char *text, size_t bytes, int32_t **ids, int *n, struct err *e);
/* Ids to bytes, which need not be UTF-8. Caller frees *text (closed by a zero). */
int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, int n, char **text, size_t *bytes, struct err *e);
/* Writes `"text"` of one id for reports, quotes, controls and parts of a character escaped; "" when unknown, NULL t is
 * fine. Cut at a character when it does not fit; size 8 at least. Returns buf. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, char *buf, size_t size);

#endif
