/* The shipped ids come out of the shipped texts, and a hostile tokenizer.json gives one clear error. */
#include "goldens/exchange.h"
#include "harness/base/json.h"
#include "harness/base/mapped.h"
#include "harness/tokenizer/tokenizer.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY "batteries/models/tiny-dense-nvfp4/tokenizer.json"
#define SMOL "batteries/models/recipes/smollm2-135m-nvfp4/tokenizer.json.zst"

static void reproduces(const char *battery, const char *tokenizer)
{
    struct err e = {0};
    struct tokenizer *t;
    struct battery *b;
    ck_assert_msg(tokenizer_open(tokenizer, &t, &e) == OK, "%s", e.text);
    ck_assert_msg(battery_read(battery, &b, &e) == OK, "%s", e.text);
    for (int i = 0; i < b->prompts; i++) {
        const struct battery_prompt *p = &b->prompt[i];
        int32_t *ids;
        int n;
        char *text;
        size_t bytes;
        ck_assert_msg(tokenizer_encode(t, p->text, strlen(p->text), &ids, &n, &e) == OK, "%s", e.text);
        ck_assert_int_eq(n, p->n);
        ck_assert_mem_eq(ids, p->ids, (size_t)n * sizeof *ids);
        ck_assert_msg(tokenizer_decode(t, ids, n, &text, &bytes, &e) == OK, "%s", e.text);
        ck_assert_str_eq(text, p->text);
        free(ids);
        free(text);
    }
    battery_free(b);
    tokenizer_close(t);
}

START_TEST(every_shipped_text_gives_the_shipped_ids)
{
    reproduces("batteries/smoke.json", TINY);
    reproduces("batteries/strict.json", TINY);
    reproduces("batteries/chat.json", SMOL);
}
END_TEST

static int open_text(const char *text, struct tokenizer **t, struct err *e)
{
    char path[300];
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(path, sizeof path, "%s/tokenizer.json", tmp ? tmp : "build");
    ck_assert_int_eq(packed_write(path, text, strlen(text), e), OK);
    return tokenizer_open(path, t, e);
}

static json_t *shipped(const char *path)
{
    struct err e = {0};
    void *text;
    size_t bytes;
    ck_assert_msg(packed_read(path, 64 << 20, &text, &bytes, &e) == OK, "%s", e.text);
    json_t *o = json_parse(text, bytes, path, 0, &e);
    ck_assert_msg(o != NULL, "%s", e.text);
    free(text);
    return o;
}

/* Removes every n-th merge, from the first; what is left must then be found by ignore_merges. */
static json_t *drop_every(json_t *merges, json_int_t n)
{
    json_t *kept = json_array(), *m;
    size_t i;
    json_array_foreach(merges, i, m) if (i % (size_t)n) json_array_append(kept, m);
    return kept;
}

static json_t *reversed(json_t *merges)
{
    json_t *out = json_array();
    for (size_t i = json_array_size(merges); i--;)
        json_array_append(out, json_array_get(merges, i));
    return out;
}

static void repeat(json_t *merges, const json_t *range)
{
    json_int_t last = json_integer_value(json_array_get(range, 1));
    for (json_int_t i = json_integer_value(json_array_get(range, 0)); i < last; i++)
        json_array_append(merges, json_array_get(merges, (size_t)i));
}

/* Pairs of pieces, each joined to a new piece with the next id. */
static void add_merges(json_t *model, const json_t *pairs)
{
    json_t *vocab = json_object_get(model, "vocab");
    for (size_t i = 0; i + 1 < json_array_size(pairs); i += 2) {
        char whole[64];
        json_t *left = json_array_get(pairs, i), *right = json_array_get(pairs, i + 1);
        snprintf(whole, sizeof whole, "%s%s", json_string_value(left), json_string_value(right));
        json_object_set_new(vocab, whole, json_integer((json_int_t)json_object_size(vocab)));
        json_array_append_new(json_object_get(model, "merges"), json_pack("[O,O]", left, right));
    }
}

