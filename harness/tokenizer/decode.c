/* Ids to bytes, and to something that can be printed. */
#include "harness/tokenizer/private.h"

#include <stdio.h>
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

/* Length of the character of well-formed UTF-8 at s, 0 when it is cut or no UTF-8: a token may hold a part of one. */
static size_t whole_character(const uint8_t *s, size_t left)
{
    size_t n = *s < 0x80                 ? 1
               : *s >= 0xc2 && *s < 0xe0 ? 2
               : *s >= 0xe0 && *s < 0xf0 ? 3
               : *s >= 0xf0 && *s < 0xf5 ? 4
                                         : 0;
    if (!n || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/* How one character is shown; *used: bytes it takes from s. */
static int escape(const uint8_t *s, size_t left, char *out, size_t size, size_t *used)
{
    size_t n = whole_character(s, left);
    *used = n ? n : 1;
    if (*s == '\n' || *s == '\t' || *s == '\r')
        return snprintf(out, size, "\\%c", *s == '\n' ? 'n' : *s == '\t' ? 't' : 'r');
    if (*s == '"' || *s == '\\')
        return snprintf(out, size, "\\%c", *s);
    /* C1 controls would reach a terminal as commands, too. */
    if (!n || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && s[1] < 0xa0)) {
        *used = 1;
        return snprintf(out, size, "\\x%02x", *s);
    }
    return snprintf(out, size, "%.*s", (int)n, (const char *)s);
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, char *buf, size_t size)
{
    char one[8], *bytes;
    size_t at = 0, used = 0, n;
    *buf = 0;
    if (!t || size < 8 || tokenizer_decode(t, &id, 1, &bytes, &n, NULL))
        return buf;
    buf[at++] = '"';
    for (size_t i = 0; i < n; i += used) {
        size_t length = (size_t)escape((const uint8_t *)bytes + i, n - i, one, sizeof one, &used);
        if (at + length + 2 > size)
            break;
        memcpy(buf + at, one, length);
        at += length;
    }
    free(bytes);
    buf[at++] = '"';
    buf[at] = 0;
    return buf;
}
