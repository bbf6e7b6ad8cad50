/* exchange - the golden exchange format assay-golden/1, batteries as JSON, and other projects' golden files */
#ifndef ASSAY_GOLDENS_EXCHANGE_H
#define ASSAY_GOLDENS_EXCHANGE_H

#include "harness/base/golden.h"

/* Reads FILE.jsonl or FILE.jsonl.zst. Every field is checked; errors name file and line. Caller frees. */
int golden_read(const char *path, struct golden **g, struct err *e);
/* The text of such a file: what a compressed one may grow to is limited by what it weighs. Caller frees. */
int golden_file(const char *path, void **text, size_t *bytes, struct err *e);
/* The same from memory; `name` stands for the file in messages. */
int golden_parse(const char *text, size_t bytes, const char *name, struct golden **g, struct err *e);
/* Row hashes that lie beside a golden file (FILE.decode.rows.sha256[.zst]): [n][32], in file order of prompts and rows;
 * *rows = NULL when there is no such file. Caller frees. */
int golden_row_hashes(const char *path, uint8_t **rows, int *n, struct err *e);
/* Gives every prompt's decode view its hashes; the counts must agree. rows NULL is fine. */
int golden_attach_hashes(struct golden *g, const uint8_t *rows, int n, const char *where, struct err *e);
/* The canonical text: reading and writing a captured file gives the same bytes. Caller frees *text. */
int golden_text(const struct golden *g, char **text, size_t *bytes, struct err *e);
/* Writes by a temporary file and rename; ".zst" at the end compresses. */
int golden_write(const char *path, const struct golden *g, struct err *e);

/* A battery file: batteries/NAME.json. Unknown keys are errors. */
int battery_read(const char *path, struct battery **b, struct err *e);
/* The same, but what makes a battery worthless is let through for the lint to name: no prompts, names that appear
 * twice, negative ids. For nothing else. */
int battery_read_unchecked(const char *path, struct battery **b, struct err *e);
int battery_write(const char *path, const struct battery *b, struct err *e);

/* Whole file, decompressed when it ends in .zst; at most `limit` bytes come out. Caller frees *data. */
int packed_read(const char *path, size_t limit, void **data, size_t *bytes, struct err *e);

/* Writes through a temporary file and rename: the old file stays until the new one is complete. Compressed when the
 * name ends in .zst. */
int packed_write(const char *path, const void *data, size_t bytes, struct err *e);

#endif
