/* db - SQLite for the files of this folder: statements that fail with the store's path and SQLite's reason */
#ifndef ASSAY_GOLDENS_DB_H
#define ASSAY_GOLDENS_DB_H

#include "goldens/store.h"

#include <sqlite3.h>

#define STORE_VERSION     4
#define STORE_APPLICATION 0x61736179 /* "asay" in the file's header */

struct store {
    sqlite3 *db;
    char path[1024];
    int failed; /* SQLite code of the last failure */
    int claims; /* descriptor of PATH-runs, see store_claim.c; 0: not open */
};

/* Records SQLite's last error: E_STORE "PATH: what: reason". */
int db_fail(struct store *s, const char *what, struct err *e);
int db_exec(struct store *s, const char *sql, struct err *e);
/* Prepares and binds: i int64, r double (NaN becomes NULL), t text (NULL becomes ''), b blob (const void *, int).
 * NULL with e set on failure. */
sqlite3_stmt *db_query(struct store *s, struct err *e, const char *sql, const char *types, ...);
/* Runs a statement that gives no rows, and finalises it (NULL is fine when e is set). */
int db_run(struct store *s, sqlite3_stmt *q, struct err *e);
/* Steps: 1 a row, 0 the end, -1 with e set. */
int db_step(struct store *s, sqlite3_stmt *q, struct err *e);

int db_begin(struct store *s, struct err *e);
/* Commits when rc is OK, else rolls back; returns rc or the failure to commit. */
int db_end(struct store *s, int rc, struct err *e);

/* UTC, "YYYY-MM-DD HH:MM:SS". */
void db_now(char out[20]);
const char *db_text(sqlite3_stmt *q, int column); /* "" for NULL */

/* Appends a complaint to an array. Damage may well be no UTF-8: such bytes become '?', the complaint is not lost. */
void db_complain(json_t *bad, const char *text);

/* zstd at a level; caller frees *out. */
int db_pack(const void *data, size_t bytes, int level, void **out, size_t *packed, struct err *e);
/* Exactly `bytes` must come out; caller frees. E_STORE when the blob is damaged. */
int db_unpack(const void *packed, size_t n, size_t bytes, const char *what, char **out, struct err *e);

/* The version of a file that is a store or empty; E_STORE for a newer one and for other programs' databases. */
int store_version(struct store *s, int *version, struct err *e);
/* Lifts it to STORE_VERSION in one transaction. */
int store_migrate(struct store *s, int from, struct err *e);

/* Takes a run for this process until the store is closed or the process ends, however it ends. *mine = 0: another
 * process works on it. */
int run_claim(struct store *s, int64_t run, int *mine, struct err *e);
void run_release(struct store *s, int64_t run);
/* store_run_open inside a transaction. */
int run_open(struct store *s, const struct run_key *k, int fresh, int64_t *run, struct err *e);
void run_release_all(struct store *s);

/* Appends a row to the ledger inside the current transaction. what is borrowed. */
int ledger_add(struct store *s, const char *kind, const json_t *what, struct err *e);
/* The first row whose hash or link does not hold: its seq, or 0. */
int ledger_check(struct store *s, int64_t *bad, struct err *e);

#endif
