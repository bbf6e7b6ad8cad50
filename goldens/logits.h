/* logits - full rows of bf16 logits without loss, as what an engine that foretells them leaves over
 *
 * layout  "assaylg1", i32 rows, i32 vocabulary, SHA-256 of every row (little-endian bf16), a byte a row (0: as
 *         foretold), then zstd over the other rows' exclusive or with what was foretold, high bytes before low bytes
 *
 * An oracle that is foretold in every bit costs 33 bytes a row, whatever the vocabulary.
 */
#ifndef ASSAY_GOLDENS_LOGITS_H
#define ASSAY_GOLDENS_LOGITS_H

#include "harness/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* foretold NULL: nothing was. Caller frees *out. */
int logits_pack(const uint16_t *row, const uint16_t *foretold, int rows, int vocab, void **out, size_t *bytes,
                struct err *e);
/* Gives the rows back and proves each by its hash: E_STORE names the first that is not what was stored, which includes
 * another foretelling than the one that it was packed with. row may be foretold itself: then rows that are as foretold
 * are only proven. */
int logits_unpack(const void *data, size_t bytes, const uint16_t *foretold, int rows, int vocab, const char *name,
                  uint16_t *row, struct err *e);
/* Sizes of a packed block; E_STORE when it is none. */
int logits_sizes(const void *data, size_t bytes, const char *name, int *rows, int *vocab, struct err *e);

#endif
