/* Older stores are lifted, one version at a time, and nothing but a store is touched. */
#include "goldens/db.h"
#include "goldens/seal.h"

#include <stdio.h>
#include <string.h>

extern const char goldens_schema_sql[]; /* schema.sql, made a string by the Makefile: the newest version */

static int number(struct store *s, const char *sql, int *out, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, sql, "");
    int row = db_step(s, q, e);
    if (row == 1)
        *out = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int version_now(struct store *s, int *version, struct err *e)
{
    int application = 0, tables = 0, goldens = 0;
    if (number(s, "PRAGMA user_version", version, e) || number(s, "PRAGMA application_id", &application, e) ||
        number(s, "SELECT count(*) FROM sqlite_master", &tables, e) ||
        number(s, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('golden', 'ledger', 'stream')",
               &goldens, e))
        return e->code;
    /* Version 1 did not sign its files. */
    int ours = application == STORE_APPLICATION || (!application && *version == 1 && goldens == 3) ||
               (!application && !*version && !tables);
    if (!ours)
        return FAIL(e, E_STORE, "%s: a database of another program; it was left as it is", s->path);
    if (*version > STORE_VERSION)
        return FAIL(e, E_STORE, "%s: version %d was written by a newer assay; this one knows up to %d", s->path,
                    *version, STORE_VERSION);
    return OK;
}

int store_version(struct store *s, int *version, struct err *e)
{
    if (!sqlite3_get_autocommit(s->db))
        return version_now(s, version, e);
    /* One look: another process may be making this very store. */
    int rc = db_exec(s, "BEGIN", e);
    return rc ? rc : db_end(s, version_now(s, version, e), e);
}

/* Version 2 seals row hashes in the ledger, lets them come later, and finds a golden's ledger rows quickly. */
static int lift_to_2(struct store *s, struct err *e)
{
    static const char sql[] =
        "DROP TRIGGER golden_sealed;"
        "CREATE TRIGGER golden_sealed BEFORE UPDATE ON golden"
        " WHEN old.row_hashes IS NOT NULL OR old.id IS NOT new.id OR old.sha256 IS NOT new.sha256"
        " OR old.model IS NOT new.model OR old.battery IS NOT new.battery OR old.arm IS NOT new.arm"
        " OR old.status IS NOT new.status OR old.bytes IS NOT new.bytes OR old.text IS NOT new.text"
        " OR old.created IS NOT new.created BEGIN SELECT RAISE(ABORT, 'goldens are never changed'); END;"
        "CREATE INDEX ledger_by_golden ON ledger (json_extract(what, '$.golden'));";
    int row, rc = db_exec(s, sql, e);
    if (rc)
        return rc;
    sqlite3_stmt *q =
        db_query(s, e, "SELECT sha256, row_hashes FROM golden WHERE row_hashes IS NOT NULL ORDER BY id", "");
    while ((row = db_step(s, q, e)) == 1 && !rc) {
        char rows[SHA256_HEX_SIZE];
        seal_rows(sqlite3_column_blob(q, 1), sqlite3_column_bytes(q, 1), rows);
        json_t *what = json_pack("{s:s,s:s}", "golden", db_text(q, 0), "rows", rows);
        rc = ledger_add(s, "rows", what, e);
        json_decref(what);
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : rc;
}

/* Version 3 knows shards; its answers may carry counters, which older programs would take for damage. */
static int lift_to_3(struct store *s, struct err *e)
{
    return db_exec(s, "ALTER TABLE run ADD COLUMN shard TEXT NOT NULL DEFAULT ''", e);
}

/* Version 4 seals runs and batteries too, keeps records, and lets the ledger say a golden's status. */
static int lift_to_4(struct store *s, struct err *e)
{
    int row, rc = db_exec(s, strstr(goldens_schema_sql, "-- since version 4"), e);
    if (rc || (rc = battery_seal_new(s, e)))
        return rc;
    sqlite3_stmt *q = db_query(s, e, "SELECT id FROM run WHERE finished IS NOT NULL ORDER BY id", "");
    while ((row = db_step(s, q, e)) == 1 && !rc)
        rc = run_seal(s, sqlite3_column_int64(q, 0), e);
    sqlite3_finalize(q);
    return row < 0 ? e->code : rc;
}

static int lift(struct store *s, int from, struct err *e)
{
    static int (*const step[STORE_VERSION])(struct store *, struct err *) = {NULL, lift_to_2, lift_to_3, lift_to_4};
    int rc = OK;
    if (!from)
        return db_exec(s, goldens_schema_sql, e);
    for (; from < STORE_VERSION && !rc; from++)
        rc = step[from](s, e);
    return rc;
}

int store_migrate(struct store *s, int from, struct err *e)
{
    char sign[128];
    if (from == STORE_VERSION)
        return OK;
    if (db_begin(s, e))
        return e->code;
    int now = from, rc = store_version(s, &now, e); /* another process may have been faster */
    if (!rc)
        rc = lift(s, now, e);
    snprintf(sign, sizeof sign, "PRAGMA user_version = %d; PRAGMA application_id = %d", STORE_VERSION,
             STORE_APPLICATION);
    if (!rc)
        rc = db_exec(s, sign, e);
    return db_end(s, rc, e);
}
