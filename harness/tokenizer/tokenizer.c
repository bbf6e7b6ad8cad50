#include "goldens/exchange.h"
#include "harness/base/json.h"
#include "harness/tokenizer/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)256 << 20)
#define MAX_ID   2000000

/* GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for code points from 256 on. */
static void make_alphabet(int16_t byte_of[512], int code_point[256])
{
    int next = 256;
    for (int i = 0; i < 512; i++)
        byte_of[i] = -1;
    for (int b = 0; b < 256; b++) {
        int printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        code_point[b] = printable ? b : next++;
        byte_of[code_point[b]] = (int16_t)b;
    }
}

static int utf8_of(int code_point, char out[3])
{
    if (code_point < 128) {
        out[0] = (char)code_point, out[1] = 0;
        return 1;
    }
    out[0] = (char)(0xc0 | code_point >> 6), out[1] = (char)(0x80 | (code_point & 63)), out[2] = 0;
    return 2;
}

static int read_vocab(struct tokenizer *t, struct err *e)
{
    const char *key;
    json_t *id;
    json_object_foreach(t->vocab, key, id)
    {
        json_int_t i = json_integer_value(id);
        if (!json_is_integer(id) || i < 0 || i > MAX_ID)
            return FAIL(e, E_INPUT, "%s: vocab \"%.60s\": not an id up to %d", t->name, key, MAX_ID);
        t->pieces = i >= t->pieces ? (int)i + 1 : t->pieces;
    }
    t->piece = calloc(t->pieces ? (size_t)t->pieces : 1, sizeof *t->piece);
    if (!t->piece)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    json_object_foreach(t->vocab, key, id)
    {
        json_int_t i = json_integer_value(id);
        if (t->piece[i])
            return FAIL(e, E_INPUT, "%s: id %lld stands for two pieces: \"%.60s\" and \"%.60s\"", t->name, (long long)i,
                        t->piece[i], key);
        t->piece[i] = key;
    }
    return OK;
}

static uint32_t slot_of(const struct tokenizer *t, int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15ull;
    uint32_t at = (uint32_t)(h >> 40) & t->merge_mask;
    while (t->merge[at].rank >= 0 && (t->merge[at].left != left || t->merge[at].right != right))
        at = (at + 1) & t->merge_mask;
    return at;
}

/* Both halves of a merge: "left right", or ["left", "right"]. */
static int halves(const json_t *m, char *buffer, size_t size, const char **left, const char **right)
{
    if (json_is_array(m) && json_array_size(m) == 2) {
        *left = json_string_value(json_array_get(m, 0));
        *right = json_string_value(json_array_get(m, 1));
        return *left && *right;
    }
    const char *text = json_string_value(m), *space = text ? strchr(text, ' ') : NULL;
    if (!space || (size_t)(space - text) >= size)
        return 0;
    memcpy(buffer, text, (size_t)(space - text));
    buffer[space - text] = 0;
    *left = buffer;
    *right = space + 1;
    return 1;
}

static int add_merge(struct tokenizer *t, const json_t *m, int rank, struct err *e)
{
    char buffer[1024], whole[2048];
    const char *left, *right;
    if (!halves(m, buffer, sizeof buffer, &left, &right) || strlen(left) + strlen(right) >= sizeof whole)
        return FAIL(e, E_INPUT, "%s: merge %d is no pair of pieces", t->name, rank);
    snprintf(whole, sizeof whole, "%s%s", left, right);
    const json_t *l = json_object_get(t->vocab, left), *r = json_object_get(t->vocab, right),
                 *w = json_object_get(t->vocab, whole);
    if (!l || !r || !w)
        return FAIL(e, E_INPUT, "%s: merge %d: \"%.60s\" is not in the vocabulary", t->name, rank,
                    !l   ? left
                    : !r ? right
                         : whole);
    uint32_t at = slot_of(t, (int32_t)json_integer_value(l), (int32_t)json_integer_value(r));
    if (t->merge[at].rank < 0)
        t->merge[at] = (struct merge){(int32_t)json_integer_value(l), (int32_t)json_integer_value(r),
                                      (int32_t)json_integer_value(w), rank};
    return OK;
}

