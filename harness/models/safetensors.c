#include "harness/models/safetensors.h"

#include "harness/base/json.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_LIMIT (100u << 20) /* as the safetensors library refuses */
#define MAX_RANK     4

static int dtype_parse(const char *text, enum dtype *d)
{
    for (int i = 0; i < DT_COUNT; i++)
        if (!strcmp(text, dtype_name((enum dtype)i))) {
            *d = (enum dtype)i;
            return 1;
        }
    return 0;
}

/* Fills rank, shape and bytes. */
static int parse_shape(const json_t *shape, struct tensor *t, const char *where, struct err *e)
{
    if (!json_is_array(shape) || json_array_size(shape) > MAX_RANK)
        return FAIL(e, E_INPUT, "%s: \"shape\" is not a list of at most %d sizes", where, MAX_RANK);
    t->rank = (int)json_array_size(shape);
    size_t bytes = (size_t)dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);
        int64_t size = json_integer_value(v);
        if (!json_is_integer(v) || size < 0)
            return FAIL(e, E_INPUT, "%s: \"shape\"[%d] is not a size", where, i);
        if (__builtin_mul_overflow(bytes, (size_t)size, &bytes) || bytes > INT64_MAX)
            return FAIL(e, E_INPUT, "%s: the shape is absurd, its size overflows at dimension %d (%lld)", where, i,
                        (long long)size);
        t->shape[i] = size;
    }
    t->bytes = bytes;
    return OK;
}

