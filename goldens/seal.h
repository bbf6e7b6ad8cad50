/* seal - what makes a golden in the store one that cannot be exchanged: used by the files of this folder */
#ifndef ASSAY_GOLDENS_SEAL_H
#define ASSAY_GOLDENS_SEAL_H

#include "goldens/db.h"

struct sealed {
    const char *text; /* canonical text, borrowed */
    size_t bytes;
    char sha256[SHA256_HEX_SIZE];
    const void *row_hashes; /* borrowed; NULL: none */
    int row_bytes;
};

struct golden_name {
    const char *model, *battery, *arm, *status;
};

void seal(struct sealed *x, const char *text, size_t bytes);
/* Hash over all row hashes as the ledger keeps it, "" when there are none. */
void seal_rows(const void *row_hashes, int bytes, char out[SHA256_HEX_SIZE]);
/* Inside a transaction. The same text again gives the same id, and row hashes if it had none. */
int golden_insert(struct store *s, const struct sealed *x, const struct golden_name *n, int64_t *id, struct err *e);
/* Inside a transaction. The same file again: its razor is brought up to date. */
int battery_insert(struct store *s, const struct battery *b, struct err *e);

/* Columns at, at + 1, at + 2: sha256, bytes, record. E_STORE with `what` in front when it is not what was sealed.
 * Caller frees st, also after a failure. */
int stream_open(sqlite3_stmt *q, int at, const char *what, struct stream *st, struct err *e);
/* In every bit, counters aside. */
int stream_equal(const struct stream *a, const struct stream *b);

/* Inside a transaction: the ledger gets a hash over the run's row, its answers and its verdicts (the battery's row).
 * Whoever writes a finished run or a battery by itself calls it last. */
int run_seal(struct store *s, int64_t run, struct err *e);
int battery_seal(struct store *s, const char *sha256, struct err *e);
/* Every battery that the ledger does not know. */
int battery_seal_new(struct store *s, struct err *e);
/* Adds to `bad` every finished run and battery that is not what was sealed. */
int seal_check_all(struct store *s, json_t *bad, struct err *e);

/* Inside a transaction. The same bytes again are no error. */
int record_insert(struct store *s, const char *kind, const char *name, const void *data, size_t bytes,
                  const json_t *more, char sha256[SHA256_HEX_SIZE], struct err *e);
/* Adds to `bad` every record whose bytes are not what its hash says, that the ledger does not know, or that is gone. */
int record_check_all(struct store *s, json_t *bad, struct err *e);
/* Every anchor in force: sound, not stale, mirrored (store_mirror.c). */
int anchor_check_all(struct store *s, json_t *bad, struct err *e);

#endif