/* A shipped tokenizer, changed as the line says. */
static struct tokenizer *variant(const json_t *line)
{
    const char *base = json_string_value(json_object_get(line, "base"));
    json_t *o = shipped(!strcmp(base, "tiny") ? TINY : SMOL), *model = json_object_get(o, "model"), *value;
    const char *key;
    struct tokenizer *t;
    struct err e = {0};
    json_object_foreach(json_object_get(line, "change"), key, value)
    {
        json_t *merges = json_object_get(model, "merges");
        if (!strcmp(key, "drop_every"))
            json_object_set_new(model, "merges", drop_every(merges, json_integer_value(value)));
        else if (!strcmp(key, "reverse"))
            json_object_set_new(model, "merges", reversed(merges));
        else if (!strcmp(key, "repeat"))
            repeat(merges, value);
        else if (!strcmp(key, "new_merges"))
            add_merges(model, value);
        else if (!strcmp(key, "ignore_merges"))
            json_object_set(model, key, value);
        else if (!strcmp(key, "added_tokens"))
            json_array_extend(json_object_get(o, key), value);
        else
            json_object_set(o, key, value);
    }
    char *text = json_dumps(o, JSON_COMPACT);
    ck_assert_msg(open_text(text, &t, &e) == OK, "%s", e.text);
    free(text);
    json_decref(o);
    return t;
}

static void check_line(struct tokenizer *t, const json_t *line, int number)
{
    struct err e = {0};
    const json_t *text = json_object_get(line, "text");
    int32_t *want, *ids;
    int wanted, n;
    ck_assert_int_eq(json_get_ids(line, "ids", 0, 1 << 20, &want, &wanted, "recorded", &e), OK);
    ck_assert_msg(tokenizer_encode(t, json_string_value(text), json_string_length(text), &ids, &n, &e) == OK,
                  "line %d: %s", number, e.text);
    ck_assert_msg(n == wanted && !memcmp(ids, want, (size_t)n * sizeof *ids), "line %d: other ids", number);
    free(ids);
    free(want);
}

/* Recorded with Hugging Face's own tokenizers 0.23.3. */
START_TEST(every_kind_of_tokenizer_gives_the_recorded_ids)
{
    void *text;
    size_t bytes;
    struct err e = {0};
    struct tokenizer *t = NULL;
    int number = 0, variants = 0;
    ck_assert_msg(packed_read("harness/test/data/tokenizer-variants.jsonl.zst", 1 << 20, &text, &bytes, &e) == OK, "%s",
                  e.text);
    for (const char *p = text, *end = p + bytes; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        json_t *line = json_parse(p, (size_t)(stop - p), "tokenizer-variants.jsonl", ++number, &e);
        ck_assert_msg(line != NULL, "%s", e.text);
        if (json_object_get(line, "variant")) {
            tokenizer_close(t);
            t = variant(line);
            variants++;
        } else {
            check_line(t, line, number);
        }
        json_decref(line);
        p = stop + 1;
    }
    ck_assert_int_eq(variants, 9);
    tokenizer_close(t);
    free(text);
}
END_TEST

static void refused(struct tokenizer *t, const char *text, size_t bytes, int code, const char *why)
{
    struct err e = {0};
    int32_t *ids;
    int n;
    ck_assert_int_eq(tokenizer_encode(t, text, bytes, &ids, &n, &e), code);
    ck_assert_msg(strstr(e.text, why) != NULL, "%s", e.text);
}

