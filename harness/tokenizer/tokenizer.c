#include "goldens/exchange.h"
#include "harness/base/json.h"
#include "harness/tokenizer/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE ((size_t)256 << 20)
#define MAX_ID   2000000

/* GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for code points from 256 on. */
static void make_alphabet(int16_t byte_of[512], uint16_t code_point[256])
{
    int next = 256;
    for (int i = 0; i < 512; i++)
        byte_of[i] = -1;
    for (int b = 0; b < 256; b++) {
        int printable = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
        code_point[b] = (uint16_t)(printable ? b : next++);
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

static int longest_first(const void *a, const void *b)
{
    const struct added *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : memcmp(x->text, y->text, x->bytes);
}

static int read_one_added(struct tokenizer *t, const json_t *o, size_t i, struct err *e)
{
    const char *text = json_string_value(json_object_get(o, "content"));
    const json_t *id = json_object_get(o, "id");
    json_int_t value = json_integer_value(id);
    if (!text || !*text || !json_is_integer(id) || value < 0 || value > MAX_ID)
        return FAIL(e, E_INPUT, "%s: added token %zu needs a content and an id up to %d", t->name, i, MAX_ID);
    const json_t *own = json_object_get(t->vocab, text);
    const char *other = value < t->vocabulary ? t->piece[value] : NULL;
    if (own && json_integer_value(own) != value)
        return FAIL(e, E_INPUT, "%s: added token \"%.60s\" has id %lld, the vocabulary says %lld", t->name, text,
                    (long long)value, (long long)json_integer_value(own));
    if (other && strcmp(other, text))
        return FAIL(e, E_INPUT, "%s: id %lld stands for two pieces: \"%.60s\" and added token \"%.60s\"", t->name,
                    (long long)value, other, text);
    t->added[t->addeds++] = (struct added){.text = text,
                                           .bytes = strlen(text),
                                           .id = (int32_t)value,
                                           .late = json_is_true(json_object_get(o, "normalized")),
                                           .strict = json_is_true(json_object_get(o, "lstrip")) ||
                                                     json_is_true(json_object_get(o, "rstrip")) ||
                                                     json_is_true(json_object_get(o, "single_word"))};
    t->added_starts[(unsigned char)*text] = 1;
    t->pieces = value >= t->pieces ? (int)value + 1 : t->pieces;
    return OK;
}

static int index_added(struct tokenizer *t, struct err *e)
{
    t->added_of = malloc((t->pieces ? (size_t)t->pieces : 1) * sizeof *t->added_of);
    if (!t->added_of)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    for (int i = 0; i < t->pieces; i++)
        t->added_of[i] = -1;
    for (int i = 0; i < t->addeds; i++) {
        int32_t *at = &t->added_of[t->added[i].id];
        if (*at >= 0)
            return FAIL(e, E_INPUT, "%s: id %d stands for two added tokens: \"%.60s\" and \"%.60s\"", t->name,
                        (int)t->added[i].id, t->added[*at].text, t->added[i].text);
        if (i && !longest_first(&t->added[i - 1], &t->added[i]))
            return FAIL(e, E_INPUT, "%s: added token \"%.60s\" is there twice", t->name, t->added[i].text);
        *at = i;
    }
    return OK;
}

static int read_added(struct tokenizer *t, const json_t *list, struct err *e)
{
    size_t i, n = json_array_size(list);
    json_t *o;
    t->vocabulary = t->pieces;
    t->added = calloc(n ? n : 1, sizeof *t->added);
    if (!t->added)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    json_array_foreach(list, i, o)
    {
        if (read_one_added(t, o, i, e))
            return e->code;
    }
    qsort(t->added, (size_t)t->addeds, sizeof *t->added, longest_first);
    return index_added(t, e);
}

static int read_normalizer(struct tokenizer *t, const json_t *o, struct err *e)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    size_t i;
    json_t *one;
    if (!o || json_is_null(o))
        return OK;
    if (type && !strcmp(type, "Sequence")) {
        json_array_foreach(json_object_get(o, "normalizers"), i, one)
        {
            if (read_normalizer(t, one, e))
                return e->code;
        }
        return OK;
    }
    t->nfc = 1;
    return type && !strcmp(type, "NFC")
               ? OK
               : FAIL(e, E_UNSUPPORTED, "%s: normalizer %.40s; NFC is understood, for texts that it leaves alone",
                      t->name, type ? type : "of no type");
}

/* What would change the ids and is not done here. */
static int check_model(const struct tokenizer *t, const json_t *model, struct err *e)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t i = 0; i < 2; i++) {
        const char *text = json_string_value(json_object_get(model, affixes[i]));
        if (text && *text)
            return FAIL(e, E_UNSUPPORTED, "%s: model.%s \"%.40s\"", t->name, affixes[i], text);
    }
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return FAIL(e, E_UNSUPPORTED, "%s: model.dropout", t->name);
    return OK;
}

