/* Ids to bytes, and to something that can be printed. */
#include "harness/base/utf8.h"
#include "harness/tokenizer/private.h"

#include <stdlib.h>
#include <string.h>

const struct added *tokenizer_added(const struct tokenizer *t, int32_t id)
{
    return id < 0 || id >= t->pieces || t->added_of[id] < 0 ? NULL : &t->added[t->added_of[id]];
}

/* Bytes of a piece in the byte alphabet; out holds at least strlen(piece). */
static size_t piece_bytes(const struct tokenizer *t, const char *piece, char *out)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)piece; *p;) {
        int code = *p, length = 1;
        if (*p >= 0xc0 && *p < 0xe0 && p[1])
            code = (*p & 31) << 6 | (p[1] & 63), length = 2;
        if (*p < 0xe0 && code < 512 && t->byte_of[code] >= 0)
            out[n++] = (char)t->byte_of[code];
        else
            for (int i = 0; i < length; i++)
                out[n++] = (char)p[i];
        p += length;
    }
    return n;
}

int tokenizer_decode(const struct tokenizer *t, const int32_t *ids, int n, char **text, size_t *bytes, struct err *e)
{
    size_t room = 1;
    for (int i = 0; i < n; i++) {
        const struct added *a = tokenizer_added(t, ids[i]);
        if (!a && (ids[i] < 0 || ids[i] >= t->vocabulary || !t->piece[ids[i]]))
            return FAIL(e, E_INPUT, "%s: id %d has no piece", t->name, ids[i]);
        room += a ? a->bytes : strlen(t->piece[ids[i]]);
    }
    char *out = malloc(room);
    if (!out)
        return FAIL(e, E_NOMEM, "out of memory");
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct added *a = tokenizer_added(t, ids[i]);
        if (a)
            memcpy(out + at, a->text, a->bytes);
        at += a ? a->bytes : piece_bytes(t, t->piece[ids[i]], out + at);
    }
    out[at] = 0;
    *text = out;
    *bytes = at;
    return OK;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, char *buf, size_t size)
{
    char one[UTF8_UNIT_SIZE], *bytes;
    size_t at = 0, n;
    *buf = 0;
    if (!t || size < 8 || tokenizer_decode(t, &id, 1, &bytes, &n, NULL))
        return buf;
    buf[at++] = '"';
    for (size_t i = 0; i < n;) {
        const char *shown = bytes[i] == '"' ? "\\\"" : one;
        i += bytes[i] == '"' ? 1 : utf8_visible(bytes + i, n - i, 1, one);
        size_t length = strlen(shown);
        if (at + length + 2 > size)
            break;
        memcpy(buf + at, shown, length);
        at += length;
    }
    free(bytes);
    buf[at++] = '"';
    buf[at] = 0;
    return buf;
}
