/* Goldens and batteries in the store. */
#include "goldens/db.h"
#include "goldens/exchange.h"
#include "harness/base/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- goldens --- */

struct sealed {
    const char *text;
    size_t bytes;
    char sha256[SHA256_HEX_SIZE];
    const void *row_hashes; /* NULL: none */
    int row_bytes;
};

static void seal(struct sealed *x, const char *text, size_t bytes)
{
    uint8_t hash[SHA256_BYTES];
    *x = (struct sealed){.text = text, .bytes = bytes};
    sha256_of(text, bytes, hash);
    sha256_hex(hash, x->sha256);
}

static int find_golden(struct store *s, const char *sha256, int64_t *id, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT id FROM golden WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e);
    *id = row == 1 ? sqlite3_column_int64(q, 0) : 0;
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* Inside a transaction. */
static int insert_golden(struct store *s, const struct sealed *x, const char *model, const char *battery,
                         const char *arm, const char *status, int64_t *id, struct err *e)
{
    void *packed;
    size_t n;
    char now[20];
    if (find_golden(s, x->sha256, id, e) || *id)
        return e->code;
    if (db_pack(x->text, x->bytes, 9, &packed, &n, e))
        return e->code;
    db_now(now);
    int rc =
        db_run(s,
               db_query(s, e,
                        "INSERT INTO golden (sha256, model, battery, arm, status, bytes, text, row_hashes, created)"
                        " VALUES (?,?,?,?,?,?,?,?,?)",
                        "tttttibbt", x->sha256, model, battery, arm, status, (int64_t)x->bytes, packed, (int)n,
                        x->row_hashes, x->row_bytes, now),
               e);
    free(packed);
    if (rc)
        return rc;
    *id = sqlite3_last_insert_rowid(s->db);
    json_t *what = json_pack("{s:s,s:s,s:s,s:s,s:s}", "golden", x->sha256, "model", model, "battery", battery, "arm",
                             arm, "status", status);
    rc = ledger_add(s, "import", what, e);
    json_decref(what);
    return rc;
}

static uint8_t *gather_hashes(const struct golden *g, int *bytes)
{
    int rows = 0;
    for (int i = 0; i < g->prompts; i++) {
        if (!g->prompt[i].decode.row_sha256)
            return NULL;
        rows += g->prompt[i].decode.rows;
    }
    uint8_t *all = malloc(rows ? (size_t)rows * SHA256_BYTES : 1), *at = all;
    for (int i = 0; all && i < g->prompts; i++) {
        size_t n = (size_t)g->prompt[i].decode.rows * SHA256_BYTES;
        memcpy(at, g->prompt[i].decode.row_sha256, n);
        at += n;
    }
    *bytes = rows * SHA256_BYTES;
    return all;
}

int store_golden_put(struct store *s, const struct golden *g, const char *status, int64_t *id, struct err *e)
{
    char *text;
    size_t bytes;
    struct sealed x;
    int row_bytes = 0;
    if (golden_text(g, &text, &bytes, e))
        return e->code;
    uint8_t *rows = gather_hashes(g, &row_bytes);
    seal(&x, text, bytes);
    x.row_hashes = rows;
    x.row_bytes = row_bytes;
    int rc = db_begin(s, e);
    if (!rc)
        rc = db_end(s, insert_golden(s, &x, g->model, g->battery, g->arm, status, id, e), e);
    free(rows);
    free(text);
    return rc;
}

/* Unpacks, checks the seal, parses. Columns: sha256, bytes, text, row_hashes. */
static int open_sealed(sqlite3_stmt *q, const char *what, struct golden **g, struct err *e)
{
    char *text;
    struct sealed x;
    size_t bytes = (size_t)sqlite3_column_int64(q, 1);
    if (db_unpack(sqlite3_column_blob(q, 2), (size_t)sqlite3_column_bytes(q, 2), bytes, what, &text, e))
        return e->code;
    seal(&x, text, bytes);
    int rc = OK;
    if (strcmp(x.sha256, db_text(q, 0)))
        rc = FAIL(e, E_STORE, "%s was edited: its text hashes to %s, it was sealed as %s", what, x.sha256,
                  db_text(q, 0));
    else if (g && !(rc = golden_parse(text, bytes, what, g, e)))
        rc = golden_attach_hashes(*g, sqlite3_column_blob(q, 3), sqlite3_column_bytes(q, 3) / SHA256_BYTES, what, e);
    free(text);
    return rc;
}

int store_golden_get(struct store *s, const char *model, const char *battery, const char *arm, struct golden **g,
                     char sha256[SHA256_HEX_SIZE], struct err *e)
{
    char what[320];
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, bytes, text, row_hashes, arm FROM golden WHERE model = ? AND battery = ?"
                               " AND (arm = ? OR (? = '' AND status = 'active'))"
                               " ORDER BY arm = 'eager' DESC, status = 'active' DESC, id DESC LIMIT 1",
                               "tttt", model, battery, arm, arm);
    int row = db_step(s, q, e), rc;
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_MISSING, "no golden of model %s and battery %s%s%s in %s; `assay import golden FILE` adds one",
                  model, battery, arm ? ", arm " : "", arm ? arm : "", s->path);
    else {
        snprintf(what, sizeof what, "%.200s: golden %.12s", s->path, db_text(q, 0));
        rc = open_sealed(q, what, g, e);
        snprintf(sha256, SHA256_HEX_SIZE, "%s", db_text(q, 0));
    }
    sqlite3_finalize(q);
    return rc;
}