static int read_pieces(struct tokenizer *t, struct err *e)
{
    const json_t *model = json_object_get(t->file, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type || strcmp(type, "BPE"))
        return FAIL(e, E_UNSUPPORTED, "%s: model %.40s; BPE is understood", t->name, type ? type : "of no type");
    t->vocab = json_object_get(model, "vocab");
    if (!json_is_object(t->vocab))
        return FAIL(e, E_INPUT, "%s: model.vocab is no object", t->name);
    make_alphabet(t->byte_of, t->code_point);
    for (int b = 0; b < 256; b++) {
        char piece[3];
        utf8_of(t->code_point[b], piece);
        const json_t *id = json_object_get(t->vocab, piece);
        t->byte_id[b] = json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
    }
    return read_vocab(t, e) || read_added(t, json_object_get(t->file, "added_tokens"), e) ? e->code : OK;
}

static int read_rules(struct tokenizer *t, struct err *e)
{
    const json_t *model = json_object_get(t->file, "model");
    t->match = pcre2_match_context_create(NULL);
    t->match_data = pcre2_match_data_create(1, NULL);
    if (!t->match || !t->match_data)
        return FAIL(e, E_NOMEM, "%s: out of memory", t->name);
    pcre2_set_match_limit(t->match, 1000000);
    t->whole_words = json_is_true(json_object_get(model, "ignore_merges"));
    return check_model(t, model, e) || read_normalizer(t, json_object_get(t->file, "normalizer"), e) ||
                   tokenizer_read_merges(t, json_object_get(model, "merges"), e) ||
                   tokenizer_read_splits(t, json_object_get(t->file, "pre_tokenizer"), e)
               ? e->code
               : OK;
}

static int open_file(const char *path, int rules, struct tokenizer **out, struct err *e)
{
    struct err own = {0}; /* the first failure decides, also when the caller gave no e */
    void *text = NULL;
    size_t bytes;
    struct tokenizer *t = NULL;
    if (packed_read(path, MAX_FILE, &text, &bytes, &own))
        goto out;
    if (!(t = calloc(1, sizeof *t))) {
        FAIL(&own, E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    snprintf(t->name, sizeof t->name, "%.190s", path);
    if (!(t->file = json_parse(text, bytes, path, 0, &own)) || read_pieces(t, &own) || (rules && read_rules(t, &own)))
        goto out;
    *out = t, t = NULL;
out:
    free(text);
    tokenizer_close(t);
    return own.code ? FAIL(e, own.code, "%s", own.text) : OK;
}

int tokenizer_open(const char *path, struct tokenizer **t, struct err *e)
{
    return open_file(path, 1, t, e);
}

int tokenizer_open_pieces(const char *path, struct tokenizer **t, struct err *e)
{
    return open_file(path, 0, t, e);
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->splits; i++)
        pcre2_code_free(t->split[i].pattern);
    pcre2_match_data_free(t->match_data);
    pcre2_match_context_free(t->match);
    tokenizer_scratch_free(t->scratch);
    free(t->piece);
    free(t->merge);
    free(t->added);
    free(t->added_of);
    json_decref(t->file);
    free(t);
}

int tokenizer_vocab(const struct tokenizer *t)
{
    return t->pieces;
}
