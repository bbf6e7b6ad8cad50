/* Records: whatever is kept whole and sealed by its own hash - anchors, an oracle's evidence, KLD files. */
#include "goldens/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_there(struct store *s, const char *sha256, int *there, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT 1 FROM record WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e);
    *there = row == 1;
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int enter(struct store *s, const char *kind, const char *name, const char *sha256, const json_t *more,
                 struct err *e)
{
    json_t *what = more ? json_copy((json_t *)(size_t)more) : json_object();
    int bad = !what || json_object_set_new(what, "record", json_string(sha256)) ||
              json_object_set_new(what, "record_kind", json_string(kind)) ||
              json_object_set_new(what, "name", json_string(name));
    int rc = bad ? FAIL(e, E_INPUT, "record %s: its name is not UTF-8", kind) : ledger_add(s, "record", what, e);
    json_decref(what);
    return rc;
}

int record_insert(struct store *s, const char *kind, const char *name, const void *data, size_t bytes,
                  const json_t *more, char sha256[SHA256_HEX_SIZE], struct err *e)
{
    uint8_t hash[SHA256_BYTES];
    char now[20];
    void *packed;
    size_t n;
    int there;
    sha256_of(data, bytes, hash);
    sha256_hex(hash, sha256);
    if (is_there(s, sha256, &there, e) || there || db_pack(data, bytes, 9, &packed, &n, e))
        return e->code;
    db_now(now);
    int rc = db_run(s,
                    db_query(s, e, "INSERT INTO record VALUES (?,?,?,?,?,?)", "tttibt", sha256, kind, name,
                             (int64_t)bytes, packed, (int)n, now),
                    e);
    free(packed);
    return rc ? rc : enter(s, kind, name, sha256, more, e);
}

int store_record_put(struct store *s, const char *kind, const char *name, const void *data, size_t bytes,
                     const json_t *more, char sha256[SHA256_HEX_SIZE], struct err *e)
{
    int rc = db_begin(s, e);
    return rc ? rc : db_end(s, record_insert(s, kind, name, data, bytes, more, sha256, e), e);
}

/* Columns: sha256, bytes, data. */
static int open_record(sqlite3_stmt *q, const char *what, char **data, size_t *bytes, struct err *e)
{
    uint8_t hash[SHA256_BYTES];
    char own[SHA256_HEX_SIZE];
    *bytes = (size_t)sqlite3_column_int64(q, 1);
    if (db_unpack(sqlite3_column_blob(q, 2), (size_t)sqlite3_column_bytes(q, 2), *bytes, what, data, e))
        return e->code;
    sha256_of(*data, *bytes, hash);
    sha256_hex(hash, own);
    if (!strcmp(own, db_text(q, 0)))
        return OK;
    free(*data);
    return FAIL(e, E_STORE, "%s was edited: its bytes hash to %s", what, own);
}

int store_record_get(struct store *s, const char *kind, const char *name, char **data, size_t *bytes,
                     char sha256[SHA256_HEX_SIZE], struct err *e)
{
    char what[300];
    int by_hash = strlen(name) >= 8 && strspn(name, "0123456789abcdef") == strlen(name), rc = OK;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, bytes, data FROM record WHERE kind = ?1 AND (name = ?2 OR"
                               " (?3 AND substr(sha256, 1, length(?2)) = ?2)) ORDER BY rowid DESC LIMIT 1",
                               "tti", kind, name, (int64_t)by_hash);
    int row = db_step(s, q, e);
    snprintf(what, sizeof what, "%.160s: %.16s %.80s", s->path, kind, name);
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_MISSING, "no %s \"%.80s\" in %.160s", kind, name, s->path);
    else if (!(rc = open_record(q, what, data, bytes, e)))
        snprintf(sha256, SHA256_HEX_SIZE, "%s", db_text(q, 0));
    sqlite3_finalize(q);
    return rc;
}

int store_record_list(struct store *s, const char *kind, json_t **list, struct err *e)
{
    sqlite3_stmt *q =
        db_query(s, e, "SELECT sha256, name, bytes, created FROM record WHERE kind = ? ORDER BY rowid", "t", kind);
    json_t *all = json_array();
    int row;
    while ((row = db_step(s, q, e)) == 1)
        json_array_append_new(all,
                              json_pack("{s:s,s:s,s:I,s:s}", "record", db_text(q, 0), "name", db_text(q, 1), "bytes",
                                        (json_int_t)sqlite3_column_int64(q, 2), "created", db_text(q, 3)));
    sqlite3_finalize(q);
    if (row < 0) {
        json_decref(all);
        return e->code;
    }
    *list = all;
    return OK;
}

/* The kind and the name stand outside the bytes: the ledger answers for them. */
static int check_bytes(struct store *s, json_t *bad, struct err *e)
{
    int row;
    sqlite3_stmt *q =
        db_query(s, e,
                 "SELECT r.sha256, r.bytes, r.data, r.kind, r.name,"
                 " (SELECT seq FROM ledger WHERE json_extract(what, '$.record') = r.sha256 AND kind = 'record'"
                 "  AND CASE WHEN json_valid(what) THEN json_extract(what, '$.record_kind') = r.kind"
                 "  AND json_extract(what, '$.name') = r.name END) FROM record AS r ORDER BY r.rowid",
                 "");
    while ((row = db_step(s, q, e)) == 1) {
        struct err own = {0};
        char what[200], text[400], *data;
        size_t bytes;
        snprintf(what, sizeof what, "%.16s %.100s (%.12s)", db_text(q, 3), db_text(q, 4), db_text(q, 0));
        if (open_record(q, what, &data, &bytes, &own))
            db_complain(bad, own.text);
        else
            free(data);
        if (sqlite3_column_type(q, 5) != SQLITE_NULL)
            continue;
        snprintf(text, sizeof text, "%s has no row in the ledger", what);
        db_complain(bad, text);
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int check_named(struct store *s, json_t *bad, struct err *e)
{
    int row;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT 'the ledger names ' || json_extract(what, '$.record_kind') || ' ' ||"
                               " json_extract(what, '$.record') || ', which is not in the store' FROM ledger"
                               " WHERE kind = 'record' AND CASE WHEN json_valid(what) THEN"
                               " json_extract(what, '$.record') END NOT IN (SELECT sha256 FROM record)",
                               "");
    while ((row = db_step(s, q, e)) == 1)
        db_complain(bad, db_text(q, 0));
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

int record_check_all(struct store *s, json_t *bad, struct err *e)
{
    int rc = check_bytes(s, bad, e);
    return rc ? rc : check_named(s, bad, e);
}
