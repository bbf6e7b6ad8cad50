/* Several stores become one: in one transaction, and not at all when they disagree. */
#include "goldens/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- shards --- */

static const char look_ups[] =
    "CREATE TEMP TABLE joined (model TEXT, battery TEXT, arm TEXT, path TEXT, run INTEGER, judged INTEGER,"
    " model_sha256 TEXT, battery_sha256 TEXT, golden_sha256 TEXT, commit_id TEXT, PRIMARY KEY (model, battery, arm));"
    "CREATE TEMP TABLE part (run INTEGER, shard TEXT, PRIMARY KEY (run, shard));"
    "CREATE TEMP TABLE origin (run INTEGER, prompt TEXT, phase INTEGER, path TEXT, PRIMARY KEY (run, prompt, phase))"
    " WITHOUT ROWID;";

static const char forget[] = "DROP TABLE IF EXISTS temp.joined; DROP TABLE IF EXISTS temp.part;"
                             " DROP TABLE IF EXISTS temp.origin";

/* A finished run of the key that this one must agree with: its number, or 0. */
static int find_judged(struct merge *m, const struct run_key *k, int64_t *run, struct err *e)
{
    sqlite3_stmt *q =
        db_query(m->to, e,
                 "SELECT id FROM run WHERE model_sha256 = ? AND battery_sha256 = ? AND golden_sha256 = ?"
                 " AND arm = ? AND commit_id = ? AND model = ? AND shard = '' AND finished IS NOT NULL"
                 " ORDER BY id DESC LIMIT 1",
                 "tttttt", k->model_sha256, k->battery_sha256, k->golden_sha256, k->arm, k->commit, k->model);
    int row = db_step(m->to, q, e);
    *run = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* Names every hash in which this run and an earlier one of the same model, battery and arm differ. */
static int compare_keys(struct merge *m, const struct run_key *k, sqlite3_stmt *seen)
{
    const struct {
        const char *what, *ours, *theirs;
    } part[] = {{"model", k->model_sha256, db_text(seen, 3)},
                {"battery", k->battery_sha256, db_text(seen, 4)},
                {"golden", k->golden_sha256, db_text(seen, 5)},
                {"commit", k->commit, db_text(seen, 6)}};
    int equal = 1;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (!strcmp(part[i].ours, part[i].theirs))
            continue;
        merge_conflict(m, "%s: %s %s %s was run with %s %.22s, %s with %.22s", m->path, k->model, k->battery, k->arm,
                       part[i].what, part[i].ours, db_text(seen, 0), part[i].theirs);
        equal = 0;
    }
    return equal;
}

/* The run that the shard's answers go to; *run = 0 after a conflict. */
static int find_target(struct merge *m, const struct run_key *k, const char *shard, int64_t *run, int *judged,
                       struct err *e)
{
    sqlite3_stmt *seen = db_query(m->to, e,
                                  "SELECT path, run, judged, model_sha256, battery_sha256, golden_sha256, commit_id"
                                  " FROM temp.joined WHERE model = ? AND battery = ? AND arm = ?",
                                  "ttt", k->model, k->battery, k->arm);
    int row = db_step(m->to, seen, e), rc = row < 0 ? e->code : OK;
    *run = *judged = 0;
    if (row == 1 && compare_keys(m, k, seen)) {
        *run = sqlite3_column_int64(seen, 1);
        *judged = sqlite3_column_int(seen, 2);
    } else if (!row) {
        if (m->into == MERGE_ANY)
            rc = find_judged(m, k, run, e);
        *judged = *run != 0;
        if (!rc && !*run)
            rc = run_open(m->to, k, m->into == MERGE_NEW, run, e);
        if (!rc)
            rc = db_run(m->to,
                        db_query(m->to, e, "INSERT INTO temp.joined VALUES (?,?,?,?,?,?,?,?,?,?)", "ttttiitttt",
                                 k->model, k->battery, k->arm, m->path, *run, (int64_t)*judged, k->model_sha256,
                                 k->battery_sha256, k->golden_sha256, k->commit),
                        e);
    }
    sqlite3_finalize(seen);
    if (!rc && *run)
        rc = db_run(m->to, db_query(m->to, e, "INSERT OR IGNORE INTO temp.part VALUES (?,?)", "it", *run, shard), e);
    return rc;
}

static const char *phase_name(int phase)
{
    static const char *const name[] = {"free", "forced decode", "forced prefill"};
    return phase >= 0 && phase < 3 ? name[phase] : "?";
}

