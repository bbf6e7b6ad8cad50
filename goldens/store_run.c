/* Runs in the store: streams first, verdicts last. */
#include "goldens/seal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The newest unfinished run of the key that is nobody's, now ours; *run = 0: there is none. */
static int take_up(struct store *s, const struct run_key *k, int64_t *run, struct err *e)
{
    int row, mine = 0;
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT id FROM run WHERE model_sha256 = ? AND battery_sha256 = ? AND golden_sha256 = ?"
                               " AND arm = ? AND commit_id = ? AND model = ? AND shard = ? AND finished IS NULL"
                               " ORDER BY id DESC",
                               "ttttttt", k->model_sha256, k->battery_sha256, k->golden_sha256, k->arm, k->commit,
                               k->model, k->shard);
    *run = 0;
    while (!mine && (row = db_step(s, q, e)) == 1) {
        if (run_claim(s, sqlite3_column_int64(q, 0), &mine, e))
            row = -1;
        if (mine)
            *run = sqlite3_column_int64(q, 0);
        if (row < 0)
            break;
    }
    sqlite3_finalize(q);
    return e->code;
}

static int start(struct store *s, const struct run_key *k, int64_t *run, struct err *e)
{
    char now[20];
    int mine;
    db_now(now);
    int rc = db_run(s,
                    db_query(s, e,
                             "INSERT INTO run (started, model, model_sha256, battery, battery_sha256, golden_sha256,"
                             " arm, commit_id, shard) VALUES (?,?,?,?,?,?,?,?,?)",
                             "ttttttttt", now, k->model, k->model_sha256, k->battery, k->battery_sha256,
                             k->golden_sha256, k->arm, k->commit, k->shard),
                    e);
    if (rc)
        return rc;
    *run = sqlite3_last_insert_rowid(s->db);
    rc = run_claim(s, *run, &mine, e);
    return rc || mine ? rc : FAIL(e, E_STORE, "%s: run %lld is new and taken", s->path, (long long)*run);
}

int run_open(struct store *s, const struct run_key *k, int fresh, int64_t *run, struct err *e)
{
    int rc = OK;
    *run = 0;
    if (!fresh)
        rc = take_up(s, k, run, e);
    return rc || *run ? rc : start(s, k, run, e);
}

int store_run_open(struct store *s, const struct run_key *k, int fresh, int64_t *run, struct err *e)
{
    struct err own = {0};
    int rc = db_begin(s, &own); /* two processes must not both find it free */
    if (!rc)
        rc = db_end(s, run_open(s, k, fresh, run, &own), &own);
    return rc ? FAIL(e, rc, "%s", own.text) : OK;
}

/* --- streams: a record of fixed fields, then arrays; little-endian as this machine --- */

struct record_head {
    int32_t n, finish, rows, top_k, kind;
    uint8_t hashed, counters, zero[2];
};

static size_t record_size(const struct record_head *h)
{
    size_t rows = (size_t)h->rows, cells = rows * (size_t)h->top_k;
    return sizeof *h + 4 * (size_t)h->n + rows * 8 + cells * 8 + (h->hashed ? rows * SHA256_BYTES : 0) +
           h->counters * sizeof(struct counter);
}

static char *put(char *at, const void *data, size_t bytes)
{
    if (bytes)
        memcpy(at, data, bytes);
    return at + bytes;
}

static char *encode(const struct stream *st, size_t *bytes)
{
    const struct view *v = &st->view;
    struct record_head h = {.n = st->n,
                            .finish = st->finish,
                            .rows = v->rows,
                            .top_k = v->rows ? v->top_k : 0,
                            .kind = v->kind,
                            .hashed = v->row_sha256 != NULL,
                            .counters = (uint8_t)st->counters};
    size_t cells = (size_t)h.rows * (size_t)h.top_k;
    *bytes = record_size(&h);
    char *out = malloc(*bytes), *at = out;
    if (!out || st->counters > COUNTERS_MAX)
        return free(out), NULL;
    at = put(at, &h, sizeof h);
    at = put(at, st->ids, 4 * (size_t)h.n);
    at = put(at, v->logsumexp, 8 * (size_t)h.rows);
    at = put(at, v->top_ids, 4 * cells);
    at = put(at, v->top_values, 4 * cells);
    if (h.hashed)
        at = put(at, v->row_sha256, (size_t)h.rows * SHA256_BYTES);
    put(at, st->counter, h.counters * sizeof *st->counter);
    return out;
}

static const char *take(const char *at, void *data, size_t bytes)
{
    if (bytes)
        memcpy(data, at, bytes);
    return at + bytes;
}

