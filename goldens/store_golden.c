/* Goldens in the store: sealed by the hash of their text; the ledger holds what the text does not say. */
#include "goldens/exchange.h"
#include "goldens/seal.h"
#include "harness/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void seal(struct sealed *x, const char *text, size_t bytes)
{
    uint8_t hash[SHA256_BYTES];
    *x = (struct sealed){.text = text, .bytes = bytes};
    sha256_of(text, bytes, hash);
    sha256_hex(hash, x->sha256);
}

void seal_rows(const void *row_hashes, int bytes, char out[SHA256_HEX_SIZE])
{
    uint8_t hash[SHA256_BYTES];
    out[0] = 0;
    if (!row_hashes)
        return;
    sha256_of(row_hashes, (size_t)bytes, hash);
    sha256_hex(hash, out);
}

static int find_golden(struct store *s, const char *sha256, int64_t *id, int *has_rows, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT id, row_hashes IS NOT NULL FROM golden WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e);
    *id = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    *has_rows = row == 1 && sqlite3_column_int(q, 1);
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* A golden that came without row hashes may receive them later; what it has is never changed. */
static int add_rows(struct store *s, const struct sealed *x, int64_t id, struct err *e)
{
    char rows[SHA256_HEX_SIZE];
    seal_rows(x->row_hashes, x->row_bytes, rows);
    if (db_run(s,
               db_query(s, e, "UPDATE golden SET row_hashes = ? WHERE id = ?", "bi", x->row_hashes, x->row_bytes, id),
               e))
        return e->code;
    json_t *what = json_pack("{s:s,s:s}", "golden", x->sha256, "rows", rows);
    int rc = ledger_add(s, "rows", what, e);
    json_decref(what);
    return rc;
}

static int add_golden(struct store *s, const struct sealed *x, const struct golden_name *n, int64_t *id, struct err *e)
{
    void *packed;
    size_t bytes;
    char now[20], rows[SHA256_HEX_SIZE];
    if (db_pack(x->text, x->bytes, 9, &packed, &bytes, e))
        return e->code;
    db_now(now);
    int rc =
        db_run(s,
               db_query(s, e,
                        "INSERT INTO golden (sha256, model, battery, arm, status, bytes, text, row_hashes, created)"
                        " VALUES (?,?,?,?,?,?,?,?,?)",
                        "tttttibbt", x->sha256, n->model, n->battery, n->arm, n->status, (int64_t)x->bytes, packed,
                        (int)bytes, x->row_hashes, x->row_bytes, now),
               e);
    free(packed);
    if (rc)
        return rc;
    *id = sqlite3_last_insert_rowid(s->db);
    seal_rows(x->row_hashes, x->row_bytes, rows);
    json_t *what = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s}", "golden", x->sha256, "model", n->model, "battery", n->battery,
                             "arm", n->arm, "status", n->status, "rows", rows);
    rc = ledger_add(s, "import", what, e);
    json_decref(what);
    return rc;
}

int golden_insert(struct store *s, const struct sealed *x, const struct golden_name *n, int64_t *id, struct err *e)
{
    int has_rows;
    if (find_golden(s, x->sha256, id, &has_rows, e))
        return e->code;
    if (!*id)
        return add_golden(s, x, n, id, e);
    return x->row_hashes && !has_rows ? add_rows(s, x, *id, e) : OK;
}

static uint8_t *gather_hashes(const struct golden *g, int *bytes)
{
    int rows = 0;
    for (int i = 0; i < g->prompts; i++) {
        if (!g->prompt[i].decode.row_sha256)
            return NULL;
        rows += g->prompt[i].decode.rows;
    }
    uint8_t *all = malloc(rows ? (size_t)rows * SHA256_BYTES : 1), *at = all;
    for (int i = 0; all && i < g->prompts; i++) {
        size_t n = (size_t)g->prompt[i].decode.rows * SHA256_BYTES;
        memcpy(at, g->prompt[i].decode.row_sha256, n);
        at += n;
    }
    *bytes = rows * SHA256_BYTES;
    return all;
}

int store_golden_put(struct store *s, const struct golden *g, const char *status, int64_t *id, struct err *e)
{
    char *text;
    size_t bytes;
    struct sealed x;
    int row_bytes = 0;
    if (golden_text(g, &text, &bytes, e))
        return e->code;
    uint8_t *rows = gather_hashes(g, &row_bytes);
    seal(&x, text, bytes);
    x.row_hashes = rows;
    x.row_bytes = row_bytes;
    int rc = db_begin(s, e);
    if (!rc)
        rc = db_end(s, golden_insert(s, &x, &(struct golden_name){g->model, g->battery, g->arm, status}, id, e), e);
    free(rows);
    free(text);
    return rc;
}

int store_golden_status(struct store *s, int64_t id, char status[16], struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT status_now FROM golden_now WHERE id = ?", "i", id);
    int row = db_step(s, q, e);
    snprintf(status, 16, "%s", row == 1 ? db_text(q, 0) : "");
    sqlite3_finalize(q);
    return row < 0 ? e->code : row ? OK : FAIL(e, E_MISSING, "no golden %lld in %s", (long long)id, s->path);
}

/* The columns that goldens are found by must say what the sealed header says, else one passes for another. */
static int check_names(sqlite3_stmt *q, const char *what, const char *text, size_t bytes, struct err *e)
{
    static const char *const key[] = {"model", "battery", "arm"};
    const char *end = memchr(text, '\n', bytes), *value;
    json_t *header = json_parse(text, end ? (size_t)(end - text) : bytes, what, 1, e);
    int rc = header ? OK : E_STORE;
    for (int i = 0; i < 3 && !rc; i++) {
        rc = json_get_str(header, key[i], &value, what, e);
        if (!rc && strcmp(db_text(q, 4 + i), value))
            rc = FAIL(e, E_STORE, "%s was edited: its row says %s \"%.64s\", its text says \"%.64s\"", what, key[i],
                      db_text(q, 4 + i), value);
    }
    json_decref(header);
    return rc;
}

