#include "harness/base/json.h"

#include "harness/base/mapped.h"

#include <stdlib.h>

json_t *json_parse(const char *text, size_t bytes, const char *name, int line, struct err *e)
{
    json_error_t je;
    json_t *v = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
    if (!v)
        FAIL(e, E_INPUT, "%s:%d: not JSON (column %d): %s", name, line ? line : je.line, je.column, je.text);
    return v;
}

json_t *json_read(const char *path, struct err *e)
{
    struct mapped m;
    if (mapped_open(path, &m, e))
        return NULL;
    json_t *v = json_parse(m.data, m.bytes, path, 0, e);
    mapped_close(&m);
    return v;
}

int json_get_str(const json_t *o, const char *key, const char **out, const char *where, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v))
        return FAIL(e, E_INPUT, "%s: \"%s\" %s", where, key, v ? "is not a string" : "is missing");
    *out = json_string_value(v);
    return OK;
}

int json_get_int(const json_t *o, const char *key, int64_t lo, int64_t hi, int64_t *out, const char *where,
                 struct err *e)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v))
        return FAIL(e, E_INPUT, "%s: \"%s\" %s", where, key, v ? "is not an integer" : "is missing");
    int64_t x = json_integer_value(v);
    if (x < lo || x > hi)
        return FAIL(e, E_INPUT, "%s: \"%s\" is %lld, must be in [%lld, %lld]", where, key, (long long)x, (long long)lo,
                    (long long)hi);
    *out = x;
    return OK;
}

int json_get_real(const json_t *o, const char *key, double *out, const char *where, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        return FAIL(e, E_INPUT, "%s: \"%s\" %s", where, key, v ? "is not a number" : "is missing");
    *out = json_number_value(v);
    return OK;
}

int json_get_ids(const json_t *o, const char *key, int64_t lo, int64_t hi, int32_t **ids, int *n, const char *where,
                 struct err *e)
{
    const json_t *a = json_object_get(o, key);
    if (!json_is_array(a))
        return FAIL(e, E_INPUT, "%s: \"%s\" %s", where, key, a ? "is not an array" : "is missing");
    size_t count = json_array_size(a);
    int32_t *out = malloc((count ? count : 1) * sizeof *out);
    if (!out)
        return FAIL(e, E_NOMEM, "%s: out of memory", where);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(a, i);
        int64_t x = json_integer_value(v);
        if (!json_is_integer(v) || x < lo || x > hi) {
            free(out);
            return FAIL(e, E_INPUT, "%s: \"%s\"[%zu] is not an integer in [%lld, %lld]", where, key, i, (long long)lo,
                        (long long)hi);
        }
        out[i] = (int32_t)x;
    }
    *ids = out;
    *n = (int)count;
    return OK;
}
