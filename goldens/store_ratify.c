#include "goldens/owed.h"

#include "goldens/seal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Hash of the anchor in force ("" for none) and the ledger row that said so (0 for none). */
static int in_force(struct store *s, const char *key, char sha256[SHA256_HEX_SIZE], int64_t *seq, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT seq, json_extract(what, '$.anchor') FROM ledger WHERE"
                               " json_extract(what, '$.anchor_key') = ? AND kind IN ('ratify', 'unratify')"
                               " ORDER BY seq DESC LIMIT 1",
                               "t", key);
    int row = db_step(s, q, e);
    *seq = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    snprintf(sha256, SHA256_HEX_SIZE, "%s", row == 1 ? db_text(q, 1) : "");
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int set_status(struct store *s, const char *kind, const char *golden, const char *status, const char *because,
                      struct err *e)
{
    json_t *what = json_pack("{s:s,s:s,s:s}", "golden", golden, "status", status, "because", because);
    int rc = what ? ledger_add(s, kind, what, e) : FAIL(e, E_NOMEM, "out of memory");
    json_decref(what);
    return rc;
}

static int still(struct store *s, const struct ratification *r, const char *key, struct err *e)
{
    char now[SHA256_HEX_SIZE], status[16];
    int64_t seq;
    int rc = in_force(s, key, now, &seq, e);
    if (!rc && strcmp(now, r->replaces))
        rc = FAIL(e, E_VOID, "another anchor of this arm was ratified meanwhile (ledger row %lld)", (long long)seq);
    if (!rc && !(rc = store_golden_status_of(s, r->anchor->golden_sha256, status, e)) &&
        strcmp(status, r->activates ? "pending" : "active"))
        rc = FAIL(e, E_VOID, "golden %.12s is %s meanwhile", r->anchor->golden_sha256, status);
    return rc;
}

static json_t *row_of(const struct ratification *r, const char *key, const char *sha256)
{
    const struct anchor *a = r->anchor;
    json_t *what =
        json_pack("{s:s,s:s,s:s,s:s,s:I,s:s,s:s,s:s,s:s,s:O?}", "anchor_key", key, "anchor", sha256, "replaces",
                  r->replaces, "golden", a->golden_sha256, "ratified_run", (json_int_t)a->run, "reason", a->reason,
                  "by", a->by, "note", a->note, "evidence", a->evidence, "outdated", r->outdated);
    if (what && r->activates)
        json_object_set_new(what, "status", json_string("active"));
    if (what && r->more)
        json_object_update_missing(what, (json_t *)(size_t)r->more);
    return what;
}

static int ratify(struct store *s, const struct ratification *r, int64_t *seq, struct err *e)
{
    char key[600], sha256[SHA256_HEX_SIZE];
    size_t i;
    json_t *old, *what = NULL;
    const struct anchor *a = r->anchor;
    anchor_key(a->model, a->battery, a->arm, a->device, key);
    int rc = still(s, r, key, e);
    if (rc || (rc = record_insert(s, "anchor", key, r->text, r->bytes, NULL, sha256, e)))
        return rc;
    json_array_foreach(r->outdated, i, old) if (!rc) rc =
        set_status(s, "supersede", json_string_value(old), "superseded", a->golden_sha256, e);
    if (rc)
        return rc;
    what = row_of(r, key, sha256);
    rc = what ? ledger_add(s, "ratify", what, e) : FAIL(e, E_INPUT, "a ratification that is not UTF-8");
    json_decref(what);
    *seq = sqlite3_last_insert_rowid(s->db);
    return rc;
}

int store_ratify(struct store *s, const struct ratification *r, int64_t *seq, int *files, struct err *e)
{
    int fd, rc = owed_note(s, r->mirror, &fd, e);
    if (rc)
        return rc;
    if (!(rc = db_begin(s, e)) && !(rc = db_end(s, ratify(s, r, seq, e), e)))
        return owed_pay(s, r->mirror, fd, files, e);
    owed_forget(s, fd);
    return rc;
}

static int load_row(struct store *s, int64_t seq, json_t **what, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT what FROM ledger WHERE seq = ? AND kind = 'ratify'", "i", seq);
    int row = db_step(s, q, e);
    *what = row == 1 ? json_loads(db_text(q, 0), 0, NULL) : NULL;
    sqlite3_finalize(q);
    if (row < 0)
        return e->code;
    return *what ? OK : FAIL(e, E_MISSING, "%s: ledger row %lld is no ratification", s->path, (long long)seq);
}

static const char *str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static int unratify(struct store *s, int64_t seq, const char *by, const char *note, struct err *e)
{
    json_t *done, *old;
    char now[SHA256_HEX_SIZE];
    int64_t newest;
    size_t i;
    int rc = load_row(s, seq, &done, e);
    if (rc)
        return rc;
    const char *key = str(done, "anchor_key");
    if (!(rc = in_force(s, key, now, &newest, e)) && newest != seq)
        rc = FAIL(e, E_USAGE, "ratification %lld is not the last word on %s: ledger row %lld is", (long long)seq, key,
                  (long long)newest);
    json_array_foreach(json_object_get(done, "outdated"), i, old) if (!rc) rc =
        set_status(s, "restore", json_string_value(old), "active", str(done, "golden"), e);
    json_t *what = json_pack("{s:s,s:s,s:I,s:s,s:s,s:s}", "anchor_key", key, "anchor", str(done, "replaces"), "undoes",
                             (json_int_t)seq, "golden", str(done, "golden"), "by", by, "note", note);
    if (what && *str(done, "status"))
        json_object_set_new(what, "status", json_string("pending"));
    if (!rc)
        rc = what ? ledger_add(s, "unratify", what, e) : FAIL(e, E_INPUT, "--by or --note is not UTF-8");
    json_decref(what);
    json_decref(done);
    return rc;
}

int store_unratify(struct store *s, int64_t seq, const char *by, const char *note, const char *mirror, int *files,
                   struct err *e)
{
    int fd, rc = owed_note(s, mirror, &fd, e);
    if (rc)
        return rc;
    if (!(rc = db_begin(s, e)) && !(rc = db_end(s, unratify(s, seq, by, note, e), e)))
        return owed_pay(s, mirror, fd, files, e);
    owed_forget(s, fd);
    return rc;
}

int store_anchor_get(struct store *s, const char *model, const char *battery, const char *arm, const char *device,
                     struct anchor **a, char sha256[SHA256_HEX_SIZE], struct err *e)
{
    char key[600], *text;
    size_t bytes;
    int64_t seq;
    anchor_key(model, battery, arm, device, key);
    if (in_force(s, key, sha256, &seq, e))
        return e->code;
    if (!*sha256)
        return FAIL(e, E_MISSING, "no anchor of %s in %s", key, s->path);
    int rc = store_record_get(s, "anchor", sha256, &text, &bytes, sha256, e);
    if (rc)
        return rc;
    rc = anchor_parse(text, bytes, key, a, e);
    free(text);
    return rc;
}