static int read_merges(struct tokenizer *t, const json_t *merges, struct err *e)
{
    size_t n = json_array_size(merges), size = 16, i;
    json_t *m;
    if (!json_is_array(merges))
        return FAIL(e, E_INPUT, "%s: model.merges is no array", t->name);
    while (size < 2 * n)
        size *= 2;
    t->merge = malloc(size * sizeof *t->merge);
    if (!t->merge)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    for (i = 0; i < size; i++)
        t->merge[i].rank = -1;
    t->merge_mask = (uint32_t)size - 1;
    json_array_foreach(merges, i, m)
    {
        if (add_merge(t, m, (int)i, e))
            return e->code;
    }
    return OK;
}

static int longest_first(const void *a, const void *b)
{
    const struct added *x = a, *y = b;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

static int read_added(struct tokenizer *t, const json_t *list, struct err *e)
{
    size_t i, n = json_array_size(list);
    json_t *o;
    t->added = calloc(n ? n : 1, sizeof *t->added);
    if (!t->added)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    json_array_foreach(list, i, o)
    {
        const char *text = json_string_value(json_object_get(o, "content"));
        const json_t *id = json_object_get(o, "id");
        json_int_t value = json_integer_value(id);
        if (!text || !*text || !json_is_integer(id) || value < 0 || value > MAX_ID)
            return FAIL(e, E_INPUT, "%s: added token %zu needs a content and an id", t->name, i);
        t->added[t->addeds++] = (struct added){(char *)(size_t)text, strlen(text), (int32_t)value};
        t->pieces = value >= t->pieces ? (int)value + 1 : t->pieces;
    }
    qsort(t->added, n, sizeof *t->added, longest_first);
    return OK;
}

static int check_normalizer(const struct tokenizer *t, struct err *e)
{
    const json_t *o = json_object_get(t->file, "normalizer");
    const char *type = json_string_value(json_object_get(o, "type"));
    if (!o || json_is_null(o) ||
        (type && !strcmp(type, "Sequence") && !json_array_size(json_object_get(o, "normalizers"))))
        return OK;
    return FAIL(e, E_UNSUPPORTED, "%s: normalizer %.40s; only texts that need none are understood", t->name,
                type ? type : "of no type");
}

static int fill(struct tokenizer *t, struct err *e)
{
    const json_t *model = json_object_get(t->file, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    int code_point[256];
    if (!type || strcmp(type, "BPE"))
        return FAIL(e, E_UNSUPPORTED, "%s: model %.40s; BPE is understood", t->name, type ? type : "of no type");
    t->vocab = json_object_get(model, "vocab");
    if (!json_is_object(t->vocab))
        return FAIL(e, E_INPUT, "%s: model.vocab is no object", t->name);
    make_alphabet(t->byte_of, code_point);
    for (int b = 0; b < 256; b++) {
        char piece[3];
        utf8_of(code_point[b], piece);
        const json_t *id = json_object_get(t->vocab, piece);
        t->byte_id[b] = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
    }
    t->match = pcre2_match_context_create(NULL);
    t->match_data = pcre2_match_data_create(1, NULL);
    if (!t->match || !t->match_data)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    pcre2_set_match_limit(t->match, 1000000);
    return check_normalizer(t, e) || read_vocab(t, e) || read_merges(t, json_object_get(model, "merges"), e) ||
                   read_added(t, json_object_get(t->file, "added_tokens"), e) ||
                   tokenizer_read_splits(t, json_object_get(t->file, "pre_tokenizer"), e)
               ? e->code
               : OK;
}

int tokenizer_open(const char *path, struct tokenizer **out, struct err *e)
{
    void *text;
    size_t bytes;
    if (packed_read(path, MAX_FILE, &text, &bytes, e))
        return e->code;
    struct tokenizer *t = calloc(1, sizeof *t);
    if (t)
        snprintf(t->name, sizeof t->name, "%.190s", path);
    int rc = t ? OK : FAIL(e, E_NOMEM, "%s: out of memory", path);
    if (!rc && !(t->file = json_parse(text, bytes, path, 0, e)))
        rc = e->code;
    free(text);
    if (!rc)
        rc = fill(t, e);
    if (rc)
        tokenizer_close(t);
    else
        *out = t;
    return rc;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->splits; i++)
        pcre2_code_free(t->split[i].pattern);
    pcre2_match_data_free(t->match_data);
    pcre2_match_context_free(t->match);
    free(t->piece);
    free(t->merge);
    free(t->added);
    json_decref(t->file);
    free(t);
}

int tokenizer_vocab(const struct tokenizer *t)
{
    return t->pieces;
}

/* --- encoding --- */

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

/* Merges ids[0,n) of one word in place, always the pair of lowest rank, leftmost first; returns the new count. */
static int merge_word(const struct tokenizer *t, int32_t *id, int n)
{
    for (;;) {
        int best = -1;
        struct merge found = {0};
        for (int i = 0; i + 1 < n; i++) {
            const struct merge *m = &t->merge[slot_of(t, id[i], id[i + 1])];
            if (m->rank >= 0 && (best < 0 || m->rank < found.rank))
                best = i, found = *m;
        }
        if (best < 0)
            return n;
        int to = 0;
        for (int i = 0; i < n; i++) {
            int here = i + 1 < n && id[i] == found.left && id[i + 1] == found.right;
            id[to++] = here ? found.result : id[i];
            i += here;
        }
        n = to;
    }
}

static int encode_word(void *arg, const char *text, size_t bytes, struct err *e)
{
    struct ids *out = arg;
    int first = out->n;
    for (size_t i = 0; i < bytes; i++) {
        int32_t id = out->t->byte_id[(unsigned char)text[i]];
        if (id < 0)
            return FAIL(e, E_UNSUPPORTED, "%s: byte %d has no piece of its own", out->t->name, (unsigned char)text[i]);
        if (push(out, id, e))
            return e->code;
    }
    out->n = first + merge_word(out->t, out->id + first, out->n - first);
    return OK;
}

/* The first added token at or after `from`: its place, or bytes. */
static size_t next_added(const struct tokenizer *t, const char *text, size_t from, size_t bytes,
                         const struct added **which)
{
    *which = NULL;
    for (size_t at = from; at < bytes; at++)
        for (int i = 0; i < t->addeds; i++)
            if (t->added[i].bytes <= bytes - at && !memcmp(text + at, t->added[i].text, t->added[i].bytes)) {
                *which = &t->added[i];
                return at;
            }
    return bytes;
}

int tokenizer_encode(struct tokenizer *t, const char *text, size_t bytes, int32_t **ids, int *n, struct err *e)
{
    struct ids out = {.t = t, .id = malloc(sizeof(int32_t))};
    int rc = out.id ? OK : FAIL(e, E_NOMEM, "out of memory");
    for (size_t at = 0; at < bytes && !rc;) {
        const struct added *a;
        size_t stop = next_added(t, text, at, bytes, &a);
        rc = tokenizer_words(t, 0, text + at, stop - at, encode_word, &out, e);
        if (!rc && a)
            rc = push(&out, a->id, e);
        at = stop + (a ? a->bytes : 0);
    }
    if (rc) {
        free(out.id);
        return rc;
    }
    *ids = out.id;
    *n = out.n;
    return OK;
}

/* --- decoding --- */

static const struct added *added_by_id(const struct tokenizer *t, int32_t id)
{
    for (int i = 0; i < t->addeds; i++)
        if (t->added[i].id == id)
            return &t->added[i];
    return NULL;
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
        const struct added *a = added_by_id(t, ids[i]);
        if (!a && (ids[i] < 0 || ids[i] >= t->pieces || !t->piece[ids[i]]))
            return FAIL(e, E_INPUT, "%s: id %d has no piece", t->name, ids[i]);
        room += a ? a->bytes : strlen(t->piece[ids[i]]);
    }
    char *out = malloc(room);
    if (!out)
        return FAIL(e, E_NOMEM, "out of memory");
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct added *a = added_by_id(t, ids[i]);
        if (a)
            memcpy(out + at, a->text, a->bytes);
        at += a ? a->bytes : piece_bytes(t, t->piece[ids[i]], out + at);
    }
    out[at] = 0;
    *text = out;
    *bytes = at;
    return OK;
}
