/* assay-golden/1, reading: a header line, then a line a prompt; every field is checked before it is believed. */
#include "goldens/exchange.h"
#include "harness/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILE   ((size_t)1 << 30)
#define MAX_RATIO  64 /* captured goldens shrink to an eighth */
#define MIN_LIMIT  ((size_t)64 << 20)
#define MAX_ID     ((int64_t)INT32_MAX)
#define MAX_TOP    4096
#define MAX_PROMPT 1000000

static int copy_name(const json_t *o, const char *key, char *out, size_t size, const char *where, struct err *e)
{
    const char *s;
    if (json_get_str(o, key, &s, where, e))
        return e->code;
    if (!*s || strlen(s) >= size || strchr(s, '/'))
        return FAIL(e, E_INPUT, "%s: \"%s\" must be a name of 1 to %zu bytes without '/'", where, key, size - 1);
    snprintf(out, size, "%s", s);
    return OK;
}

/* A key that no field holds would be lost when the golden is written again: provenance belongs into the header. */
static int check_keys(const json_t *o, const char *const *known, const char *where, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(size_t)o, key, value)
    {
        int i = 0;
        while (known[i] && strcmp(known[i], key))
            i++;
        if (!known[i])
            return FAIL(e, E_INPUT, "%s: unknown key \"%.60s\"", where, key);
    }
    return OK;
}

static int check_hashes(const json_t *files, const json_t *battery, const char *where, struct err *e)
{
    const char *name;
    json_t *value;
    uint8_t hash[SHA256_BYTES];
    json_object_foreach((json_t *)(size_t)files, name, value)
    {
        if (!json_is_string(value) || !*json_string_value(value)) /* a wrong one matches no model */
            return FAIL(e, E_INPUT, "%s: model_files: \"%.80s\" has no hash", where, name);
    }
    if (battery && (!json_is_string(battery) || !sha256_parse(json_string_value(battery), hash)))
        return FAIL(e, E_INPUT, "%s: battery_sha256 is no SHA-256", where);
    return OK;
}

static int read_header(json_t *o, struct golden *g, const char *where, struct err *e)
{
    const char *schema;
    int64_t top_k;
    if (json_get_str(o, "schema", &schema, where, e))
        return e->code;
    if (strcmp(schema, "assay-golden/1"))
        return FAIL(e, E_INPUT, "%s: schema \"%s\"; this build reads assay-golden/1", where, schema);
    if (copy_name(o, "model", g->model, sizeof g->model, where, e) ||
        copy_name(o, "battery", g->battery, sizeof g->battery, where, e) ||
        copy_name(o, "arm", g->arm, sizeof g->arm, where, e) || json_get_int(o, "top_k", 0, MAX_TOP, &top_k, where, e))
        return e->code;
    if (!json_is_object(json_object_get(o, "oracle")) || !json_is_object(json_object_get(o, "model_files")))
        return FAIL(e, E_INPUT, "%s: \"oracle\" and \"model_files\" must be objects: a golden needs its provenance",
                    where);
    if (check_hashes(json_object_get(o, "model_files"), json_object_get(o, "battery_sha256"), where, e))
        return e->code;
    g->top_k = (int)top_k;
    g->header = json_incref(o);
    return OK;
}

/* One row of top ids and values. JSON knows no NaN; a value must be a finite fp32. */
static int read_row(const json_t *ids, const json_t *values, struct view *v, int r, const char *where, struct err *e)
{
    int n = (int)json_array_size(ids);
    if (!json_is_array(ids) || !json_is_array(values) || n != (int)json_array_size(values) || n > v->top_k)
        return FAIL(e, E_INPUT, "%s: row %d: top_ids and top_logits must be arrays of one length, %d at most", where, r,
                    v->top_k);
    for (int i = 0; i < v->top_k; i++) {
        size_t at = (size_t)r * (size_t)v->top_k + (size_t)i;
        if (i >= n) {
            v->top_ids[at] = -1;
            v->top_values[at] = -INFINITY;
            continue;
        }
        const json_t *id = json_array_get(ids, (size_t)i), *x = json_array_get(values, (size_t)i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > MAX_ID)
            return FAIL(e, E_INPUT, "%s: row %d: top id %d is no token id", where, r, i);
        double value = json_number_value(x);
        if (!json_is_number(x) || (double)(float)value != value)
            return FAIL(e, E_INPUT, "%s: row %d: value %d is no fp32 number", where, r, i);
        v->top_ids[at] = (int32_t)json_integer_value(id);
        v->top_values[at] = (float)value;
        if (i && v->top_values[at] > v->top_values[at - 1])
            return FAIL(e, E_INPUT, "%s: row %d: values must not increase (place %d)", where, r, i);
        for (int j = 1; j <= i; j++)
            if (v->top_ids[at - (size_t)j] == v->top_ids[at])
                return FAIL(e, E_INPUT, "%s: row %d: token %d is listed twice", where, r, v->top_ids[at]);
    }
    return OK;
}