static void name_difference(struct merge *m, sqlite3_stmt *q, sqlite3_stmt *have, const struct stream *a,
                            const struct stream *b)
{
    char how[120] = "in the rows of logits";
    const char *other = *db_text(have, 3) ? db_text(have, 3) : m->to->path;
    int i = 0;
    while (i < a->n && i < b->n && a->ids[i] == b->ids[i])
        i++;
    if (i < a->n && i < b->n)
        snprintf(how, sizeof how, "at token %d: %d there, %d here", i, b->ids[i], a->ids[i]);
    else if (a->n != b->n || a->finish != b->finish)
        snprintf(how, sizeof how, "in length: %d tokens there, %d here", b->n, a->n);
    merge_conflict(m, "%s: prompt %s, %s: contradicts %s %s", m->path, db_text(q, 0),
                   phase_name(sqlite3_column_int(q, 1)), other, how);
}

/* Columns of q: prompt, phase, sha256, bytes, record; of have: sha256, bytes, record, path. Counters may differ. */
static int compare_answers(struct merge *m, sqlite3_stmt *q, sqlite3_stmt *have, const struct stream *a, struct err *e)
{
    struct stream b = {0};
    if (!strcmp(db_text(q, 2), db_text(have, 0)))
        return OK;
    int rc = stream_open(have, 0, m->to->path, &b, e);
    if (!rc && !stream_equal(a, &b))
        name_difference(m, q, have, a, &b);
    stream_free(&b);
    return rc;
}

static int insert_answer(struct merge *m, int64_t run, sqlite3_stmt *q, struct err *e)
{
    int rc = db_run(m->to,
                    db_query(m->to, e, "INSERT INTO stream VALUES (?,?,?,?,?,?)", "ititib", run, db_text(q, 0),
                             sqlite3_column_int64(q, 1), db_text(q, 2), sqlite3_column_int64(q, 3),
                             sqlite3_column_blob(q, 4), sqlite3_column_bytes(q, 4)),
                    e);
    m->answers++;
    return rc ? rc
              : db_run(m->to,
                       db_query(m->to, e, "INSERT INTO temp.origin VALUES (?,?,?,?)", "itit", run, db_text(q, 0),
                                sqlite3_column_int64(q, 1), m->path),
                       e);
}

static int join_answer(struct merge *m, int64_t run, int judged, sqlite3_stmt *q, struct err *e)
{
    char what[1300];
    struct stream st = {0};
    snprintf(what, sizeof what, "%s: prompt %.60s, %s", m->path, db_text(q, 0), phase_name(sqlite3_column_int(q, 1)));
    sqlite3_stmt *have = NULL;
    int row = 0, rc = stream_open(q, 2, what, &st, e);
    if (rc)
        goto out;
    have = db_query(m->to, e,
                    "SELECT s.sha256, s.bytes, s.record, o.path FROM stream s LEFT JOIN temp.origin o"
                    " ON o.run = s.run AND o.prompt = s.prompt AND o.phase = s.phase"
                    " WHERE s.run = ? AND s.prompt = ? AND s.phase = ?",
                    "iti", run, db_text(q, 0), sqlite3_column_int64(q, 1));
    row = db_step(m->to, have, e);
    if (row < 0)
        rc = e->code;
    else if (row)
        rc = compare_answers(m, q, have, &st, e);
    else if (judged)
        merge_conflict(m, "%s: run %lld of %s was judged without it", what, (long long)run, m->to->path);
    else
        rc = insert_answer(m, run, q, e);
out:
    sqlite3_finalize(have);
    stream_free(&st);
    return rc;
}

static int join_run(struct merge *m, sqlite3_stmt *q, struct err *e)
{
    struct run_key key = {.model = db_text(q, 3),
                          .model_sha256 = db_text(q, 4),
                          .battery = db_text(q, 5),
                          .battery_sha256 = db_text(q, 6),
                          .golden_sha256 = db_text(q, 7),
                          .arm = db_text(q, 8),
                          .commit = db_text(q, 9)};
    int64_t run;
    int judged, row, rc = find_target(m, &key, db_text(q, 12), &run, &judged, e);
    if (rc || !run)
        return rc;
    /* It began when the first of its shards did. */
    if (!judged &&
        (rc = db_run(
             m->to,
             db_query(m->to, e, "UPDATE run SET started = min(started, ?) WHERE id = ?", "ti", db_text(q, 1), run), e)))
        return rc;
    sqlite3_stmt *a = db_query(m->from, e,
                               "SELECT prompt, phase, sha256, bytes, record FROM stream WHERE run = ?"
                               " ORDER BY prompt, phase",
                               "i", sqlite3_column_int64(q, 0));
    while (!rc && (row = db_step(m->from, a, e)) == 1)
        rc = join_answer(m, run, judged, a, e);
    sqlite3_finalize(a);
    return rc ? rc : e->code;
}

static int merge_runs(struct merge *m, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *q = db_query(m->from, e, "SELECT " MERGE_RUN_COLUMNS " FROM run ORDER BY id", "");
    while (!rc && (row = db_step(m->from, q, e)) == 1)
        rc = sqlite3_column_type(q, 2) == SQLITE_NULL ? join_run(m, q, e) : merge_copy_run(m, q, e);
    sqlite3_finalize(q);
    return rc ? rc : e->code;
}

