#include "harness/models/hf_json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* repr() of a Python float: the shortest digits that read back, exponent form below 1e-4 and from 1e16. */
static void write_real(FILE *f, double x)
{
    char digits[40], mantissa[40] = "";
    int precision = 1;
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, x);
    while (strtod(digits, NULL) != x && ++precision <= 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= -4 && exponent < 16) {
        int decimals = precision - 1 - exponent;
        fprintf(f, "%.*f", decimals > 1 ? decimals : 1, x);
        return;
    }
    snprintf(mantissa, sizeof mantissa, "%.*s", (int)(strchr(digits, 'e') - digits), digits);
    fprintf(f, "%se%c%02d", mantissa, exponent < 0 ? '-' : '+', abs(exponent));
}

static void write_string(FILE *f, const json_t *v)
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    /* Jansson writes \u00E9, Python \u00e9 */
    for (char *p = text; p && *p; p++)
        if (p[0] == '\\' && p[1] == 'u') {
            for (int i = 2; i < 6 && p[i]; i++)
                p[i] = p[i] >= 'A' && p[i] <= 'F' ? (char)(p[i] + 32) : p[i];
            p += 5;
        } else if (*p == '\\' && p[1])
            p++;
    fputs(text ? text : "\"\"", f);
    free(text);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void indent(FILE *f, int depth)
{
    putc('\n', f);
    for (int i = 0; i < depth; i++)
        fputs("  ", f);
}

static void write_value(FILE *f, const json_t *v, int depth);

static void write_object(FILE *f, const json_t *v, int depth)
{
    json_t *o = (json_t *)(size_t)v, *x;
    const char *key;
    size_t n = 0;
    const char **keys = malloc((json_object_size(o) + 1) * sizeof *keys);
    if (!keys)
        return;
    json_object_foreach(o, key, x) keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_key);
    putc('{', f);
    for (size_t i = 0; i < n; i++) {
        json_t *name = json_string(keys[i]);
        if (i)
            putc(',', f);
        indent(f, depth + 1);
        write_string(f, name);
        fputs(": ", f);
        write_value(f, json_object_get(o, keys[i]), depth + 1);
        json_decref(name);
    }
    if (n)
        indent(f, depth);
    putc('}', f);
    free(keys);
}

static void write_value(FILE *f, const json_t *v, int depth)
{
    if (json_is_object(v)) {
        write_object(f, v, depth);
    } else if (json_is_array(v)) {
        size_t n = json_array_size(v);
        putc('[', f);
        for (size_t i = 0; i < n; i++) {
            if (i)
                putc(',', f);
            indent(f, depth + 1);
            write_value(f, json_array_get(v, i), depth + 1);
        }
        if (n)
            indent(f, depth);
        putc(']', f);
    } else if (json_is_string(v)) {
        write_string(f, v);
    } else if (json_is_integer(v)) {
        fprintf(f, "%lld", (long long)json_integer_value(v));
    } else if (json_is_real(v)) {
        write_real(f, json_real_value(v));
    } else {
        fputs(json_is_true(v) ? "true" : json_is_false(v) ? "false" : "null", f);
    }
}

char *hf_json_text(const json_t *v)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = v ? open_memstream(&text, &bytes) : NULL;
    if (!f)
        return NULL;
    write_value(f, v, 0);
    if (fclose(f)) {
        free(text);
        text = NULL;
    }
    return text;
}

int hf_json_write(const char *path, const json_t *v, int newline, struct err *e)
{
    char temporary[1024];
    char *text = hf_json_text(v);
    if (!text)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    snprintf(temporary, sizeof temporary, "%s.partial", path);
    FILE *f = fopen(temporary, "wb");
    int good = f && fputs(text, f) >= 0 && (!newline || putc('\n', f) != EOF);
    good = f && !fclose(f) && good;
    free(text);
    if (good && !rename(temporary, path))
        return OK;
    int rc = FAIL(e, E_IO, "%s: cannot write: %s", path, strerror(errno));
    unlink(temporary);
    return rc;
}