static int read_view(const json_t *o, const char *key, int rows, int top_k, struct view *v, const char *where,
                     struct err *e)
{
    static const char *const known[] = {"top_ids", "top_logits", "logsumexp", NULL};
    const json_t *view = json_object_get(o, key), *ids, *values, *sums;
    char place[300];
    snprintf(place, sizeof place, "%s: %s", where, key);
    if (json_is_null(view)) /* ids only */
        return OK;
    if (check_keys(view, known, place, e))
        return e->code;
    ids = json_object_get(view, "top_ids");
    values = json_object_get(view, "top_logits");
    sums = json_object_get(view, "logsumexp");
    if (!json_is_array(ids) || (int)json_array_size(ids) != rows || (int)json_array_size(values) != rows ||
        (int)json_array_size(sums) != rows)
        return FAIL(e, E_INPUT, "%s: top_ids, top_logits and logsumexp must have a row for each of the %d ids", place,
                    rows);
    if (view_alloc(v, rows, top_k, 0, e))
        return e->code;
    for (int r = 0; r < rows; r++) {
        const json_t *s = json_array_get(sums, (size_t)r);
        if (!json_is_number(s))
            return FAIL(e, E_INPUT, "%s: row %d: logsumexp is no number", place, r);
        v->logsumexp[r] = json_number_value(s);
        if (read_row(json_array_get(ids, (size_t)r), json_array_get(values, (size_t)r), v, r, place, e))
            return e->code;
    }
    return OK;
}

static int read_batches(const json_t *o, struct golden_prompt *p, const char *where, struct err *e)
{
    static const char *const known[] = {"ids", "top_equal_to_first", NULL};
    const json_t *a = json_object_get(o, "batch");
    if (!json_is_array(a))
        return FAIL(e, E_INPUT, "%s: \"batch\" is not an array", where);
    size_t n = json_array_size(a);
    p->batch = calloc(n ? n : 1, sizeof *p->batch);
    if (!p->batch)
        return FAIL(e, E_NOMEM, "%s: out of memory", where);
    for (size_t i = 0; i < n; i++) {
        const json_t *b = json_array_get(a, i), *ids = json_object_get(b, "ids"), *same;
        p->batches = (int)i + 1;
        if (!json_is_object(b) || !ids)
            return FAIL(e, E_INPUT, "%s: batch pass %zu has no \"ids\"", where, i);
        if (check_keys(b, known, where, e))
            return e->code;
        if (!json_is_null(ids) && json_get_ids(b, "ids", 0, MAX_ID, &p->batch[i].ids, &p->batch[i].n, where, e))
            return e->code;
        same = json_object_get(b, "top_equal_to_first");
        p->batch[i].top_equal_to_first = json_is_boolean(same) ? json_is_true(same) : -1;
    }
    return OK;
}

static int read_repeats(const json_t *o, struct golden_prompt *p, const char *where, struct err *e)
{
    json_t *a = json_object_get(o, "repeats");
    if (!json_is_array(a))
        return FAIL(e, E_INPUT, "%s: \"repeats\" is not an array", where);
    p->repeats_json = json_incref(a);
    for (size_t i = 0; i < json_array_size(a); i++) {
        const json_t *r = json_array_get(a, i);
        p->repeats++;
        p->repeats_equal +=
            json_is_true(json_object_get(r, "ids_equal")) && json_is_true(json_object_get(r, "logits_equal"));
    }
    return OK;
}

