/* What ships with the program enters the store at first use, and again when a file changed. */
#include "goldens/exchange.h"
#include "goldens/seal.h"
#include "harness/base/json.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_known(struct store *s, const char *sha256, int *known, struct err *e)
{
    sqlite3_stmt *q = db_query(s, e, "SELECT 1 FROM source WHERE sha256 = ?", "t", sha256);
    int row = db_step(s, q, e);
    *known = row == 1;
    sqlite3_finalize(q);
    return row < 0 ? e->code : OK;
}

/* The header is read here, and every field when there are row hashes, whose number must fit. */
static int name_golden(const char *text, size_t bytes, const char *path, const uint8_t *rows, int n, json_t **header,
                       struct golden_name *name, struct err *e)
{
    struct golden *g = NULL;
    const char *end = memchr(text, '\n', bytes);
    *header = json_parse(text, end ? (size_t)(end - text) : bytes, path, 1, e);
    if (!*header || json_get_str(*header, "model", &name->model, path, e) ||
        json_get_str(*header, "battery", &name->battery, path, e) || json_get_str(*header, "arm", &name->arm, path, e))
        return e->code;
    name->status = "active";
    if (!rows)
        return OK;
    int rc = golden_parse(text, bytes, path, &g, e);
    if (!rc)
        rc = golden_attach_hashes(g, rows, n, path, e);
    golden_free(g);
    return rc;
}

/* What ships is canonical text (tested): it is sealed as it is, and parsed when somebody asks for it. */
static int import_golden(struct store *s, const char *path, const char *sha256, struct err *e)
{
    void *text = NULL;
    uint8_t *rows = NULL;
    size_t bytes;
    int n = 0;
    int64_t id = 0;
    json_t *header = NULL;
    struct golden_name name;
    struct sealed x;
    int rc = golden_file(path, &text, &bytes, e);
    if (rc || (rc = golden_row_hashes(path, &rows, &n, e)) ||
        (rc = name_golden(text, bytes, path, rows, n, &header, &name, e)))
        goto out;
    seal(&x, text, bytes);
    x.row_hashes = rows;
    x.row_bytes = n * SHA256_BYTES;
    if (!(rc = golden_insert(s, &x, &name, &id, e)))
        rc = db_run(s, db_query(s, e, "INSERT INTO source VALUES (?,?,?,NULL)", "tti", sha256, path, id), e);
out:
    json_decref(header);
    free(rows);
    free(text);
    return rc;
}

/* Nothing is written, and no lock taken, when the store has the file with the razor that stands beside it. */
static int refresh_battery(struct store *s, const char *path, struct err *e)
{
    struct battery *b;
    if (battery_read(path, &b, e))
        return e->code;
    sqlite3_stmt *q = db_query(s, e, "SELECT 1 FROM battery WHERE sha256 = ? AND razor_ulp = ? AND razor_cap_nats = ?",
                               "trr", b->sha256, b->razor_ulp, b->razor_cap_nats);
    int row = db_step(s, q, e), rc = row < 0 ? e->code : OK;
    sqlite3_finalize(q);
    if (!row)
        rc = store_battery_put(s, b, e);
    battery_free(b);
    return rc;
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

static int import_new(struct store *s, const char *path, struct err *e)
{
    char sha256[SHA256_HEX_SIZE];
    int known, rc = sha256_file(path, sha256, e);
    if (rc || (rc = is_known(s, sha256, &known, e)) || known || (rc = db_begin(s, e)))
        return rc;
    rc = is_known(s, sha256, &known, e); /* another process may have been faster */
    if (!rc && !known)
        rc = import_golden(s, path, sha256, e);
    return db_end(s, rc, e);
}

/* Is it "FOLDER/MODEL.anything"? NULL: any model. */
static int is_of(const char *path, const char *model)
{
    const char *slash = strrchr(path, '/');
    size_t n = model ? strlen(model) : 0;
    return !model || (!strncmp(slash + 1, model, n) && slash[1 + n] == '.');
}

static int import_all(struct store *s, const char *data_dir, const char *model,
                      void (*progress)(void *, int done, int total), void *arg, struct err *e)
{
    static const struct {
        const char *folder;
        int (*pass)(const char *);
        int (*import)(struct store *, const char *, struct err *);
    } sets[] = {{"batteries", is_battery, refresh_battery}, {"goldens", is_golden, import_new}};
    int rc = OK;
    for (int k = 0; k < 2 && !rc; k++) {
        char folder[1000], **path;
        int n;
        snprintf(folder, sizeof folder, "%s/%s", data_dir, sets[k].folder);
        rc = list_files(folder, sets[k].pass, &path, &n, e);
        for (int i = 0; i < n && !rc; i++) {
            int64_t before = sqlite3_total_changes64(s->db);
            if (k == 0 || is_of(path[i], model))
                rc = sets[k].import(s, path[i], e);
            if (progress && (sqlite3_total_changes64(s->db) != before || i + 1 == n))
                progress(arg, i + 1, n);
        }
        for (int i = 0; i < n; i++)
            free(path[i]);
        free(path);
    }
    return rc;
}

int store_import_shipped(struct store *s, const char *data_dir, void (*progress)(void *, int done, int total),
                         void *arg, struct err *e)
{
    return import_all(s, data_dir, NULL, progress, arg, e);
}

int store_import_model(struct store *s, const char *data_dir, const char *model, struct err *e)
{
    return import_all(s, data_dir, model, NULL, NULL, e);
}