/* Unpacks, checks the seal, parses unless g is NULL. Columns: sha256, bytes, text, row_hashes, model, battery, arm. */
static int open_sealed(sqlite3_stmt *q, const char *what, struct golden **g, struct err *e)
{
    char *text;
    struct sealed x;
    size_t bytes = (size_t)sqlite3_column_int64(q, 1);
    if (db_unpack(sqlite3_column_blob(q, 2), (size_t)sqlite3_column_bytes(q, 2), bytes, what, &text, e))
        return e->code;
    seal(&x, text, bytes);
    int rc = strcmp(x.sha256, db_text(q, 0))
                 ? FAIL(e, E_STORE, "%s was edited: its text hashes to %s, it was sealed as %s", what, x.sha256,
                        db_text(q, 0))
                 : check_names(q, what, text, bytes, e);
    if (!rc && g && !(rc = golden_parse(text, bytes, what, g, e)) &&
        (rc =
             golden_attach_hashes(*g, sqlite3_column_blob(q, 3), sqlite3_column_bytes(q, 3) / SHA256_BYTES, what, e))) {
        golden_free(*g);
        *g = NULL;
    }
    free(text);
    return rc;
}

int store_golden_get(struct store *s, const char *model, const char *battery, const char *arm, struct golden **g,
                     char sha256[SHA256_HEX_SIZE], struct err *e)
{
    char what[320];
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, bytes, text, row_hashes, model, battery, arm FROM golden_now"
                               " WHERE model = ?1 AND battery = ?2"
                               " AND (arm = ?3 OR (?3 = '' AND status_now = 'active')"
                               " OR (length(?3) >= 8 AND substr(sha256, 1, length(?3)) = ?3))"
                               " ORDER BY arm = 'eager' DESC, status_now = 'active' DESC, id DESC LIMIT 1",
                               "ttt", model, battery, arm);
    int row = db_step(s, q, e), rc;
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_MISSING, "no golden of model %s and battery %s%s%s in %s; `assay import golden FILE` adds one",
                  model, battery, arm ? ", arm " : "", arm ? arm : "", s->path);
    else {
        snprintf(what, sizeof what, "%.200s: golden %.12s", s->path, db_text(q, 0));
        rc = open_sealed(q, what, g, e);
        snprintf(sha256, SHA256_HEX_SIZE, "%s", db_text(q, 0));
    }
    sqlite3_finalize(q);
    return rc;
}

int store_golden_by_hash(struct store *s, const char *sha256, struct golden **g, char found[SHA256_HEX_SIZE],
                         struct err *e)
{
    char what[320];
    int enough = strlen(sha256) >= 8 && strspn(sha256, "0123456789abcdef") == strlen(sha256), rc;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, bytes, text, row_hashes, model, battery, arm FROM golden"
                               " WHERE ?2 AND substr(sha256, 1, length(?1)) = ?1",
                               "ti", sha256, (int64_t)enough);
    int row = db_step(s, q, e);
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_MISSING, "no golden %.64s in %s", sha256, s->path);
    else {
        snprintf(what, sizeof what, "%.200s: golden %.12s", s->path, db_text(q, 0));
        rc = open_sealed(q, what, g, e);
        snprintf(found, SHA256_HEX_SIZE, "%s", db_text(q, 0));
    }
    sqlite3_finalize(q);
    return rc;
}

/* The status and the row hashes stand outside the text: the ledger answers for them. Columns as above, status. */
static int check_ledger(struct store *s, sqlite3_stmt *golden, const char *what, struct err *e)
{
    char rows[SHA256_HEX_SIZE];
    int rc = OK;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT (SELECT json_extract(what, '$.status') FROM ledger WHERE"
                               "  json_extract(what, '$.golden') = ?1 AND kind = 'import' ORDER BY seq LIMIT 1),"
                               " (SELECT json_extract(what, '$.rows') FROM ledger WHERE json_extract(what, '$.golden')"
                               "  = ?1 AND json_extract(what, '$.rows') IS NOT NULL ORDER BY seq DESC LIMIT 1)",
                               "t", db_text(golden, 0));
    if (db_step(s, q, e) < 0) {
        rc = e->code;
        goto out;
    }
    seal_rows(sqlite3_column_blob(golden, 3), sqlite3_column_bytes(golden, 3), rows);
    if (sqlite3_column_type(q, 0) == SQLITE_NULL)
        rc = FAIL(e, E_STORE, "%s has no row in the ledger", what);
    else if (strcmp(db_text(q, 0), db_text(golden, 7)))
        rc = FAIL(e, E_STORE, "%s was edited: its status is \"%.16s\", the ledger says \"%.16s\"", what,
                  db_text(golden, 7), db_text(q, 0));
    else if (strcmp(db_text(q, 1), rows))
        rc = FAIL(e, E_STORE, "%s was edited: its row hashes are not those that were sealed", what);
out:
    sqlite3_finalize(q);
    return rc;
}

int store_golden_verify(struct store *s, const char *sha256, struct err *e)
{
    char what[320];
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, bytes, text, row_hashes, model, battery, arm, status FROM golden"
                               " WHERE sha256 = ?",
                               "t", sha256);
    int row = db_step(s, q, e), rc;
    snprintf(what, sizeof what, "%.200s: golden %.12s", s->path, sha256);
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_STORE, "%s is no longer in the store", what);
    else if (!(rc = open_sealed(q, what, NULL, e)))
        rc = check_ledger(s, q, what, e);
    sqlite3_finalize(q);
    return rc;
}