static int read_prompt(const json_t *o, const struct golden *g, struct golden_prompt *p, const char *where,
                       struct err *e)
{
    static const char *const known[] = {"prompt", "prompt_ids", "ids",
                                        "finish", "repeats",    "batch",
                                        "decode", "prefill",    "decode_rows_equal_prefill_rows",
                                        NULL};
    const char *name, *finish;
    if (check_keys(o, known, where, e) || json_get_str(o, "prompt", &name, where, e))
        return e->code;
    if (!*name || strlen(name) > 63 || golden_find(g, name))
        return FAIL(e, E_INPUT, "%s: prompt \"%.80s\" %s", where, name,
                    *name && strlen(name) < 64 ? "appears twice" : "must have a name of 1 to 63 bytes");
    if (!(p->name = strdup(name)))
        return FAIL(e, E_NOMEM, "%s: out of memory", where);
    if (json_get_ids(o, "prompt_ids", 0, MAX_ID, &p->prompt_ids, &p->prompts, where, e) ||
        json_get_ids(o, "ids", 0, MAX_ID, &p->ids, &p->n, where, e) || json_get_str(o, "finish", &finish, where, e))
        return e->code;
    if (strcmp(finish, "length") && strcmp(finish, "stop"))
        return FAIL(e, E_INPUT, "%s: finish \"%.40s\"; length or stop is expected", where, finish);
    p->finish = strcmp(finish, "stop") ? FINISH_LENGTH : FINISH_STOP;
    const json_t *equal = json_object_get(o, "decode_rows_equal_prefill_rows");
    if (equal && !json_is_null(equal) &&
        (!json_is_integer(equal) || json_integer_value(equal) < 0 || json_integer_value(equal) > p->n))
        return FAIL(e, E_INPUT, "%s: decode_rows_equal_prefill_rows must be at most the %d ids, or null", where, p->n);
    p->rows_equal = json_is_integer(equal) ? (int)json_integer_value(equal) : -1;
    if (read_repeats(o, p, where, e) || read_batches(o, p, where, e) ||
        read_view(o, "decode", p->n, g->top_k, &p->decode, where, e) ||
        read_view(o, "prefill", p->n, g->top_k, &p->prefill, where, e))
        return e->code;
    return OK;
}

static int add_line(struct golden *g, const char *line, size_t n, const char *path, int number, struct err *e)
{
    char where[256];
    snprintf(where, sizeof where, "%.200s:%d", path, number);
    json_t *o = json_parse(line, n, path, number, e);
    if (!o)
        return e->code;
    int rc = OK;
    if (!json_is_object(o))
        rc = FAIL(e, E_INPUT, "%s: not an object", where);
    else if (number == 1)
        rc = read_header(o, g, where, e);
    else if (g->prompts >= MAX_PROMPT)
        rc = FAIL(e, E_INPUT, "%s: more than %d prompts", where, MAX_PROMPT);
    else {
        struct golden_prompt *p = realloc(g->prompt, (size_t)(g->prompts + 1) * sizeof *p);
        if (!p) {
            rc = FAIL(e, E_NOMEM, "%s: out of memory", where);
        } else {
            g->prompt = p;
            struct golden_prompt fresh = {0};
            rc = read_prompt(o, g, &fresh, where, e);
            g->prompt[g->prompts++] = fresh; /* also after a failure: golden_free frees it */
            if (!rc)
                rc = names_put(&g->by_name, fresh.name, g->prompts - 1, e);
        }
    }
    json_decref(o);
    return rc;
}

int golden_parse(const char *text, size_t bytes, const char *name, struct golden **out, struct err *e)
{
    struct golden *g = calloc(1, sizeof *g);
    int number = 0, rc = OK;
    if (!g)
        return FAIL(e, E_NOMEM, "%s: out of memory", name);
    for (size_t at = 0; at < bytes && !rc;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t n = end ? (size_t)(end - (text + at)) : bytes - at;
        number++;
        if (!end)
            rc = FAIL(e, E_INPUT, "%s:%d: the last line has no end: the file is cut", name, number);
        else
            rc = add_line(g, text + at, n, name, number, e);
        at += n + 1;
    }
    if (!rc && !g->header)
        rc = FAIL(e, E_INPUT, "%s: empty; a golden starts with a header line", name);
    if (!rc && !g->prompts)
        rc = FAIL(e, E_INPUT, "%s: a header and no prompt", name);
    if (rc)
        golden_free(g);
    else
        *out = g;
    return rc;
}

