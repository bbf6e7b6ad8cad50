/* Files as they are, or decompressed when they end in .zst; never more than the caller allows. */
#include "goldens/exchange.h"
#include "harness/base/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
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

static int write_all(int fd, const char *data, size_t bytes)
{
    while (bytes) {
        ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno != EINTR)
            return 0;
        if (n > 0) {
            data += n;
            bytes -= (size_t)n;
        }
    }
    return fsync(fd) == 0;
}

static int write_file(const char *path, const char *data, size_t bytes, struct err *e)
{
    char next[1060];
    /* A name of its own: two processes may write the same file, and one of them wins whole. */
    snprintf(next, sizeof next, "%.1000s.%ld.part", path, (long)getpid());
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return FAIL(e, E_IO, "%s: %s", next, strerror(errno));
    int good = write_all(fd, data, bytes), saved = errno;
    if (close(fd))
        good = 0, saved = errno;
    if (good && rename(next, path))
        good = 0, saved = errno;
    if (good)
        return OK;
    unlink(next);
    return FAIL(e, E_IO, "%s: %s", path, strerror(saved));
}

int packed_write(const char *path, const void *data, size_t bytes, struct err *e)
{
    if (!ends_with(path, ".zst"))
        return write_file(path, data, bytes, e);
    size_t room = ZSTD_compressBound(bytes);
    char *out = malloc(room);
    if (!out)
        return FAIL(e, E_NOMEM, "%s: out of memory", path);
    size_t n = ZSTD_compress(out, room, data, bytes, 19);
    int rc = ZSTD_isError(n) ? FAIL(e, E_IO, "%s: %s", path, ZSTD_getErrorName(n)) : write_file(path, out, n, e);
    free(out);
    return rc;
}
