#include "goldens/db.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

int db_fail(struct store *s, const char *what, struct err *e)
{
    int code = s->failed = sqlite3_extended_errcode(s->db) & 0xff;
    const char *advice = code == SQLITE_READONLY ? " (the file or its folder is read-only)"
                         : code == SQLITE_FULL   ? " (the disk is full; what was stored before is intact)"
                         : code == SQLITE_IOERR
                             ? " (a limit on file sizes, or the disk; what was stored before is intact)"
                         : code == SQLITE_BUSY ? " (another process is writing; try again)"
                                               : "";
    return FAIL(e, E_STORE, "%s: %s: %s%s", s->path, what, sqlite3_errmsg(s->db), advice);
}

int db_exec(struct store *s, const char *sql, struct err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) ? db_fail(s, "cannot run a statement", e) : OK;
}

sqlite3_stmt *db_query(struct store *s, struct err *e, const char *sql, const char *types, ...)
{
    sqlite3_stmt *q;
    if (sqlite3_prepare_v2(s->db, sql, -1, &q, NULL)) {
        db_fail(s, "cannot prepare a statement", e);
        return NULL;
    }
    va_list ap;
    va_start(ap, types);
    for (int i = 1; *types; types++, i++) {
        if (*types == 'i') {
            sqlite3_bind_int64(q, i, va_arg(ap, int64_t));
        } else if (*types == 'r') {
            sqlite3_bind_double(q, i, va_arg(ap, double)); /* SQLite stores NaN as NULL */
        } else if (*types == 't') {
            const char *t = va_arg(ap, const char *);
            sqlite3_bind_text(q, i, t ? t : "", -1, SQLITE_TRANSIENT);
        } else {
            const void *data = va_arg(ap, const void *);
            int bytes = va_arg(ap, int);
            if (data)
                sqlite3_bind_blob(q, i, data, bytes, SQLITE_TRANSIENT);
        }
    }
    va_end(ap);
    return q;
}

int db_step(struct store *s, sqlite3_stmt *q, struct err *e)
{
    if (!q)
        return -1;
    int rc = sqlite3_step(q);
    if (rc == SQLITE_ROW)
        return 1;
    if (rc == SQLITE_DONE)
        return 0;
    db_fail(s, "cannot read or write", e);
    return -1;
}

int db_run(struct store *s, sqlite3_stmt *q, struct err *e)
{
    if (!q)
        return e ? e->code : E_STORE;
    int rc = db_step(s, q, e);
    sqlite3_finalize(q);
    return rc < 0 ? E_STORE : OK;
}

int db_begin(struct store *s, struct err *e)
{
    return db_exec(s, "BEGIN IMMEDIATE", e);
}

int db_end(struct store *s, int rc, struct err *e)
{
    if (rc == OK)
        rc = db_exec(s, "COMMIT", e);
    if (rc != OK && !sqlite3_get_autocommit(s->db))
        sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    return rc;
}

void db_now(char out[20])
{
    time_t t = time(NULL);
    struct tm tm;
    gmtime_r(&t, &tm);
    strftime(out, 20, "%Y-%m-%d %H:%M:%S", &tm);
}

const char *db_text(sqlite3_stmt *q, int column)
{
    const unsigned char *t = sqlite3_column_text(q, column);
    return t ? (const char *)t : "";
}

void db_complain(json_t *bad, const char *text)
{
    char plain[1400];
    size_t n = 0;
    json_t *line = json_string(text);
    for (; !line && text[n] && n < sizeof plain - 1; n++)
        plain[n] = (char)((unsigned char)text[n] < 0x80 ? text[n] : '?');
    plain[n] = 0;
    json_array_append_new(bad, line ? line : json_string(plain));
}

int db_pack(const void *data, size_t bytes, int level, void **out, size_t *packed, struct err *e)
{
    size_t room = ZSTD_compressBound(bytes);
    void *p = malloc(room ? room : 1);
    if (!p)
        return FAIL(e, E_NOMEM, "out of memory for %zu bytes", bytes);
    size_t n = ZSTD_compress(p, room, data, bytes, level);
    if (ZSTD_isError(n)) {
        free(p);
        return FAIL(e, E_INTERNAL, "zstd: %s", ZSTD_getErrorName(n));
    }
    *out = p;
    *packed = n;
    return OK;
}

int db_unpack(const void *packed, size_t n, size_t bytes, const char *what, char **out, struct err *e)
{
    char *p = bytes <= (size_t)1 << 31 ? malloc(bytes + 1) : NULL;
    if (!p)
        return FAIL(e, E_STORE, "%s: claims %zu bytes", what, bytes);
    size_t got = ZSTD_decompress(p, bytes, packed, n);
    if (ZSTD_isError(got) || got != bytes) {
        free(p);
        return FAIL(e, E_STORE, "%s: its blob is damaged (%s)", what,
                    ZSTD_isError(got) ? ZSTD_getErrorName(got) : "wrong length");
    }
    p[bytes] = 0;
    *out = p;
    return OK;
}