static int decode(const char *at, size_t bytes, const char *what, struct stream *st, struct err *e)
{
    struct record_head h;
    if (bytes < sizeof h)
        return FAIL(e, E_STORE, "%s: too short", what);
    at = take(at, &h, sizeof h);
    if (h.n < 0 || h.rows < 0 || h.top_k < 0 || h.n > 1 << 28 || h.rows > 1 << 28 || h.top_k > 1 << 20 ||
        h.counters > COUNTERS_MAX || record_size(&h) != bytes)
        return FAIL(e, E_STORE, "%s: its fields contradict its length", what);
    size_t cells = (size_t)h.rows * (size_t)h.top_k;
    st->n = h.n;
    st->finish = (enum finish)h.finish;
    st->ids = malloc(h.n ? 4 * (size_t)h.n : 1);
    if (!st->ids || (h.rows && view_alloc(&st->view, h.rows, h.top_k, h.hashed, e)))
        return FAIL(e, E_NOMEM, "out of memory");
    st->view.kind = (enum value_kind)h.kind;
    at = take(at, st->ids, 4 * (size_t)h.n);
    at = take(at, st->view.logsumexp, 8 * (size_t)h.rows);
    at = take(at, st->view.top_ids, 4 * cells);
    at = take(at, st->view.top_values, 4 * cells);
    if (h.hashed && h.rows)
        at = take(at, st->view.row_sha256, (size_t)h.rows * SHA256_BYTES);
    if (!h.counters)
        return OK;
    if (!(st->counter = calloc(h.counters, sizeof *st->counter)))
        return FAIL(e, E_NOMEM, "out of memory");
    take(at, st->counter, h.counters * sizeof *st->counter);
    st->counters = h.counters;
    for (int i = 0; i < st->counters; i++)
        st->counter[i].name[sizeof st->counter[i].name - 1] = 0;
    return OK;
}

int store_stream_put(struct store *s, int64_t run, const char *prompt, enum run_phase phase, const struct stream *st,
                     struct err *e)
{
    size_t bytes, n;
    void *packed;
    uint8_t hash[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE];
    char *record = encode(st, &bytes);
    if (!record)
        return FAIL(e, E_NOMEM, "out of memory");
    sha256_of(record, bytes, hash);
    sha256_hex(hash, hex);
    int rc = db_pack(record, bytes, 1, &packed, &n, e);
    free(record);
    if (rc)
        return rc;
    rc = db_run(s,
                db_query(s, e, "INSERT OR REPLACE INTO stream VALUES (?,?,?,?,?,?)", "ititib", run, prompt,
                         (int64_t)phase, hex, (int64_t)bytes, packed, (int)n),
                e);
    free(packed);
    return rc;
}

int store_answers_put(struct store *s, int64_t run, const struct answer *a, int n, struct err *e)
{
    struct err own = {0};
    int rc = db_begin(s, &own);
    for (int i = 0; i < n && !rc; i++)
        rc = store_stream_put(s, run, a[i].prompt, a[i].phase, a[i].stream, &own);
    rc = db_end(s, rc, &own);
    return rc ? FAIL(e, rc, "%s", own.text) : OK;
}

int stream_open(sqlite3_stmt *q, int at, const char *what, struct stream *st, struct err *e)
{
    size_t bytes = (size_t)sqlite3_column_int64(q, at + 1);
    char *record, hex[SHA256_HEX_SIZE];
    uint8_t hash[SHA256_BYTES];
    if (db_unpack(sqlite3_column_blob(q, at + 2), (size_t)sqlite3_column_bytes(q, at + 2), bytes, what, &record, e))
        return e->code;
    sha256_of(record, bytes, hash);
    sha256_hex(hash, hex);
    int rc = strcmp(hex, db_text(q, at)) ? FAIL(e, E_STORE, "%s was edited", what) : decode(record, bytes, what, st, e);
    free(record);
    return rc;
}

int store_stream_get(struct store *s, int64_t run, const char *prompt, enum run_phase phase, struct stream *st,
                     int *found, struct err *e)
{
    char what[400];
    sqlite3_stmt *q =
        db_query(s, e, "SELECT sha256, bytes, record FROM stream WHERE run = ? AND prompt = ? AND phase = ?", "iti",
                 run, prompt, (int64_t)phase);
    int row = db_step(s, q, e), rc = row < 0 ? e->code : OK;
    memset(st, 0, sizeof *st);
    *found = row == 1;
    snprintf(what, sizeof what, "%.200s: run %lld prompt %.60s phase %d", s->path, (long long)run, prompt, (int)phase);
    if (row == 1 && (rc = stream_open(q, 0, what, st, e)))
        stream_free(st);
    sqlite3_finalize(q);
    return rc;
}

