/* The ledger as other rooms see it. */
#include "goldens/db.h"

int store_ledger_add(struct store *s, const char *kind, const json_t *what, struct err *e)
{
    int rc = db_begin(s, e);
    return rc ? rc : db_end(s, ledger_add(s, kind, what, e), e);
}

int store_ledger_list(struct store *s, const char *kind, json_t **list, struct err *e)
{
    int row;
    json_t *a = json_array();
    sqlite3_stmt *q = db_query(
        s, e, "SELECT seq, at, kind, what, sha256 FROM ledger WHERE ?1 = '' OR kind = ?1 ORDER BY seq", "t", kind);
    while ((row = db_step(s, q, e)) == 1) {
        json_t *what = json_loads(db_text(q, 3), 0, NULL);
        json_array_append_new(a, json_pack("{s:I,s:s,s:s,s:o,s:s}", "seq", (json_int_t)sqlite3_column_int64(q, 0), "at",
                                           db_text(q, 1), "kind", db_text(q, 2), "what", what ? what : json_null(),
                                           "sha256", db_text(q, 4)));
    }
    sqlite3_finalize(q);
    if (row < 0) {
        json_decref(a);
        return e->code;
    }
    *list = a;
    return OK;
}