static int parse_place(const json_t *place, struct tensor *t, const struct safetensors *s, size_t base,
                       const char *where, struct err *e)
{
    const json_t *first = json_array_get(place, 0), *last = json_array_get(place, 1);
    if (json_array_size(place) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return FAIL(e, E_INPUT, "%s: \"data_offsets\" is not [begin, end]", where);
    int64_t begin = json_integer_value(first), end = json_integer_value(last), room = (int64_t)(s->map.bytes - base);
    if (begin < 0 || end < begin || end > room)
        return FAIL(e, E_INPUT, "%s: data_offsets [%lld, %lld] lie outside the %lld bytes of data%s", where,
                    (long long)begin, (long long)end, (long long)room, end > room ? " (is the file truncated?)" : "");
    if ((size_t)(end - begin) != t->bytes)
        return FAIL(e, E_INPUT, "%s: data_offsets span %lld bytes, type %s and shape want %zu", where,
                    (long long)(end - begin), dtype_name(t->dtype), t->bytes);
    t->data = (const char *)s->map.data + base + begin;
    return OK;
}

static int parse_entry(const char *path, const char *name, const json_t *o, size_t base, struct safetensors *s,
                       struct tensor *t, struct err *e)
{
    char where[512];
    const char *type;
    int rc;
    snprintf(where, sizeof where, "%s: tensor \"%.200s\"", path, name);
    if (!json_is_object(o) || json_object_size(o) != 3)
        return FAIL(e, E_INPUT, "%s: not an object of dtype, shape and data_offsets", where);
    if ((rc = json_get_str(o, "dtype", &type, where, e)))
        return rc;
    if (!dtype_parse(type, &t->dtype))
        return FAIL(e, E_UNSUPPORTED, "%s: type \"%.32s\" is not known", where, type);
    if ((rc = parse_shape(json_object_get(o, "shape"), t, where, e)))
        return rc;
    return parse_place(json_object_get(o, "data_offsets"), t, s, base, where, e);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tensor *)a)->name, ((const struct tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = *(const struct tensor *const *)a, *y = *(const struct tensor *const *)b;
    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Tensors tile the data exactly: a byte that two of them own, or none, means that the header lies. */
static int check_tiling(const char *path, const struct safetensors *s, size_t base, struct err *e)
{
    int rc = OK;
    const struct tensor **order = malloc(((size_t)s->tensors + 1) * sizeof(struct tensor *));
    if (!order)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    for (int i = 0; i < s->tensors; i++)
        order[i] = &s->tensor[i];
    qsort(order, (size_t)s->tensors, sizeof *order, by_place);
    const char *start = (const char *)s->map.data + base, *at = start;
    for (int i = 0; i < s->tensors && rc == OK; i++) {
        const char *data = order[i]->data;
        if (data < at)
            rc = FAIL(e, E_INPUT, "%s: tensors \"%.200s\" and \"%.200s\" overlap", path, order[i - 1]->name,
                      order[i]->name);
        else if (data > at)
            rc = FAIL(e, E_INPUT, "%s: %zu bytes of data before tensor \"%.200s\" belong to no tensor", path,
                      (size_t)(data - at), order[i]->name);
        at = data + order[i]->bytes;
    }
    size_t left = s->map.bytes - base - (size_t)(at - start);
    if (rc == OK && left)
        rc = FAIL(e, E_INPUT, "%s: %zu bytes at the end belong to no tensor", path, left);
    free(order);
    return rc;
}

static int check_metadata(const char *path, const json_t *o, struct err *e)
{
    const char *key;
    json_t *v;
    if (!json_is_object(o))
        return FAIL(e, E_INPUT, "%s: \"__metadata__\" is not an object", path);
    json_object_foreach((json_t *)(size_t)o, key, v) if (!json_is_string(v)) return FAIL(
        e, E_INPUT, "%s: \"__metadata__\": \"%.64s\" is not a string", path, key);
    return OK;
}

static int parse_entries(const char *path, const json_t *header, size_t base, struct safetensors *s, struct err *e)
{
    int rc = OK;
    size_t text = 0, n = 0;
    const char *key;
    json_t *v, *o = (json_t *)(size_t)header;
    json_object_foreach(o, key, v)
    {
        text += strlen(key) + 1;
        n++;
    }
    s->tensor = calloc(n + 1, sizeof *s->tensor);
    s->names = malloc(text + 1);
    if (!s->tensor || !s->names)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    char *next = s->names;
    json_object_foreach(o, key, v)
    {
        if (!strcmp(key, "__metadata__")) {
            if ((rc = check_metadata(path, v, e)))
                return rc;
            continue;
        }
        struct tensor *t = &s->tensor[s->tensors];
        if ((rc = parse_entry(path, key, v, base, s, t, e)))
            return rc;
        t->name = strcpy(next, key);
        next += strlen(key) + 1;
        s->tensors++;
    }
    qsort(s->tensor, (size_t)s->tensors, sizeof *s->tensor, by_name);
    return check_tiling(path, s, base, e);
}

int safetensors_open(const char *path, struct safetensors *s, struct err *e)
{
    memset(s, 0, sizeof *s);
    int rc = mapped_open(path, &s->map, e);
    json_t *header = NULL;
    if (rc)
        return rc;
    const unsigned char *p = s->map.data;
    uint64_t size = 0;
    if (s->map.bytes < 8) {
        rc = FAIL(e, E_INPUT, "%s: %zu bytes are no safetensors file", path, s->map.bytes);
        goto out;
    }
    for (int i = 7; i >= 0; i--)
        size = size << 8 | p[i];
    if (size > HEADER_LIMIT || size > s->map.bytes - 8) {
        rc = FAIL(e, E_INPUT, "%s: header length %llu, but %zu bytes follow and %u is the limit", path,
                  (unsigned long long)size, s->map.bytes - 8, HEADER_LIMIT);
        goto out;
    }
    if (!(header = json_parse((const char *)p + 8, (size_t)size, path, 1, e))) {
        rc = E_INPUT;
        goto out;
    }
    if (!json_is_object(header)) {
        rc = FAIL(e, E_INPUT, "%s: the header is not a JSON object", path);
        goto out;
    }
    rc = parse_entries(path, header, 8 + (size_t)size, s, e);
out:
    json_decref(header);
    if (rc)
        safetensors_close(s);
    return rc;
}

void safetensors_close(struct safetensors *s)
{
    mapped_close(&s->map);
    free(s->tensor);
    free(s->names);
    memset(s, 0, sizeof *s);
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    const struct tensor key = {.name = name};
    return s->tensors ? bsearch(&key, s->tensor, (size_t)s->tensors, sizeof key, by_name) : NULL;
}
