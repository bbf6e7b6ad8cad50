/* The ledger: what was imported, captured, ratified, flipped; each row hashes the one before. */
#include "goldens/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST "0000000000000000000000000000000000000000000000000000000000000000"

static void link_hash(const char *before, int64_t seq, const char *at, const char *kind, const char *what,
                      char out[SHA256_HEX_SIZE])
{
    char number[32];
    uint8_t hash[SHA256_BYTES];
    struct sha256 *h = sha256_new();
    snprintf(number, sizeof number, "%lld", (long long)seq);
    const char *part[] = {before, number, at, kind, what};
    for (int i = 0; i < 5; i++)
        sha256_add(h, part[i], strlen(part[i]) + 1); /* with its zero: parts cannot run into each other */
    sha256_end(h, hash);
    sha256_hex(hash, out);
}

int ledger_add(struct store *s, const char *kind, const json_t *what, struct err *e)
{
    char before[SHA256_HEX_SIZE] = FIRST, at[20], own[SHA256_HEX_SIZE];
    int64_t seq = 1;
    sqlite3_stmt *q = db_query(s, e, "SELECT seq, sha256 FROM ledger ORDER BY seq DESC LIMIT 1", "");
    int row = db_step(s, q, e);
    if (row == 1) {
        seq = sqlite3_column_int64(q, 0) + 1;
        snprintf(before, sizeof before, "%s", db_text(q, 1));
    }
    sqlite3_finalize(q);
    if (row < 0)
        return E_STORE;
    char *text = json_dumps(what, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return FAIL(e, E_NOMEM, "out of memory");
    db_now(at);
    link_hash(before, seq, at, kind, text, own);
    int rc = db_run(
        s, db_query(s, e, "INSERT INTO ledger VALUES (?,?,?,?,?,?)", "ittttt", seq, at, kind, text, before, own), e);
    free(text);
    return rc;
}

/* The head says what the last link is: a chain that lost its end is sound in itself. */
static int check_head(struct store *s, int64_t last, const char *sha256, int64_t *bad, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT seq, sha256 FROM head", "");
    int row = db_step(s, q, e);
    if (row == 1 ? sqlite3_column_int64(q, 0) != last || strcmp(db_text(q, 1), sha256) : !row && last)
        *bad = row == 1 && sqlite3_column_int64(q, 0) > last ? sqlite3_column_int64(q, 0) : last;
    sqlite3_finalize(q);
    return row < 0 ? E_STORE : OK;
}

int ledger_check(struct store *s, int64_t *bad, struct err *e)
{
    char before[SHA256_HEX_SIZE] = FIRST;
    int64_t next = 1;
    int row;
    sqlite3_stmt *q = db_query(s, e, "SELECT seq, at, kind, what, before, sha256 FROM ledger ORDER BY seq", "");
    *bad = 0;
    while ((row = db_step(s, q, e)) == 1 && !*bad) {
        char own[SHA256_HEX_SIZE];
        int64_t seq = sqlite3_column_int64(q, 0);
        link_hash(before, seq, db_text(q, 1), db_text(q, 2), db_text(q, 3), own);
        if (seq != next || strcmp(before, db_text(q, 4)) || strcmp(own, db_text(q, 5)))
            *bad = seq;
        snprintf(before, sizeof before, "%s", own);
        next = seq + 1;
    }
    sqlite3_finalize(q);
    if (row < 0)
        return E_STORE;
    return *bad ? OK : check_head(s, next - 1, before, bad, e);
}