int store_golden_verify(struct store *s, const char *sha256, struct err *e)
{
    char what[320];
    sqlite3_stmt *q =
        db_query(s, e, "SELECT sha256, bytes, text, row_hashes FROM golden WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e), rc;
    snprintf(what, sizeof what, "%.200s: golden %.12s", s->path, sha256);
    if (row < 0)
        rc = e->code;
    else
        rc = row ? open_sealed(q, what, NULL, e) : FAIL(e, E_STORE, "%s is no longer in the store", what);
    sqlite3_finalize(q);
    return rc;
}

/* --- batteries --- */

static char *prompts_text(const struct battery *b)
{
    json_t *a = json_array();
    for (int i = 0; a && i < b->prompts; i++) {
        const struct battery_prompt *p = &b->prompt[i];
        json_t *ids = json_array(), *o = json_pack("{s:s}", "name", p->name);
        for (int j = 0; j < p->n; j++)
            json_array_append_new(ids, json_integer(p->ids[j]));
        if (p->text)
            json_object_set_new(o, "text", json_string(p->text));
        json_object_set_new(o, "ids", ids);
        json_array_append_new(a, o);
    }
    char *text = a ? json_dumps(a, JSON_COMPACT) : NULL;
    json_decref(a);
    return text;
}

static int insert_battery(struct store *s, const struct battery *b, struct err *e)
{
    char *prompts = prompts_text(b);
    if (!prompts)
        return FAIL(e, E_NOMEM, "out of memory");
    int rc =
        db_run(s,
               db_query(s, e,
                        "INSERT OR IGNORE INTO battery (sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos,"
                        " razor_ulp, razor_cap_nats, note, prompts) VALUES (?,?,?,?,?,?,?,?,?)",
                        "tttiirrtt", b->sha256, b->name, b->tokenizer_sha256, (int64_t)b->max_new_tokens,
                        (int64_t)b->stop_at_eos, b->razor_ulp, b->razor_cap_nats, b->note, prompts),
               e);
    free(prompts);
    return rc;
}

int store_battery_put(struct store *s, const struct battery *b, struct err *e)
{
    return insert_battery(s, b, e);
}

static int fill_prompts(struct battery *b, const char *text, const char *where, struct err *e)
{
    json_t *a = json_parse(text, strlen(text), where, 0, e);
    int rc = a ? OK : e->code, n = (int)json_array_size(a);
    b->prompt = calloc(n ? (size_t)n : 1, sizeof *b->prompt);
    if (!rc && !b->prompt)
        rc = FAIL(e, E_NOMEM, "out of memory");
    for (int i = 0; !rc && i < n; i++) {
        const json_t *o = json_array_get(a, (size_t)i), *text_of = json_object_get(o, "text");
        const char *name;
        b->prompts = i + 1;
        if ((rc = json_get_str(o, "name", &name, where, e)) ||
            (rc = json_get_ids(o, "ids", 0, INT32_MAX, &b->prompt[i].ids, &b->prompt[i].n, where, e)))
            break;
        b->prompt[i].name = strdup(name);
        b->prompt[i].text = text_of ? strdup(json_string_value(text_of)) : NULL;
    }
    json_decref(a);
    return rc;
}

int store_battery_get(struct store *s, const char *name, struct battery **out, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e,
                               "SELECT sha256, name, tokenizer_sha256, max_new_tokens, stop_at_eos, razor_ulp,"
                               " razor_cap_nats, note, prompts FROM battery WHERE name = ? ORDER BY id DESC LIMIT 1",
                               "t", name);
    int row = db_step(s, q, e), rc = OK;
    struct battery *b = row == 1 ? calloc(1, sizeof *b) : NULL;
    if (row < 0)
        rc = e->code;
    else if (!row)
        rc = FAIL(e, E_MISSING, "no battery \"%s\" in %s; `assay battery list` names them", name, s->path);
    else if (!b)
        rc = FAIL(e, E_NOMEM, "out of memory");
    if (!rc) {
        snprintf(b->sha256, sizeof b->sha256, "%s", db_text(q, 0));
        snprintf(b->name, sizeof b->name, "%s", db_text(q, 1));
        snprintf(b->tokenizer_sha256, sizeof b->tokenizer_sha256, "%s", db_text(q, 2));
        b->max_new_tokens = sqlite3_column_int(q, 3);
        b->stop_at_eos = sqlite3_column_int(q, 4);
        b->razor_ulp = sqlite3_column_double(q, 5);
        b->razor_cap_nats = sqlite3_column_double(q, 6);
        snprintf(b->note, sizeof b->note, "%s", db_text(q, 7));
        rc = fill_prompts(b, db_text(q, 8), s->path, e);
    }
    sqlite3_finalize(q);
    if (rc)
        battery_free(b);
    else
        *out = b;
    return rc;
}

