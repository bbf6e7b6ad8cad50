#include "goldens/npy.h"

#include "harness/base/mapped.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COUNT ((int64_t)1 << 28)

/* The value after 'key': in the header's Python dictionary. */
static const char *value_of(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *p = strstr(header, quoted);
    if (!p)
        return NULL;
    p += strlen(quoted);
    return p + strspn(p, " ");
}

static int read_shape(const char *path, const char *p, struct npy *a, struct err *e)
{
    a->count = 1;
    if (*p++ != '(' || !strchr(p, ')'))
        return FAIL(e, E_INPUT, "%s: its shape is not in brackets", path);
    while (*p && *p != ')') {
        char *end;
        long long n = strtoll(p, &end, 10);
        if (end == p || n < 0 || n > INT32_MAX || a->rank == 4 || (n && a->count > MAX_COUNT / n))
            return FAIL(e, E_INPUT, "%s: shape %.40s is not understood (1 to 4 dimensions)", path, p);
        a->shape[a->rank++] = n;
        a->count *= n;
        p = end + strspn(end, ", ");
    }
    return a->rank ? OK : FAIL(e, E_INPUT, "%s: a scalar; an array is expected", path);
}

static int read_header(const char *path, const char *data, size_t bytes, struct npy *a, size_t *start, struct err *e)
{
    char header[1024];
    const unsigned char *u = (const unsigned char *)data;
    if (bytes < 12 || memcmp(data, "\x93NUMPY", 6))
        return FAIL(e, E_INPUT, "%s: no NumPy array (magic is missing)", path);
    int major = u[6];
    size_t length =
        major == 1 ? u[8] | (size_t)u[9] << 8 : u[8] | (size_t)u[9] << 8 | (size_t)u[10] << 16 | (size_t)u[11] << 24;
    *start = (major == 1 ? 10 : 12) + length;
    if (major < 1 || major > 2 || length >= sizeof header || *start > bytes)
        return FAIL(e, E_INPUT, "%s: version %d with a header of %zu bytes is not understood", path, major, length);
    memcpy(header, data + *start - length, length);
    header[length] = 0;
    const char *descr = value_of(header, "descr"), *order = value_of(header, "fortran_order"),
               *shape = value_of(header, "shape");
    if (!descr || !order || !shape)
        return FAIL(e, E_INPUT, "%s: descr, fortran_order or shape is missing", path);
    if (strncmp(descr, "'<i4'", 5))
        return FAIL(e, E_INPUT, "%s: type %.6s; little-endian 32-bit integers are expected", path, descr);
    if (strncmp(order, "False", 5))
        return FAIL(e, E_INPUT, "%s: Fortran order; C order is expected", path);
    return read_shape(path, shape, a, e);
}

int npy_read(const char *path, struct npy *a, struct err *e)
{
    struct mapped m;
    size_t start;
    memset(a, 0, sizeof *a);
    if (mapped_open(path, &m, e))
        return e->code;
    int rc = read_header(path, m.data, m.bytes, a, &start, e);
    if (!rc && m.bytes - start != (size_t)a->count * 4)
        rc = FAIL(e, E_INPUT, "%s: %zu bytes of data, its shape needs %lld", path, m.bytes - start,
                  (long long)a->count * 4);
    if (!rc && !(a->data = malloc(a->count ? (size_t)a->count * 4 : 1)))
        rc = FAIL(e, E_NOMEM, "%s: out of memory", path);
    if (!rc)
        memcpy(a->data, (const char *)m.data + start, (size_t)a->count * 4);
    mapped_close(&m);
    return rc;
}

void npy_free(struct npy *a)
{
    free(a->data);
    memset(a, 0, sizeof *a);
}