/* Both records, with the counters left out: they say how it was made, not what was said. */
int stream_equal(const struct stream *a, const struct stream *b)
{
    struct stream x = *a, y = *b;
    size_t n, m;
    x.counters = y.counters = 0;
    char *p = encode(&x, &n), *q = encode(&y, &m);
    int equal = p && q && n == m && !memcmp(p, q, n);
    free(p);
    free(q);
    return equal;
}

/* --- verdicts --- */

static void bind_reals(sqlite3_stmt *q, int at, const double *x, int n)
{
    for (int i = 0; i < n; i++) /* SQLite stores NaN as NULL */
        sqlite3_bind_double(q, at + i, x[i]);
}

/* One statement for all rows: a large battery has millions. */
static int put_positions(struct store *s, int64_t run, const struct verdict_row *row, int rows, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "INSERT INTO position VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", "i", run);
    int rc = q ? OK : e->code;
    for (const struct verdict_row *r = row; r < row + rows && !rc; r++) {
        const double real[] = {r->gap_nats,   r->gap_ulp,     r->gap_bound_nats, r->ulp,
                               r->razor_nats, r->jitter_nats, r->self_gap_nats};
        sqlite3_bind_text(q, 2, r->prompt, -1, SQLITE_STATIC);
        sqlite3_bind_int(q, 3, r->position);
        sqlite3_bind_int(q, 4, r->forced);
        sqlite3_bind_int(q, 5, r->root);
        sqlite3_bind_text(q, 6, verdict_name(r->verdict), -1, SQLITE_STATIC);
        sqlite3_bind_int(q, 7, r->golden_id);
        sqlite3_bind_int(q, 8, r->arm_id);
        bind_reals(q, 9, real, 7);
        sqlite3_bind_int(q, 16, r->ties);
        rc = db_step(s, q, e) < 0 ? e->code : OK;
        sqlite3_reset(q);
    }
    sqlite3_finalize(q);
    return rc;
}

int store_run_finish(struct store *s, int64_t run, const struct verdict_row *row, int rows, enum run_verdict v,
                     const json_t *summary, struct err *e)
{
    char now[20];
    char *text = json_dumps(summary, JSON_COMPACT);
    if (!text)
        return FAIL(e, E_NOMEM, "out of memory");
    int rc = db_begin(s, e);
    if (!rc) {
        rc = db_run(s, db_query(s, e, "DELETE FROM position WHERE run = ?", "i", run), e);
        if (!rc)
            rc = put_positions(s, run, row, rows, e);
        db_now(now);
        if (!rc)
            rc = db_run(s,
                        db_query(s, e, "UPDATE run SET finished = ?, verdict = ?, summary = ? WHERE id = ?", "ttti",
                                 now, run_verdict_name(v), text, run),
                        e);
        if (!rc && !sqlite3_changes(s->db))
            rc = FAIL(e, E_MISSING, "no run %lld in %s", (long long)run, s->path);
        if (!rc)
            rc = run_seal(s, run, e);
        rc = db_end(s, rc, e);
    }
    if (!rc)
        run_release(s, run);
    free(text);
    return rc;
}

/* --- looking --- */

static const char run_columns[] = "SELECT id, started, finished, model, battery, arm, verdict, summary, model_sha256,"
                                  " battery_sha256, golden_sha256, commit_id FROM run ";

static json_t *or_null(sqlite3_stmt *q, int column)
{
    return sqlite3_column_type(q, column) == SQLITE_NULL ? json_null() : json_string(db_text(q, column));
}

static json_t *run_object(sqlite3_stmt *q)
{
    const char *summary = db_text(q, 7);
    json_t *o = json_object();
    json_object_set_new(o, "run", json_integer(sqlite3_column_int64(q, 0)));
    json_object_set_new(o, "started", or_null(q, 1));
    json_object_set_new(o, "finished", or_null(q, 2));
    json_object_set_new(o, "model", or_null(q, 3));
    json_object_set_new(o, "battery", or_null(q, 4));
    json_object_set_new(o, "arm", or_null(q, 5));
    json_object_set_new(o, "verdict", or_null(q, 6));
    json_t *s = *summary ? json_loads(summary, 0, NULL) : NULL;
    json_object_set_new(o, "summary", s ? s : json_null());
    json_object_set_new(o, "model_sha256", or_null(q, 8));
    json_object_set_new(o, "battery_sha256", or_null(q, 9));
    json_object_set_new(o, "golden_sha256", or_null(q, 10));
    json_object_set_new(o, "commit", or_null(q, 11));
    return o;
}