/* --- what ships --- */

static int is_known(struct store *s, const char *sha256, int *known, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT 1 FROM source WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e);
    *known = row == 1;
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* What ships is canonical text (tested): it is sealed as it is, and parsed when somebody asks for it. */
static int import_golden(struct store *s, const char *path, const char *sha256, struct err *e)
{
    void *text = NULL;
    uint8_t *rows = NULL;
    size_t bytes;
    int n = 0;
    int64_t id = 0;
    const char *model, *battery, *arm, *end;
    json_t *o = NULL;
    struct sealed x;
    if (packed_read(path, (size_t)1 << 30, &text, &bytes, e) || golden_row_hashes(path, &rows, &n, e))
        goto out;
    end = memchr(text, '\n', bytes);
    o = json_parse(text, end ? (size_t)(end - (char *)text) : bytes, path, 1, e);
    if (!o || json_get_str(o, "model", &model, path, e) || json_get_str(o, "battery", &battery, path, e) ||
        json_get_str(o, "arm", &arm, path, e))
        goto out;
    seal(&x, text, bytes);
    x.row_hashes = rows;
    x.row_bytes = n * SHA256_BYTES;
    if (!insert_golden(s, &x, model, battery, arm, "active", &id, e))
        db_run(s, db_query(s, e, "INSERT INTO source VALUES (?,?,?,NULL)", "tti", sha256, path, id), e);
out:
    json_decref(o);
    free(rows);
    free(text);
    return e->code;
}

static int import_battery(struct store *s, const char *path, const char *sha256, struct err *e)
{
    struct battery *b;
    if (battery_read(path, &b, e))
        return e->code;
    int rc = insert_battery(s, b, e);
    battery_free(b);
    return rc ? rc : db_run(s, db_query(s, e, "INSERT INTO source VALUES (?,?,NULL,NULL)", "tt", sha256, path), e);
}

static int has_end(const char *name, const char *tail)
{
    size_t n = strlen(name), m = strlen(tail);
    return n > m && !strcmp(name + n - m, tail);
}

static int is_golden(const char *name)
{
    return has_end(name, ".jsonl.zst") || has_end(name, ".jsonl");
}

static int is_battery(const char *name)
{
    return has_end(name, ".json") && strcmp(name, "razor.json") && strcmp(name, "flags.json") && name[0] != '.';
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Paths of the files of a folder that pass, sorted. Caller frees each and the list; a missing folder has none. */
static int list_files(const char *folder, int (*pass)(const char *), char ***out, int *n, struct err *e)
{
    DIR *d = opendir(folder);
    *out = NULL;
    *n = 0;
    for (struct dirent *f; d && (f = readdir(d));) {
        char path[1300];
        if (!pass(f->d_name))
            continue;
        char **more = realloc(*out, (size_t)(*n + 1) * sizeof *more);
        snprintf(path, sizeof path, "%.1000s/%s", folder, f->d_name);
        if (more)
            *out = more;
        if (!more || !((*out)[*n] = strdup(path))) {
            closedir(d);
            return FAIL(e, E_NOMEM, "out of memory");
        }
        ++*n;
    }
    if (d)
        closedir(d);
    if (*n)
        qsort(*out, (size_t)*n, sizeof **out, by_name);
    return OK;
}

static int import_new(struct store *s, char **path, int n,
                      int (*import)(struct store *, const char *, const char *, struct err *),
                      void (*progress)(void *, int, int), void *arg, struct err *e)
{
    int rc = OK;
    for (int i = 0; i < n && !rc; i++) {
        char sha256[SHA256_HEX_SIZE];
        int known;
        if ((rc = sha256_file(path[i], sha256, e)) || (rc = is_known(s, sha256, &known, e)) || known)
            continue;
        if (progress)
            progress(arg, i, n);
        if (!(rc = db_begin(s, e)))
            rc = db_end(s, import(s, path[i], sha256, e), e);
        if (progress && i + 1 == n)
            progress(arg, n, n);
    }
    return rc;
}

int store_import_shipped(struct store *s, const char *data_dir, void (*progress)(void *, int done, int total),
                         void *arg, struct err *e)
{
    static const struct {
        const char *folder;
        int (*pass)(const char *);
        int (*import)(struct store *, const char *, const char *, struct err *);
    } sets[] = {{"batteries", is_battery, import_battery}, {"goldens", is_golden, import_golden}};
    int rc = OK;
    for (int k = 0; k < 2 && !rc; k++) {
        char folder[1000], **path;
        int n;
        snprintf(folder, sizeof folder, "%s/%s", data_dir, sets[k].folder);
        rc = list_files(folder, sets[k].pass, &path, &n, e);
        if (!rc)
            rc = import_new(s, path, n, sets[k].import, progress, arg, e);
        for (int i = 0; i < n; i++)
            free(path[i]);
        free(path);
    }
    return rc;
}
