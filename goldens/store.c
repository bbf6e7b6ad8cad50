#include "goldens/owed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

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

enum { WAIT_S = 30, PAUSE_MS = 20 };

static int set_up(struct store *s, struct err *e)
{
    int version = 0;
    sqlite3_busy_timeout(s->db, WAIT_S * 1000);
    /* A file that is refused stays as it is, also its write-ahead log. */
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (store_version(s, &version, e))
        return e->code;
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    /* FULL: what was stored is there after a power cut too. */
    if (db_exec(s, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL", e))
        return e->code;
    return store_migrate(s, version, e);
}

/* Turning a new file into a write-ahead log, and recovering one after a crash, fail at once while another process does
 * the same: SQLite asks no busy handler there. So the whole of it is tried again. */
static int set_up_patiently(struct store *s, struct err *e)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (;;) {
        struct err why = {0};
        int rc = set_up(s, &why);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (!rc)
            return OK;
        if (s->failed != SQLITE_BUSY || now.tv_sec - start.tv_sec >= WAIT_S) {
            *e = why;
            return rc;
        }
        sqlite3_sleep(PAUSE_MS);
    }
}

int store_open(const char *path, struct store **out, struct err *e)
{
    if (!*path || strlen(path) >= sizeof((struct store *)0)->path)
        return FAIL(e, E_USAGE, "a store needs a file name of 1 to %zu bytes", sizeof((struct store *)0)->path - 1);
    if (make_folders(path, e))
        return e->code;
    struct store *s = calloc(1, sizeof *s);
    if (!s)
        return FAIL(e, E_NOMEM, "out of memory");
    snprintf(s->path, sizeof s->path, "%s", path);
    int rc = sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc)
        rc = FAIL(e, E_STORE, "%s: %s (%s)", path, s->db ? sqlite3_errmsg(s->db) : "out of memory",
                  strerror(s->db ? sqlite3_system_errno(s->db) : ENOMEM));
    else
        rc = set_up_patiently(s, e);
    if (rc) {
        store_close(s);
        return rc;
    }
    owed_settle(s);
    *out = s;
    return OK;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    sqlite3_close(s->db);
    run_release_all(s);
    free(s);
}