int store_run_list(struct store *s, const struct run_filter *f, json_t **list, struct err *e)
{
    char sql[700];
    snprintf(sql, sizeof sql,
             "%s WHERE (?1 = '' OR model = ?1) AND (?2 = '' OR battery = ?2) AND (?3 = '' OR verdict = ?3)"
             " AND (?4 = '' OR started >= ?4) ORDER BY id DESC LIMIT ?5",
             run_columns);
    sqlite3_stmt *q = db_query(s, e, sql, "tttti", f->model, f->battery, f->verdict, f->since,
                               (int64_t)(f->limit > 0 ? f->limit : 50));
    int row;
    json_t *a = json_array();
    while ((row = db_step(s, q, e)) == 1)
        json_array_append_new(a, run_object(q));
    sqlite3_finalize(q);
    if (row < 0) {
        json_decref(a);
        return e->code;
    }
    *list = a;
    return OK;
}

static json_t *real_or_null(sqlite3_stmt *q, int column)
{
    return sqlite3_column_type(q, column) == SQLITE_NULL ? json_null() : json_real(sqlite3_column_double(q, column));
}

static int add_positions(struct store *s, int64_t run, json_t *o, struct err *e)
{
    static const char *const reals[] = {"gap_nats",   "gap_ulp",     "gap_bound_nats", "ulp",
                                        "razor_nats", "jitter_nats", "self_gap_nats",  NULL};
    sqlite3_stmt *q =
        db_query(s, e,
                 "SELECT prompt, position, forced, root, verdict, golden_id, arm_id, ties, gap_nats, gap_ulp,"
                 " gap_bound_nats, ulp, razor_nats, jitter_nats, self_gap_nats FROM position WHERE run = ?"
                 " ORDER BY prompt, position, forced",
                 "i", run);
    json_t *a = json_array();
    int row;
    json_object_set_new(o, "positions", a);
    while ((row = db_step(s, q, e)) == 1) {
        json_t *p = json_pack("{s:s,s:i,s:i,s:b,s:s,s:i,s:i,s:i}", "prompt", db_text(q, 0), "position",
                              sqlite3_column_int(q, 1), "forced", sqlite3_column_int(q, 2), "root",
                              sqlite3_column_int(q, 3), "verdict", db_text(q, 4), "golden_id", sqlite3_column_int(q, 5),
                              "arm_id", sqlite3_column_int(q, 6), "ties", sqlite3_column_int(q, 7));
        for (int i = 0; reals[i]; i++)
            json_object_set_new(p, reals[i], real_or_null(q, 8 + i));
        json_array_append_new(a, p);
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

int store_run_get(struct store *s, int64_t run, json_t **object, struct err *e)
{
    char sql[600];
    snprintf(sql, sizeof sql, "%s WHERE ?1 = 0 OR id = ?1 ORDER BY id DESC LIMIT 1", run_columns);
    sqlite3_stmt *q = db_query(s, e, sql, "i", run);
    int row = db_step(s, q, e), rc = row < 0 ? e->code : OK;
    json_t *o = row == 1 ? run_object(q) : NULL;
    if (!row)
        rc = run ? FAIL(e, E_MISSING, "no run %lld in %s; `assay list` names them", (long long)run, s->path)
                 : FAIL(e, E_MISSING, "no run yet in %s", s->path);
    sqlite3_finalize(q);
    if (!rc)
        rc = add_positions(s, json_integer_value(json_object_get(o, "run")), o, e);
    if (rc)
        json_decref(o);
    else
        *object = o;
    return rc;
}

int store_stream_verify_all(struct store *s, json_t *bad, int64_t *checked, struct err *e)
{
    int row;
    sqlite3_stmt *q = db_query(s, e, "SELECT sha256, bytes, record, run, prompt, phase FROM stream", "");
    while ((row = db_step(s, q, e)) == 1) {
        struct stream st = {0};
        struct err own = {0};
        char what[300];
        snprintf(what, sizeof what, "stream of run %lld prompt %.60s phase %d", (long long)sqlite3_column_int64(q, 3),
                 db_text(q, 4), sqlite3_column_int(q, 5));
        if (stream_open(q, 0, what, &st, &own))
            db_complain(bad, own.text);
        stream_free(&st);
        ++*checked;
    }
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}
