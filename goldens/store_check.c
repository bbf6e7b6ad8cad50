/* Is the store still what was put into it? */
#include "goldens/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int store_stream_verify_all(struct store *s, json_t *bad, int64_t *checked, struct err *e); /* store_run.c */

/* Rows of a query whose first column is a complaint. */
static int collect(struct store *s, const char *sql, const char *fine, json_t *bad, struct err *e)
{
    int row;
    sqlite3_stmt *q = db_query(s, e, sql, "");
    while ((row = db_step(s, q, e)) == 1)
        if (strcmp(db_text(q, 0), fine))
            db_complain(bad, db_text(q, 0));
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int check_goldens(struct store *s, json_t *bad, int64_t *checked, struct err *e)
{
    int row;
    sqlite3_stmt *q = db_query(s, e, "SELECT sha256, model, battery, arm FROM golden ORDER BY id", "");
    while ((row = db_step(s, q, e)) == 1) {
        struct err own = {0};
        if (store_golden_verify(s, db_text(q, 0), &own)) {
            char text[1200];
            snprintf(text, sizeof text, "%s (%s %s %s)", own.text, db_text(q, 1), db_text(q, 2), db_text(q, 3));
            db_complain(bad, text);
        }
        ++*checked;
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int check_ledger(struct store *s, json_t *bad, struct err *e)
{
    int64_t seq;
    char text[128];
    if (ledger_check(s, &seq, e))
        return e->code;
    if (seq) {
        snprintf(text, sizeof text, "ledger row %lld: its hash or its link to the row before does not hold",
                 (long long)seq);
        db_complain(bad, text);
    }
    return collect(
        s,
        "SELECT 'the ledger names golden ' || json_extract(what, '$.golden') || ', which is not in the store'"
        " FROM ledger WHERE kind = 'import' AND CASE WHEN json_valid(what) THEN json_extract(what, '$.golden') END"
        " NOT IN (SELECT sha256 FROM golden)"
        " UNION ALL SELECT 'the ledger names run ' || json_extract(what, '$.run') || ', which is not in the store'"
        " FROM ledger WHERE kind = 'run' AND CASE WHEN json_valid(what) THEN json_extract(what, '$.run') END"
        " NOT IN (SELECT id FROM run)",
        "", bad, e);
}

/* Tables without row ids are named by their keys. */
static int check_links(struct store *s, json_t *bad, struct err *e)
{
    return collect(s,
                   "SELECT 'row ' || rowid || ' of ' || \"table\" || ' points to nothing in ' || parent"
                   " FROM pragma_foreign_key_check WHERE rowid IS NOT NULL"
                   " UNION ALL SELECT 'stream of run ' || run || ' prompt ' || prompt || ' phase ' || phase ||"
                   " ' points to nothing in run' FROM stream WHERE run NOT IN (SELECT id FROM run)"
                   " UNION ALL SELECT 'position ' || position || ' of run ' || run || ' prompt ' || prompt ||"
                   " ' points to nothing in run' FROM position WHERE run NOT IN (SELECT id FROM run)",
                   "", bad, e);
}

/* Without them a row may be changed through SQL and nothing refuses. */
static int check_triggers(struct store *s, json_t *bad, struct err *e)
{
    return collect(s,
                   "SELECT 'the trigger ' || value || ' is gone: rows could have been changed' FROM"
                   " json_each('[\"golden_kept\",\"golden_sealed\",\"ledger_kept\",\"ledger_sealed\",\"head_follows\","
                   "\"run_kept\",\"run_sealed\",\"stream_kept\",\"stream_sealed\",\"position_kept\","
                   "\"position_sealed\",\"record_kept\",\"record_sealed\"]') WHERE value"
                   " NOT IN (SELECT name FROM sqlite_master WHERE type = 'trigger')",
                   "", bad, e);
}

int store_check(struct store *s, json_t **report, struct err *e)
{
    json_t *bad = json_array();
    int64_t goldens = 0, streams = 0;
    int rc = collect(s, "PRAGMA integrity_check", "ok", bad, e);
    if (!rc)
        rc = check_links(s, bad, e);
    if (!rc)
        rc = check_goldens(s, bad, &goldens, e);
    if (!rc)
        rc = check_ledger(s, bad, e);
    if (!rc)
        rc = check_triggers(s, bad, e);
    if (!rc)
        rc = seal_check_all(s, bad, e);
    if (!rc)
        rc = record_check_all(s, bad, e);
    if (!rc)
        rc = anchor_check_all(s, bad, e);
    if (!rc)
        rc = store_stream_verify_all(s, bad, &streams, e);
    if (!rc)
        rc = collect(s,
                     "SELECT 'run ' || id || ' was judged against golden ' || golden_sha256 || ', which is not in the"
                     " store' FROM run WHERE golden_sha256 <> '' AND verdict IN ('PASS', 'PASS_BY_RAZOR', 'FAIL')"
                     " AND golden_sha256 NOT IN (SELECT sha256 FROM golden)",
                     "", bad, e);
    if (rc) {
        json_decref(bad);
        return rc;
    }
    *report = json_pack("{s:s,s:I,s:I,s:o}", "store", s->path, "goldens", (json_int_t)goldens, "streams",
                        (json_int_t)streams, "bad", bad);
    return *report ? OK : FAIL(e, E_NOMEM, "out of memory");
}

int store_stats(struct store *s, json_t **report, struct err *e)
{
    static const char *const tables[] = {"golden",   "battery", "run",    "stream",
                                         "position", "ledger",  "record", "source"};
    json_t *o = json_object(), *all = json_object();
    int64_t pages = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        char sql[200];
        snprintf(sql, sizeof sql,
                 "SELECT count(*), coalesce((SELECT sum(pgsize) FROM dbstat WHERE name = '%s'), -1) FROM %s", tables[i],
                 tables[i]);
        struct err none = {0};
        sqlite3_stmt *q = db_query(s, &none, sql, "");
        if (!q) { /* built without dbstat: rows only */
            snprintf(sql, sizeof sql, "SELECT count(*), -1 FROM %s", tables[i]);
            q = db_query(s, e, sql, "");
        }
        if (db_step(s, q, e) == 1)
            json_object_set_new(all, tables[i],
                                json_pack("{s:I,s:I}", "rows", (json_int_t)sqlite3_column_int64(q, 0), "bytes",
                                          (json_int_t)sqlite3_column_int64(q, 1)));
        sqlite3_finalize(q);
    }
    sqlite3_stmt *q = db_query(s, e, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", "");
    if (db_step(s, q, e) == 1)
        pages = sqlite3_column_int64(q, 0);
    sqlite3_finalize(q);
    json_object_set_new(o, "store", json_string(s->path));
    json_object_set_new(o, "bytes", json_integer(pages));
    json_object_set_new(o, "tables", all);
    *report = o;
    return e->code;
}
