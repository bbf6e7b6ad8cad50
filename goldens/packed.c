/* Files as they are, or decompressed when they end in .zst; never more than the caller allows. */
#include "goldens/exchange.h"
#include "harness/base/mapped.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && !strcmp(s + n - m, tail);
}

static int copy(const char *path, const struct mapped *m, size_t limit, void **data, size_t *bytes, struct err *e)
{
    if (m->bytes > limit)
        return FAIL(e, E_INPUT, "%s: %zu bytes; %zu at most are accepted", path, m->bytes, limit);
    char *out = malloc(m->bytes + 1);
    if (!out)
        return FAIL(e, E_NOMEM, "%s: out of memory for %zu bytes", path, m->bytes);
    memcpy(out, m->data, m->bytes);
    out[m->bytes] = 0;
    *data = out;
    *bytes = m->bytes;
    return OK;
}

/* Makes room for a block more; the size that a frame claims is never trusted. */
static int grow(char **out, size_t *room, size_t limit)
{
    size_t more = *room ? *room * 2 : 1 << 20;
    more = more > limit + 1 ? limit + 1 : more;
    char *p = realloc(*out, more + 1);
    if (!p)
        return 0;
    *out = p;
    *room = more;
    return 1;
}

static int inflate(const char *path, const struct mapped *m, size_t limit, void **data, size_t *bytes, struct err *e)
{
    ZSTD_DStream *z = ZSTD_createDStream();
    ZSTD_inBuffer in = {m->data, m->bytes, 0};
    char *out = NULL;
    size_t room = 0, n = 0, left = 1;
    int rc = OK;
    if (!z)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    while (in.pos < in.size || left) {
        if (n == room && !grow(&out, &room, limit)) {
            rc = FAIL(e, E_NOMEM, "%s: out of memory", path);
            break;
        }
        ZSTD_outBuffer o = {out + n, room - n, 0};
        size_t before = in.pos;
        left = ZSTD_decompressStream(z, &o, &in);
        n += o.pos;
        if (ZSTD_isError(left))
            rc = FAIL(e, E_INPUT, "%s: not zstd at byte %zu: %s", path, in.pos, ZSTD_getErrorName(left));
        else if (n > limit)
            rc = FAIL(e, E_INPUT, "%s: more than %zu bytes when decompressed", path, limit);
        else if (left && !o.pos && in.pos == before)
            rc = FAIL(e, E_INPUT, "%s: ends in the middle of a zstd frame, after %zu bytes", path, n);
        if (rc)
            break;
    }
    ZSTD_freeDStream(z);
    if (rc) {
        free(out);
        return rc;
    }
    out[n] = 0;
    *data = out;
    *bytes = n;
    return OK;
}

int packed_read(const char *path, size_t limit, void **data, size_t *bytes, struct err *e)
{
    struct mapped m;
    if (mapped_open(path, &m, e))
        return e->code;
    int rc = ends_with(path, ".zst") ? inflate(path, &m, limit, data, bytes, e) : copy(path, &m, limit, data, bytes, e);
    mapped_close(&m);
    return rc;
}
