/* Goldens by hash, by status: what a ratification looks at. */
#include "goldens/seal.h"

#include <stdio.h>
#include <string.h>

int store_golden_status_of(struct store *s, const char *sha256, char status[16], struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT status_now FROM golden_now WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e);
    snprintf(status, 16, "%s", row == 1 ? db_text(q, 0) : "");
    sqlite3_finalize(q);
    return row < 0 ? e->code : row ? OK : FAIL(e, E_MISSING, "no golden %.12s in %s", sha256, s->path);
}

int store_golden_list(struct store *s, const char *model, const char *battery, const char *status, json_t **list,
                      struct err *e)
{
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, model, battery, arm, status_now, created, id FROM golden_now WHERE"
                               " (?1 = '' OR model = ?1) AND (?2 = '' OR battery = ?2) AND (?3 = '' OR status_now = ?3)"
                               " ORDER BY id",
                               "ttt", model, battery, status);
    json_t *all = json_array();
    int row;
    while ((row = db_step(s, q, e)) == 1)
        json_array_append_new(all, json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:I}", "golden", db_text(q, 0), "model",
                                             db_text(q, 1), "battery", db_text(q, 2), "arm", db_text(q, 3), "status",
                                             db_text(q, 4), "created", db_text(q, 5), "id",
                                             (json_int_t)sqlite3_column_int64(q, 6)));
    sqlite3_finalize(q);
    if (row < 0) {
        json_decref(all);
        return e->code;
    }
    *list = all;
    return OK;
}
