/* Seals of what the store keeps in rows: finished runs with their answers and verdicts, batteries. */
#include "goldens/seal.h"

#include <stdio.h>
#include <string.h>

/* Every column with its type and length: no two different rows give the same bytes. */
static void add_row(struct sha256 *h, sqlite3_stmt *q)
{
    unsigned char line[1024];
    size_t at = 0;
    for (int i = 0; i < sqlite3_column_count(q); i++) {
        int type = sqlite3_column_type(q, i), text = type == SQLITE_TEXT || type == SQLITE_BLOB;
        double x = type == SQLITE_FLOAT ? sqlite3_column_double(q, i) : 0;
        int64_t n = type == SQLITE_INTEGER ? sqlite3_column_int64(q, i) : 0;
        const void *data = text                   ? sqlite3_column_blob(q, i)
                           : type == SQLITE_FLOAT ? (const void *)&x
                                                  : (const void *)&n;
        uint64_t bytes = text ? (uint64_t)sqlite3_column_bytes(q, i) : 8;
        if (at + 9 + bytes > sizeof line) {
            sha256_add(h, line, at);
            at = 0;
        }
        line[at++] = (unsigned char)type;
        memcpy(line + at, &bytes, 8);
        at += 8;
        if (at + bytes > sizeof line) {
            sha256_add(h, line, at);
            sha256_add(h, data, bytes);
            at = 0;
        } else if (bytes) {
            memcpy(line + at, data, bytes);
            at += bytes;
        }
    }
    sha256_add(h, line, at);
}

static int add_rows_of(struct store *s, struct sha256 *h, sqlite3_stmt *q, int *rows, struct err *e)
{
    int row;
    *rows = 0;
    for (; (row = db_step(s, q, e)) == 1; ++*rows)
        add_row(h, q);
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* "" when there is no such run. */
static int run_hash(struct store *s, int64_t run, char out[SHA256_HEX_SIZE], struct err *e)
{
    static const char *const part[] = {
        "SELECT id, started, finished, model, model_sha256, battery, battery_sha256, golden_sha256, arm, commit_id,"
        " shard, verdict, summary FROM run WHERE id = ?",
        "SELECT prompt, phase, sha256, bytes FROM stream WHERE run = ? ORDER BY prompt, phase",
        "SELECT prompt, position, forced, root, verdict, golden_id, arm_id, gap_nats, gap_ulp, gap_bound_nats, ulp,"
        " razor_nats, jitter_nats, self_gap_nats, ties FROM position WHERE run = ? ORDER BY prompt, position, forced"};
    struct sha256 *h = sha256_new();
    uint8_t hash[SHA256_BYTES];
    int rows, there = 0;
    for (int i = 0; i < 3 && !e->code; i++) {
        add_rows_of(s, h, db_query(s, e, part[i], "i", run), &rows, e);
        there |= !i && rows;
    }
    sha256_end(h, hash);
    sha256_hex(hash, out);
    if (!there)
        out[0] = 0;
    return e->code;
}

static int battery_hash(struct store *s, const char *sha256, char out[SHA256_HEX_SIZE], struct err *e)
{
    struct sha256 *h = sha256_new();
    uint8_t hash[SHA256_BYTES];
    int rows, rc = add_rows_of(s, h,
                               db_query(s, e,
                                        "SELECT sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos, razor_ulp,"
                                        " razor_cap_nats, note, prompts FROM battery WHERE sha256 = ?",
                                        "t", sha256),
                               &rows, e);
    sha256_end(h, hash);
    sha256_hex(hash, out);
    return rc;
}

static int add_seal(struct store *s, const char *kind, json_t *what, struct err *e)
{
    int rc = what ? ledger_add(s, kind, what, e) : FAIL(e, E_NOMEM, "out of memory");
    json_decref(what);
    return rc;
}

int run_seal(struct store *s, int64_t run, struct err *e)
{
    char hash[SHA256_HEX_SIZE];
    int rc = run_hash(s, run, hash, e);
    return rc ? rc : add_seal(s, "run", json_pack("{s:I,s:s}", "run", (json_int_t)run, "sealed", hash), e);
}

int battery_seal(struct store *s, const char *sha256, struct err *e)
{
    char hash[SHA256_HEX_SIZE];
    int rc = battery_hash(s, sha256, hash, e);
    return rc ? rc : add_seal(s, "battery", json_pack("{s:s,s:s}", "sealed_battery", sha256, "sealed", hash), e);
}

int battery_seal_new(struct store *s, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256 FROM battery WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE"
                               " json_extract(what, '$.sealed_battery') = battery.sha256) ORDER BY id",
                               "");
    while ((row = db_step(s, q, e)) == 1 && !rc)
        rc = battery_seal(s, db_text(q, 0), e);
    sqlite3_finalize(q);
    return row < 0 ? e->code : rc;
}