/* --- the whole --- */

static int same_file(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int merge_one(struct merge *m, struct err *e)
{
    if (same_file(m->path, m->to->path))
        return FAIL(e, E_USAGE, "%s: a store cannot be merged into itself", m->path);
    if (access(m->path, F_OK))
        return FAIL(e, E_MISSING, "no store at %s", m->path);
    int rc = store_open(m->path, &m->from, e);
    if (rc || (rc = merge_goldens(m, e)) || (rc = merge_batteries(m, e)) || (rc = merge_runs(m, e)) ||
        (rc = merge_count_decisions(m, e)))
        goto out;
out:
    store_close(m->from);
    m->from = NULL;
    return rc;
}

static int list_texts(struct merge *m, const char *sql, int64_t run, json_t *list, struct err *e)
{
    int row;
    sqlite3_stmt *q = db_query(m->to, e, sql, "i", run);
    while ((row = db_step(m->to, q, e)) == 1)
        json_array_append_new(list, json_string(db_text(q, 0)));
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

static int describe_joined(struct merge *m, json_t *list, struct err *e)
{
    int row, rc = OK;
    sqlite3_stmt *q = db_query(m->to, e,
                               "SELECT j.run, j.model, j.battery, j.arm, j.judged,"
                               " (SELECT json_array_length(prompts) FROM battery b WHERE b.sha256 = j.battery_sha256),"
                               " (SELECT count(*) FROM stream s WHERE s.run = j.run AND s.phase = 0)"
                               " FROM temp.joined j ORDER BY j.run",
                               "");
    while (!rc && (row = db_step(m->to, q, e)) == 1) {
        int64_t run = sqlite3_column_int64(q, 0);
        json_t *shards = json_array(), *missing = json_array();
        json_array_append_new(list, json_pack("{s:I,s:s,s:s,s:s,s:b,s:i,s:i,s:o,s:o}", "run", (json_int_t)run, "model",
                                              db_text(q, 1), "battery", db_text(q, 2), "arm", db_text(q, 3), "judged",
                                              sqlite3_column_int(q, 4), "prompts", sqlite3_column_int(q, 5), "answered",
                                              sqlite3_column_int(q, 6), "shards", shards, "missing", missing));
        rc = list_texts(m,
                        "SELECT shard FROM temp.part WHERE run = ? AND shard <> ''"
                        " ORDER BY CAST(substr(shard, instr(shard, '/') + 1) AS INTEGER), CAST(shard AS INTEGER)",
                        run, shards, e);
        if (!rc)
            rc = list_texts(m,
                            "SELECT json_extract(p.value, '$.name') AS wanted FROM battery b, json_each(b.prompts) p"
                            " WHERE b.sha256 = (SELECT battery_sha256 FROM temp.joined WHERE run = ?1) AND NOT EXISTS"
                            " (SELECT 1 FROM stream s WHERE s.run = ?1 AND s.prompt = wanted AND s.phase = 0)",
                            run, missing, e);
    }
    sqlite3_finalize(q);
    return rc ? rc : e->code;
}

static int merge_all(struct merge *m, const char *const *path, int paths, void (*progress)(void *, int, int), void *arg,
                     struct err *e)
{
    int rc = db_exec(m->to, look_ups, e);
    for (int i = 0; i < paths && !rc; i++) {
        m->path = path[i];
        rc = merge_one(m, e);
        if (!rc && progress)
            progress(arg, i + 1, paths);
    }
    return rc;
}

int store_merge(struct store *s, const char *const *path, int paths, enum merge_into into,
                void (*progress)(void *, int done, int total), void *arg, json_t **report, struct err *e)
{
    struct merge m = {.to = s, .into = into, .conflicts = json_array()};
    json_t *joined = json_array();
    struct err own = {0};
    int rc = db_begin(s, &own);
    if (rc)
        goto out;
    rc = merge_all(&m, path, paths, progress, arg, &own);
    if (!rc)
        rc = describe_joined(&m, joined, &own);
    if (!rc && json_array_size(m.conflicts))
        db_end(s, E_INPUT, &own);
    else
        rc = db_end(s, rc, &own);
    sqlite3_exec(s->db, forget, NULL, NULL, NULL);
    if (!rc)
        *report = json_pack("{s:s,s:i,s:I,s:I,s:I,s:I,s:I,s:O,s:O}", "store", s->path, "stores", paths, "goldens",
                            (json_int_t)m.goldens, "batteries", (json_int_t)m.batteries, "runs_copied",
                            (json_int_t)m.runs, "answers", (json_int_t)m.answers, "decisions_left",
                            (json_int_t)m.decisions, "joined", joined, "conflicts", m.conflicts);
out:
    json_decref(joined);
    json_decref(m.conflicts);
    return rc ? FAIL(e, rc, "%s", own.text) : OK;
}
