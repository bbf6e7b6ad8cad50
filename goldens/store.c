#include "goldens/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define VERSION 1

extern const char goldens_schema_sql[]; /* schema.sql, made a string by the Makefile */

static int make_folders(const char *path, struct err *e)
{
    char part[1024];
    for (const char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(p - path), path);
        if (mkdir(part, 0755) && errno != EEXIST)
            return FAIL(e, E_STORE, "%s: cannot make the folder: %s", part, strerror(errno));
    }
    return OK;
}

static int version_of(struct store *s, int *version, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "PRAGMA user_version", "");
    int row = db_step(s, q, e);
    if (row == 1)
        *version = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* Each step lifts the store by one version, in one transaction. */
static int migrate(struct store *s, int from, struct err *e)
{
    char set[64];
    if (from == VERSION)
        return OK;
    if (db_begin(s, e))
        return e->code;
    int now = from, rc = version_of(s, &now, e); /* another process may have been faster */
    if (rc == OK && now == 0)
        rc = db_exec(s, goldens_schema_sql, e);
    snprintf(set, sizeof set, "PRAGMA user_version = %d", VERSION);
    if (rc == OK)
        rc = db_exec(s, set, e);
    return db_end(s, rc, e);
}

static int set_up(struct store *s, struct err *e)
{
    int version = 0;
    sqlite3_busy_timeout(s->db, 10000);
    if (version_of(s, &version, e))
        return e->code;
    if (version > VERSION)
        return FAIL(e, E_STORE, "%s: version %d was written by a newer assay; this one knows up to %d", s->path,
                    version, VERSION);
    if (db_exec(s, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL", e))
        return e->code;
    return migrate(s, version, e);
}

int store_open(const char *path, struct store **out, struct err *e)
{
    if (make_folders(path, e))
        return e->code;
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return FAIL(e, E_NOMEM, "out of memory");
    snprintf(s->path, sizeof s->path, "%s", path);
    int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
    if (rc)
        rc = FAIL(e, E_STORE, "%s: %s", path, s->db ? sqlite3_errmsg(s->db) : "out of memory");
    else
        rc = set_up(s, e);
    if (rc) {
        store_close(s);
        return rc;
    }
    *out = s;
    return OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    free(s);
}
