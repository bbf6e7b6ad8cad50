/* What a store brings into another as it is: goldens, batteries, finished runs. */
#include "goldens/merge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void merge_conflict(struct merge *m, const char *fmt, ...)
{
    char text[1400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    db_complain(m->conflicts, text);
}

/* What a golden has become since it was imported: the ledger here says it too. */
static int keep_status(struct merge *m, const char *sha256, const char *status, const char *now, struct err *e)
{
    if (!strcmp(status, now))
        return OK;
    json_t *what = json_pack("{s:s,s:s}", "golden", sha256, "status", now);
    int rc = what ? ledger_add(m->to, "merge", what, e) : FAIL(e, E_NOMEM, "out of memory");
    json_decref(what);
    return rc;
}

/* Columns: sha256, status, model, battery, arm, bytes, text, row_hashes, status_now. */
static int insert_golden(struct merge *m, sqlite3_stmt *q, struct err *e)
{
    struct golden_name name = {db_text(q, 2), db_text(q, 3), db_text(q, 4), db_text(q, 1)};
    char *text, what[1300];
    struct sealed x;
    int64_t id;
    size_t bytes = (size_t)sqlite3_column_int64(q, 5);
    if (store_golden_verify(m->from, db_text(q, 0), e))
        return e->code;
    snprintf(what, sizeof what, "%s: golden %.12s", m->path, db_text(q, 0));
    int rc = db_unpack(sqlite3_column_blob(q, 6), (size_t)sqlite3_column_bytes(q, 6), bytes, what, &text, e);
    if (rc)
        return rc;
    seal(&x, text, bytes);
    x.row_hashes = sqlite3_column_blob(q, 7);
    x.row_bytes = sqlite3_column_bytes(q, 7);
    rc = golden_insert(m->to, &x, &name, &id, e);
    if (!rc)
        rc = keep_status(m, db_text(q, 0), db_text(q, 1), db_text(q, 8), e);
    m->goldens++;
    free(text);
    return rc;
}

int merge_goldens(struct merge *m, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *q = db_query(m->from, e,
                               "SELECT sha256, status, model, battery, arm, bytes, text, row_hashes, status_now"
                               " FROM golden_now ORDER BY id",
                               "");
    while (!rc && (row = db_step(m->from, q, e)) == 1) {
        sqlite3_stmt *have =
            db_query(m->to, e, "SELECT status_now FROM golden_now WHERE sha256 = ?", "t", db_text(q, 0));
        int known = db_step(m->to, have, e);
        if (known == 1 && strcmp(db_text(have, 0), db_text(q, 8)))
            merge_conflict(m, "golden %.12s (%s %s %s) is %s in %s and %s in %s or a store before it", db_text(q, 0),
                           db_text(q, 2), db_text(q, 3), db_text(q, 4), db_text(q, 8), m->path, db_text(have, 0),
                           m->to->path);
        sqlite3_finalize(have);
        rc = known < 0 ? e->code : known ? OK : insert_golden(m, q, e);
    }
    sqlite3_finalize(q);
    return rc ? rc : e->code;
}

/* Copies rows of the columns of `select` by `insert`, which has as many places. */
static int copy_rows(struct merge *m, sqlite3_stmt *from, const char *insert, int64_t *rows, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *to = db_query(m->to, e, insert, "");
    while (to && !rc && (row = db_step(m->from, from, e)) == 1) {
        for (int i = 0; i < sqlite3_column_count(from); i++)
            sqlite3_bind_value(to, i + 1, sqlite3_column_value(from, i));
        rc = db_step(m->to, to, e) < 0 ? e->code : OK;
        *rows += sqlite3_changes(m->to->db);
        sqlite3_reset(to);
    }
    sqlite3_finalize(to);
    sqlite3_finalize(from);
    return rc ? rc : e->code;
}

int merge_batteries(struct merge *m, struct err *e)
{
    int rc = copy_rows(m,
                       db_query(m->from, e,
                                "SELECT sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos, razor_ulp,"
                                " razor_cap_nats, note, prompts FROM battery ORDER BY id",
                                ""),
                       "INSERT OR IGNORE INTO battery (sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos,"
                       " razor_ulp, razor_cap_nats, note, prompts) VALUES (?,?,?,?,?,?,?,?,?)",
                       &m->batteries, e);
    return rc ? rc : battery_seal_new(m->to, e);
}

/* --- finished runs --- */

/* The summary names its run. */
static char *renumber(const char *summary, int64_t run)
{
    json_t *o = json_loads(summary, 0, NULL);
    if (o)
        json_object_set_new(o, "run", json_integer(run));
    char *text = o ? json_dumps(o, JSON_COMPACT) : strdup(summary);
    json_decref(o);
    return text;
}

static int is_there(struct merge *m, sqlite3_stmt *q, struct err *e)
{
    sqlite3_stmt *have = db_query(m->to, e,
                                  "SELECT 1 FROM run WHERE started = ? AND finished = ? AND model = ? AND"
                                  " model_sha256 = ? AND battery_sha256 = ? AND golden_sha256 = ? AND arm = ? AND"
                                  " commit_id = ? AND verdict = ?",
                                  "ttttttttt", db_text(q, 1), db_text(q, 2), db_text(q, 3), db_text(q, 4),
                                  db_text(q, 6), db_text(q, 7), db_text(q, 8), db_text(q, 9), db_text(q, 10));
    int row = db_step(m->to, have, e);
    sqlite3_finalize(have);
    return row;
}

int merge_copy_run(struct merge *m, sqlite3_stmt *q, struct err *e)
{
    char select[400];
    int64_t from = sqlite3_column_int64(q, 0);
    int there = is_there(m, q, e), rc;
    if (there)
        return there < 0 ? e->code : OK;
    if ((rc = store_run_verify(m->from, from, e))) /* sealed anew here, an edited run would look sound */
        return rc;
    rc = db_run(m->to,
                db_query(m->to, e,
                         "INSERT INTO run (started, finished, model, model_sha256, battery, battery_sha256,"
                         " golden_sha256, arm, commit_id, verdict) VALUES (?,?,?,?,?,?,?,?,?,?)",
                         "tttttttttt", db_text(q, 1), db_text(q, 2), db_text(q, 3), db_text(q, 4), db_text(q, 5),
                         db_text(q, 6), db_text(q, 7), db_text(q, 8), db_text(q, 9), db_text(q, 10)),
                e);
    int64_t run = sqlite3_last_insert_rowid(m->to->db);
    char *summary = rc ? NULL : renumber(db_text(q, 11), run);
    if (!rc)
        rc = db_run(m->to, db_query(m->to, e, "UPDATE run SET summary = ? WHERE id = ?", "ti", summary, run), e);
    free(summary);
    snprintf(select, sizeof select, "SELECT %lld, prompt, phase, sha256, bytes, record FROM stream WHERE run = ?",
             (long long)run);
    if (!rc)
        rc = copy_rows(m, db_query(m->from, e, select, "i", from), "INSERT INTO stream VALUES (?,?,?,?,?,?)",
                       &m->answers, e);
    snprintf(select, sizeof select,
             "SELECT %lld, prompt, position, forced, root, verdict, golden_id, arm_id, gap_nats, gap_ulp,"
             " gap_bound_nats, ulp, razor_nats, jitter_nats, self_gap_nats, ties FROM position WHERE run = ?",
             (long long)run);
    int64_t positions = 0;
    if (!rc)
        rc = copy_rows(m, db_query(m->from, e, select, "i", from),
                       "INSERT INTO position VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", &positions, e);
    if (!rc)
        rc = run_seal(m->to, run, e);
    m->runs++;
    return rc;
}

int merge_count_decisions(struct merge *m, struct err *e)
{
    sqlite3_stmt *q = db_query(m->from, e,
                               "SELECT count(*) FROM ledger WHERE kind NOT IN ('import', 'rows', 'run', 'battery',"
                               " 'merge')",
                               "");
    int row = db_step(m->from, q, e);
    m->decisions += row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}