/* 1 when they agree, else says what is wrong. */
static int agree(const char *what, const char *now, const char *sealed, char *text, size_t size)
{
    if (!*sealed)
        snprintf(text, size, "%s has no seal in the ledger", what);
    else if (strcmp(now, sealed))
        snprintf(text, size, "%s was edited: its rows hash to %s, they were sealed as %s", what, now, sealed);
    return *sealed && !strcmp(now, sealed);
}

int store_run_verify(struct store *s, int64_t run, struct err *e)
{
    char now[SHA256_HEX_SIZE], what[64], text[400];
    if (run_hash(s, run, now, e))
        return e->code;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT json_extract(what, '$.sealed') FROM ledger WHERE json_extract(what, '$.run') = ?"
                               " AND kind = 'run' ORDER BY seq DESC LIMIT 1",
                               "i", run);
    int row = db_step(s, q, e), rc = row < 0 ? e->code : OK;
    snprintf(what, sizeof what, "run %lld", (long long)run);
    if (!rc && !agree(what, now, row ? db_text(q, 0) : "", text, sizeof text))
        rc = FAIL(e, E_STORE, "%s: %s", s->path, text);
    sqlite3_finalize(q);
    return rc;
}

static void compare(json_t *bad, const char *what, const char *now, const char *sealed)
{
    char text[400];
    if (!agree(what, now, sealed, text, sizeof text))
        db_complain(bad, text);
}

static int check_runs(struct store *s, json_t *bad, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT id, (SELECT CASE WHEN json_valid(what) THEN json_extract(what, '$.sealed') END"
                               " FROM ledger WHERE json_extract(what, '$.run') = run.id AND kind = 'run'"
                               " ORDER BY seq DESC LIMIT 1) FROM run WHERE finished IS NOT NULL ORDER BY id",
                               "");
    while ((row = db_step(s, q, e)) == 1 && !rc) {
        char now[SHA256_HEX_SIZE], what[64];
        snprintf(what, sizeof what, "run %lld", (long long)sqlite3_column_int64(q, 0));
        if (!(rc = run_hash(s, sqlite3_column_int64(q, 0), now, e)))
            compare(bad, what, now, db_text(q, 1));
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : rc;
}

static int check_batteries(struct store *s, json_t *bad, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *q =
        db_query(s, e,
                 "SELECT sha256, name, (SELECT CASE WHEN json_valid(what) THEN json_extract(what, '$.sealed') END"
                 " FROM ledger WHERE json_extract(what, '$.sealed_battery') = battery.sha256 AND kind = 'battery'"
                 " ORDER BY seq DESC LIMIT 1) FROM battery ORDER BY id",
                 "");
    while ((row = db_step(s, q, e)) == 1 && !rc) {
        char now[SHA256_HEX_SIZE], what[128];
        snprintf(what, sizeof what, "battery %.64s (%.12s)", db_text(q, 1), db_text(q, 0));
        if (!(rc = battery_hash(s, db_text(q, 0), now, e)))
            compare(bad, what, now, db_text(q, 2));
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : rc;
}

int seal_check_all(struct store *s, json_t *bad, struct err *e)
{
    int rc = check_runs(s, bad, e);
    return rc ? rc : check_batteries(s, bad, e);
}
