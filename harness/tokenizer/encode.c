/* Text to ids: added tokens first, then words, then merges. */
#include "harness/base/utf8.h"
#include "harness/tokenizer/private.h"

#include <stdlib.h>
#include <string.h>

struct ids {
    struct tokenizer *t;
    int32_t *id;
    int n, room;
};

static int push(struct ids *out, int32_t id, struct err *e)
{
    if (out->n == out->room) {
        int room = out->room ? 2 * out->room : 256;
        int32_t *more = realloc(out->id, (size_t)room * sizeof *more);
        if (!more)
            return FAIL(e, E_NOMEM, "out of memory");
        out->id = more;
        out->room = room;
    }
    out->id[out->n++] = id;
    return OK;
}

/* The word as one piece; -1: it is none. Only a word of that kind is looked up, so its length is small. */
static int32_t whole_word(const struct tokenizer *t, const char *text, size_t bytes)
{
    char piece[512];
    size_t at = 0;
    if (2 * bytes >= sizeof piece)
        return -1;
    for (size_t i = 0; i < bytes; i++) {
        int c = t->code_point[(unsigned char)text[i]];
        if (c >= 128)
            piece[at++] = (char)(0xc0 | c >> 6), c = 0x80 | (c & 63);
        piece[at++] = (char)c;
    }
    piece[at] = 0;
    const json_t *id = json_object_get(t->vocab, piece);
    return id ? (int32_t)json_integer_value(id) : -1;
}

static int encode_word(void *arg, const char *text, size_t bytes, struct err *e)
{
    struct ids *out = arg;
    int32_t whole = out->t->whole_words ? whole_word(out->t, text, bytes) : -1;
    int first = out->n;
    if (whole >= 0)
        return push(out, whole, e);
    for (size_t i = 0; i < bytes; i++) {
        int32_t id = out->t->byte_id[(unsigned char)text[i]];
        if (id < 0)
            return FAIL(e, E_UNSUPPORTED, "%s: byte 0x%02x has no piece of its own", out->t->name,
                        (unsigned char)text[i]);
        if (push(out, id, e))
            return e->code;
    }
    int n = out->n - first;
    int rc = tokenizer_merge(out->t, out->id + first, &n, e);
    out->n = first + n;
    return rc;
}

/* The first added token of that kind at or after `from`, the longest of those that begin there: its place, or bytes. */
static size_t next_added(const struct tokenizer *t, int late, const char *text, size_t from, size_t bytes,
                         const struct added **which)
{
    *which = NULL;
    for (size_t at = from; at < bytes; at++)
        for (int i = 0; t->added_starts[(unsigned char)text[at]] && i < t->addeds; i++) {
            const struct added *a = &t->added[i];
            if (a->late == late && a->bytes <= bytes - at && !memcmp(text + at, a->text, a->bytes)) {
                *which = a;
                return at;
            }
        }
    return bytes;
}

/* Text between the added tokens that `late` says were not searched yet: 0 all, 1 the late ones, 2 none. */
static int encode_part(struct ids *out, int late, const char *text, size_t bytes, struct err *e)
{
    struct tokenizer *t = out->t;
    size_t risk = late && t->nfc ? tokenizer_nfc_risk(text, bytes) : bytes;
    if (risk < bytes)
        return FAIL(e, E_UNSUPPORTED,
                    "%s: %zu bytes before the end of a part of the text stands a character that "
                    "normalizer NFC may change; that is not understood",
                    t->name, bytes - risk);
    if (late == 2)
        return tokenizer_words(t, 0, text, bytes, encode_word, out, e);
    for (size_t at = 0; at < bytes;) {
        const struct added *a;
        size_t stop = next_added(t, late, text, at, bytes, &a);
        if (encode_part(out, late + 1, text + at, stop - at, e))
            return e->code;
        if (a && a->strict)
            return FAIL(e, E_UNSUPPORTED, "%s: added token \"%.60s\" has lstrip, rstrip or single_word", t->name,
                        a->text);
        if (a && push(out, a->id, e))
            return e->code;
        at = stop + (a ? a->bytes : 0);
    }
    return OK;
}

/* Byte of the first character that is no UTF-8; bytes when there is none. */
static size_t first_invalid(const char *text, size_t bytes)
{
    uint32_t code_point;
    size_t at = 0, n;
    while (at < bytes && (n = utf8_character(text + at, bytes - at, &code_point)))
        at += n;
    return at;
}

int tokenizer_encode(struct tokenizer *t, const char *text, size_t bytes, int32_t **ids, int *n, struct err *e)
{
    if (!t->match)
        return FAIL(e, E_INTERNAL, "%s: opened for its pieces only", t->name);
    if (bytes > MAX_TEXT)
        return FAIL(e, E_UNSUPPORTED, "a text of %zu bytes; %d at most", bytes, MAX_TEXT);
    size_t bad = first_invalid(text, bytes);
    if (bad < bytes)
        return FAIL(e, E_INPUT, "the text is not UTF-8 at byte %zu", bad);
    struct ids out = {.t = t, .id = malloc(sizeof(int32_t))};
    int rc = out.id ? encode_part(&out, 0, text, bytes, e) : FAIL(e, E_NOMEM, "out of memory");
    if (rc) {
        free(out.id);
        return rc;
    }
    *ids = out.id;
    *n = out.n;
    return OK;
}
