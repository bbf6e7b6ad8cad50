#include "harness/engines/replay_file.h"

#include "goldens/exchange.h"
#include "harness/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_LIMIT ((size_t)1 << 30)

static int is_golden(const char *text, size_t bytes)
{
    struct err quiet = {0};
    const char *end = memchr(text, '\n', bytes);
    json_t *first = json_parse(text, end ? (size_t)(end - text) : bytes, "", 1, &quiet);
    int yes = json_object_get(first, "schema") != NULL;
    json_decref(first);
    return yes;
}

static int parse_finish(const json_t *o, struct golden_prompt *p, const char *where, struct err *e)
{
    const char *text;
    p->finish = (enum finish) - 1;
    if (!json_object_get(o, "finish"))
        return OK;
    if (json_get_str(o, "finish", &text, where, e))
        return e->code;
    if (strcmp(text, "length") && strcmp(text, "stop"))
        return FAIL(e, E_INPUT, "%s: \"finish\" is \"%s\", must be length or stop", where, text);
    p->finish = *text == 's' ? FINISH_STOP : FINISH_LENGTH;
    return OK;
}

static int parse_prompt(const json_t *o, struct golden_prompt *p, const char *where, struct err *e)
{
    const char *name, *key;
    json_t *value;
    json_object_foreach((json_t *)o, key, value)
    {
        (void)value;
        if (strcmp(key, "prompt") && strcmp(key, "ids") && strcmp(key, "prompt_ids") && strcmp(key, "finish"))
            return FAIL(e, E_INPUT, "%s: unknown key \"%s\"", where, key);
    }
    p->prompts = -1;
    p->rows_equal = -1;
    if (json_get_str(o, "prompt", &name, where, e) || json_get_ids(o, "ids", 0, INT32_MAX, &p->ids, &p->n, where, e) ||
        parse_finish(o, p, where, e))
        return e->code;
    if (json_object_get(o, "prompt_ids") &&
        json_get_ids(o, "prompt_ids", 0, INT32_MAX, &p->prompt_ids, &p->prompts, where, e))
        return e->code;
    p->name = strdup(name);
    return p->name ? OK : FAIL(e, E_NOMEM, "%s: out of memory", where);
}

static int add_line(struct golden *g, const char *line, size_t bytes, const char *path, int number, struct err *e)
{
    char where[600];
    snprintf(where, sizeof where, "%s:%d", path, number);
    struct golden_prompt *bigger = realloc(g->prompt, ((size_t)g->prompts + 1) * sizeof *bigger);
    if (!bigger)
        return FAIL(e, E_NOMEM, "%s: out of memory", where);
    g->prompt = bigger;
    struct golden_prompt *p = &bigger[g->prompts];
    memset(p, 0, sizeof *p);
    json_t *o = json_parse(line, bytes, path, number, e);
    if (!o)
        return e->code;
    int rc = json_is_object(o) ? OK : FAIL(e, E_INPUT, "%s: not an object", where);
    g->prompts++; /* from here golden_free releases what parse_prompt allocated */
    rc = rc ? rc : parse_prompt(o, p, where, e);
    if (rc == OK && names_get(&g->by_name, p->name) >= 0)
        rc = FAIL(e, E_INPUT, "%s: prompt \"%s\" was given before", where, p->name);
    if (rc == OK)
        rc = names_put(&g->by_name, p->name, g->prompts - 1, e);
    json_decref(o);
    return rc;
}

static int read_lines(const char *text, size_t bytes, const char *path, struct golden **out, struct err *e)
{
    struct golden *g = calloc(1, sizeof *g);
    int rc = g ? OK : FAIL(e, E_NOMEM, "%s: out of memory", path), number = 0;
    for (size_t at = 0; rc == OK && at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t length = end ? (size_t)(end - text) - at : bytes - at;
        number++;
        if (length)
            rc = add_line(g, text + at, length, path, number, e);
        at += length + 1;
    }
    if (rc == OK && !g->prompts)
        rc = FAIL(e, E_INPUT, "%s: no prompts", path);
    if (rc)
        golden_free(g);
    else
        *out = g;
    return rc;
}

/* A pipe has no size; it is read until it ends. */
static int read_pipe(FILE *f, const char *path, char **data, size_t *bytes, struct err *e)
{
    char *text = NULL, chunk[65536];
    size_t n = 0, got;
    while ((got = fread(chunk, 1, sizeof chunk, f)) > 0) {
        char *bigger = n + got > FILE_LIMIT ? NULL : realloc(text, n + got + 1);
        if (!bigger) {
            free(text);
            return FAIL(e, E_NOMEM, "%s: more than memory or %zu bytes hold", path, FILE_LIMIT);
        }
        text = bigger;
        memcpy(text + n, chunk, got);
        n += got;
    }
    if (ferror(f)) {
        free(text);
        return FAIL(e, E_IO, "%s: %s", path, strerror(errno));
    }
    *data = text ? text : calloc(1, 1);
    *bytes = n;
    return *data ? OK : FAIL(e, E_NOMEM, "%s: out of memory", path);
}

static int read_any(const char *path, char **data, size_t *bytes, struct err *e)
{
    struct stat st;
    if (!strcmp(path, "-"))
        return read_pipe(stdin, "standard input", data, bytes, e);
    if (stat(path, &st) || !S_ISFIFO(st.st_mode))
        return packed_read(path, FILE_LIMIT, (void **)data, bytes, e);
    FILE *f = fopen(path, "r");
    if (!f)
        return FAIL(e, E_IO, "%s: %s", path, strerror(errno));
    int rc = read_pipe(f, path, data, bytes, e);
    fclose(f);
    return rc;
}

int replay_read(const char *path, struct golden **g, char sha256[SHA256_HEX_SIZE], struct err *e)
{
    char *data;
    size_t bytes;
    uint8_t hash[SHA256_BYTES];
    int rc = read_any(path, &data, &bytes, e);
    if (rc)
        return rc;
    sha256_of(data, bytes, hash);
    sha256_hex(hash, sha256);
    rc = is_golden(data, bytes) ? golden_parse(data, bytes, path, g, e) : read_lines(data, bytes, path, g, e);
    free(data);
    return rc;
}