START_TEST(added_tokens_stand_for_themselves_and_bytes_need_not_be_text)
{
    struct err e = {0};
    struct tokenizer *t;
    int32_t *ids;
    int n;
    char *text;
    size_t bytes;
    ck_assert_int_eq(tokenizer_open(SMOL, &t, &e), OK);
    ck_assert_int_eq(tokenizer_encode(t, "a<|im_end|>b", 12, &ids, &n, &e), OK);
    ck_assert_int_eq(n, 3);
    ck_assert_int_eq(ids[1], 2);
    free(ids);
    static const char *const broken[] = {"ab\xff", "ab\xc3", "ab\xc0\x80", "ab\xed\xa0\x80", "ab\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        refused(t, broken[i], strlen(broken[i]), E_INPUT, "not UTF-8 at byte 2");
    refused(t, "a\x04", 2, E_UNSUPPORTED, "byte 0x04 has no piece");
    int32_t bad = tokenizer_vocab(t), part = 127; /* a byte that is no text of its own */
    ck_assert_int_eq(tokenizer_decode(t, &bad, 1, &text, &bytes, &e), E_INPUT);
    e = (struct err){0};
    ck_assert_int_eq(tokenizer_decode(t, &part, 1, &text, &bytes, &e), OK);
    ck_assert(bytes == 1 && (unsigned char)*text >= 0x80);
    free(text);
    tokenizer_close(t);
}
END_TEST

START_TEST(a_text_that_needs_normalizing_is_refused_not_changed)
{
    struct err e = {0};
    struct tokenizer *t;
    json_t *o = shipped(TINY);
    int32_t *ids;
    int n;
    json_object_set_new(o, "normalizer",
                        json_pack("{s:s,s:[{s:s}]}", "type", "Sequence", "normalizers", "type", "NFC"));
    char *text = json_dumps(o, JSON_COMPACT);
    ck_assert_msg(open_text(text, &t, &e) == OK, "%s", e.text);
    free(text);
    json_decref(o);
    refused(t, "e\xcc\x81", 3, E_UNSUPPORTED, "NFC");
    ck_assert_int_eq(tokenizer_encode(t, "\xc3\xa9 \xe6\x97\xa5", 6, &ids, &n, &e), OK);
    free(ids);
    tokenizer_close(t);
}
END_TEST

#define MODEL(vocab, merges) "\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}"
#define SPLIT(pattern)                                                                                                 \
    "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"         \
    "\"" pattern "\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\",\"use_regex\":false}]}," MODEL(               \
        "{\"a\":0,\"!\":1}", "[]") "}"
#define ADDED(list) "{\"added_tokens\":" list "," MODEL("{\"a\":0,\"b\":1}", "[]") "}"

static const char *const hostile[][2] = {
    {"{\"model\":{\"type\":\"WordPiece\"}}", "WordPiece"},
    {"{" MODEL("[]", "[]") "}", "model.vocab"},
    {"{" MODEL("{\"a\":0,\"b\":0}", "[]") "}", "id 0 stands for two pieces"},
    {"{" MODEL("{\"a\":99999999}", "[]") "}", "not an id"},
    {"{" MODEL("{\"a\":-1}", "[]") "}", "not an id"},
    {"{" MODEL("{\"a\":\"0\"}", "[]") "}", "not an id"},
    {"{" MODEL("{\"a\":0}", "[\"a z\"]") "}", "\"z\" is not in the vocabulary"},
    {"{" MODEL("{\"a\":0}", "[\"a a\"]") "}", "\"aa\" is not in the vocabulary"},
    {"{" MODEL("{\"a\":0}", "[\"a\"]") "}", "merge 0 is no pair"},
    {"{" MODEL("{\"a\":0}", "[[\"a\",\"a\",\"a\"]]") "}", "merge 0 is no pair"},
    {"{" MODEL("{\"a\":0}", "{}") "}", "model.merges"},
    {"{" MODEL("{\"a\":0}", "[]") "}", "no pre_tokenizer"},
    {"{\"pre_tokenizer\":{\"type\":\"Digits\"}," MODEL("{\"a\":0}", "[]") "}", "no ByteLevel"},
    {"{\"pre_tokenizer\":{\"type\":\"Metaspace\"}," MODEL("{\"a\":0}", "[]") "}", "Metaspace"},
    {"{\"normalizer\":{\"type\":\"NFKC\"}," MODEL("{}", "[]") "}", "NFKC"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"dropout\":0.1}}", "dropout"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}", "end_of_word_suffix"},
    {ADDED("[{\"id\":2}]"), "needs a content"},
    {ADDED("[{\"id\":4294967296,\"content\":\"x\"}]"), "added token 0"},
    {ADDED("[{\"id\":0,\"content\":\"x\"}]"), "id 0 stands for two pieces"},
    {ADDED("[{\"id\":2,\"content\":\"b\"}]"), "the vocabulary says 1"},
    {ADDED("[{\"id\":2,\"content\":\"x\"},{\"id\":2,\"content\":\"y\"}]"), "two added tokens"},
    {ADDED("[{\"id\":2,\"content\":\"x\"},{\"id\":3,\"content\":\"x\"}]"), "there twice"},
    {SPLIT("("), "does not compile"},
    {SPLIT("["), "does not compile"},
    {SPLIT("\\\\w+"), "\"\\w\": this escape"},
    {SPLIT("[\\\\S]"), "this escape"},
    {SPLIT("[a[b]]"), "a class within a class"},
    {SPLIT("a(?m)b"), "this group"},
    {SPLIT("a{1,2}+"), "a repeat of a repeat"},
    {SPLIT("\\\\p{Nonsense}"), "does not compile"},
    {SPLIT("a\\\\"), "this escape"},
    {"{\"a\":1,\"a\":2}", "duplicate"},
    {"{", "not JSON"},
    {"[]", "of no type"},
};

START_TEST(a_hostile_file_gives_one_clear_error)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct err e = {0};
        struct tokenizer *t;
        ck_assert_msg(open_text(hostile[i][0], &t, &e) != OK, "%s", hostile[i][0]);
        ck_assert_msg(strstr(e.text, hostile[i][1]) != NULL, "%s", e.text);
        ck_assert_msg(strstr(e.text, "tokenizer.json") != NULL, "%s", e.text);
    }
}
END_TEST