/* Row hashes beside FILE.jsonl[.zst]: FILE.decode.rows.sha256[.zst], the whole file's hash first, then one a row. */
int golden_row_hashes(const char *path, uint8_t **rows, int *n, struct err *e)
{
    char name[1024];
    const char *dot = NULL;
    void *data = NULL;
    size_t bytes;
    struct err none = {0};
    *rows = NULL;
    *n = 0;
    for (const char *p = path; (p = strstr(p, ".jsonl")); p++)
        dot = p;
    snprintf(name, sizeof name, "%.*s.decode.rows.sha256", dot ? (int)(dot - path) : 0, path);
    if (!dot)
        return OK;
    int rc = packed_read(name, MAX_FILE, &data, &bytes, &none);
    if (rc == E_MISSING) {
        snprintf(name + strlen(name), sizeof name - strlen(name), ".zst");
        rc = packed_read(name, MAX_FILE, &data, &bytes, &none);
    }
    if (rc)
        return rc == E_MISSING ? OK : FAIL(e, none.code, "%s", none.text);
    int most = (int)(bytes / SHA256_HEX_SIZE);
    *rows = calloc(most ? (size_t)most : 1, SHA256_BYTES);
    if (!*rows)
        rc = FAIL(e, E_NOMEM, "%s: out of memory", name);
    for (int i = 0; i < most && !rc; i++) {
        char *line = (char *)data + (size_t)i * SHA256_HEX_SIZE;
        char end = line[SHA256_HEX_SIZE - 1];
        line[SHA256_HEX_SIZE - 1] = 0;
        uint8_t whole[SHA256_BYTES];
        if (end != '\n' || !sha256_parse(line, i ? *rows + (size_t)(i - 1) * SHA256_BYTES : whole))
            rc = FAIL(e, E_INPUT, "%s:%d: not a SHA-256 in lower-case hexadecimal", name, i + 1);
    }
    if (!rc && (!most || bytes % SHA256_HEX_SIZE))
        rc = FAIL(e, E_INPUT, "%s: cut in the middle of a line", name);
    free(data);
    if (rc) {
        free(*rows);
        *rows = NULL;
        return rc;
    }
    *n = most - 1;
    return OK;
}

int golden_attach_hashes(struct golden *g, const uint8_t *rows, int n, const char *where, struct err *e)
{
    int at = 0;
    for (int i = 0; rows && i < g->prompts; i++) {
        struct view *v = &g->prompt[i].decode;
        if (at + v->rows > n)
            return FAIL(e, E_INPUT, "%s: %d row hashes are fewer than the golden's rows", where, n);
        v->row_sha256 = malloc(v->rows ? (size_t)v->rows * SHA256_BYTES : 1);
        if (!v->row_sha256)
            return FAIL(e, E_NOMEM, "%s: out of memory", where);
        memcpy(v->row_sha256, rows + (size_t)at * SHA256_BYTES, (size_t)v->rows * SHA256_BYTES);
        at += v->rows;
    }
    return at == n || !rows ? OK : FAIL(e, E_INPUT, "%s: %d row hashes are more than the golden's rows", where, n);
}

int golden_file(const char *path, void **text, size_t *bytes, struct err *e)
{
    struct stat st;
    size_t limit = MAX_FILE, n = strlen(path);
    if (n > 4 && !strcmp(path + n - 4, ".zst") && !stat(path, &st)) {
        limit = MIN_LIMIT + MAX_RATIO * (size_t)st.st_size;
        limit = limit > MAX_FILE ? MAX_FILE : limit;
    }
    return packed_read(path, limit, text, bytes, e);
}

int golden_read(const char *path, struct golden **g, struct err *e)
{
    void *data;
    size_t bytes;
    uint8_t *rows = NULL;
    int n;
    if (golden_file(path, &data, &bytes, e))
        return e->code;
    int rc = golden_parse(data, bytes, path, g, e);
    free(data);
    if (rc)
        return rc;
    if ((rc = golden_row_hashes(path, &rows, &n, e)) || (rc = golden_attach_hashes(*g, rows, n, path, e))) {
        golden_free(*g);
        *g = NULL;
    }
    free(rows);
    return rc;
}