START_TEST(a_catastrophic_pattern_gives_up_instead_of_hanging)
{
    struct err e = {0};
    struct tokenizer *t;
    char text[64];
    memset(text, 'a', sizeof text);
    text[63] = '!';
    ck_assert_msg(open_text(SPLIT("(a+a+)+[bc]"), &t, &e) == OK, "%s", e.text);
    refused(t, text, sizeof text, E_INPUT, "gives up");
    tokenizer_close(t);
}
END_TEST

/* A word as long as the text: quadratic merging would take minutes. */
START_TEST(a_megabyte_without_a_space_is_one_word_and_quick)
{
    struct err e = {0};
    struct tokenizer *t;
    size_t n = 1 << 20, bytes;
    char *text = malloc(n), *back;
    int32_t *ids;
    int count;
    memset(text, ' ', n);
    ck_assert_int_eq(tokenizer_open(TINY, &t, &e), OK);
    ck_assert_msg(tokenizer_encode(t, text, n, &ids, &count, &e) == OK, "%s", e.text);
    ck_assert_int_lt(count, (int)n / 16);
    ck_assert_int_eq(tokenizer_decode(t, ids, count, &back, &bytes, &e), OK);
    ck_assert(bytes == n && !memcmp(back, text, n));
    free(back);
    free(ids);
    free(text);
    tokenizer_close(t);
}
END_TEST

START_TEST(what_is_opened_for_its_pieces_says_them_and_does_not_encode)
{
    struct err e = {0};
    struct tokenizer *t;
    char path[300], buf[32];
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(path, sizeof path, "%s/pieces.json", tmp ? tmp : "build");
    static const char text[] = "{\"normalizer\":{\"type\":\"NFKC\"},\"added_tokens\":[{\"id\":9,\"content\":\"<\\\"x>"
                               "\"},{\"id\":8,\"content\":\"\\u202e\\u0007\\\\\"}],"
                               "\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\u0120a\":0},\"merges\":[]}}";
    ck_assert_int_eq(packed_write(path, text, strlen(text), &e), OK);
    ck_assert_msg(tokenizer_open_pieces(path, &t, &e) == OK, "%s", e.text);
    ck_assert_int_eq(tokenizer_vocab(t), 10);
    ck_assert_str_eq(tokenizer_piece(t, 0, buf, sizeof buf), "\" a\"");
    ck_assert_str_eq(tokenizer_piece(t, 9, buf, sizeof buf), "\"<\\\"x>\"");
    ck_assert_str_eq(tokenizer_piece(t, 8, buf, sizeof buf), "\"\\u202e\\x07\\\\\"");
    ck_assert_str_eq(tokenizer_piece(t, 8, buf, 9), "\"\\u202e\""); /* cut at a character */
    ck_assert_str_eq(tokenizer_piece(t, 5, buf, sizeof buf), "");
    ck_assert_str_eq(tokenizer_piece(t, -1, buf, sizeof buf), "");
    ck_assert_str_eq(tokenizer_piece(t, 10, buf, sizeof buf), "");
    refused(t, "a", 1, E_INTERNAL, "pieces only");
    tokenizer_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *t = tcase_create("bpe");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_shipped_text_gives_the_shipped_ids);
    tcase_add_test(t, every_kind_of_tokenizer_gives_the_recorded_ids);
    tcase_add_test(t, added_tokens_stand_for_themselves_and_bytes_need_not_be_text);
    tcase_add_test(t, a_hostile_file_gives_one_clear_error);
    tcase_add_test(t, a_catastrophic_pattern_gives_up_instead_of_hanging);
    tcase_add_test(t, a_text_that_needs_normalizing_is_refused_not_changed);
    tcase_add_test(t, a_megabyte_without_a_space_is_one_word_and_quick);
    tcase_add_test(t, what_is_opened_for_its_pieces_says_them_and_does_not_encode);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
