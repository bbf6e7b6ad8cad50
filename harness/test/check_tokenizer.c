/* The shipped ids come out of the shipped texts, and a hostile tokenizer.json gives one clear error. */
#include "goldens/exchange.h"
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
    ck_assert_int_ne(tokenizer_encode(t, "\xff\xfe", 2, &ids, &n, &e), OK); /* not UTF-8 */
    e = (struct err){0};
    int32_t bad = tokenizer_vocab(t);
    ck_assert_int_eq(tokenizer_decode(t, &bad, 1, &text, &bytes, &e), E_INPUT);
    tokenizer_close(t);
}
END_TEST

static const char *const hostile[][2] = {
    {"{\"model\":{\"type\":\"WordPiece\"}}", "WordPiece"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}", "model.vocab"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "two pieces"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999},\"merges\":[]}}", "not an id"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a z\"]}}", "not in the vocabulary"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "no pair"},
    {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "no pre_tokenizer"},
    {"{\"normalizer\":{\"type\":\"NFKC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "NFKC"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"},"
     "\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
     "does not compile"},
    {"{\"a\":1,\"a\":2}", "duplicate"},
    {"{", "not JSON"},
};

static int open_text(const char *text, struct tokenizer **t, struct err *e)
{
    char path[300];
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(path, sizeof path, "%s/tokenizer.json", tmp ? tmp : "build");
    ck_assert_int_eq(packed_write(path, text, strlen(text), e), OK);
    return tokenizer_open(path, t, e);
}

START_TEST(a_hostile_file_gives_one_clear_error)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct err e = {0};
        struct tokenizer *t;
        ck_assert_int_ne(open_text(hostile[i][0], &t, &e), OK);
        ck_assert_msg(strstr(e.text, hostile[i][1]) != NULL, "%s", e.text);
        ck_assert_msg(strstr(e.text, "tokenizer.json") != NULL, "%s", e.text);
    }
}
END_TEST

START_TEST(a_catastrophic_pattern_gives_up_instead_of_hanging)
{
    struct err e = {0};
    struct tokenizer *t;
    int32_t *ids;
    int n;
    char text[64];
    memset(text, 'a', sizeof text);
    text[63] = '!';
    ck_assert_int_eq(
        open_text("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+a+)+[bc]\"},\"behavior\":"
                  "\"Isolated\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"!\":1},\"merges\":[]}}",
                  &t, &e),
        OK);
    ck_assert_int_eq(tokenizer_encode(t, text, sizeof text, &ids, &n, &e), E_INPUT);
    ck_assert_msg(strstr(e.text, "gives up") != NULL, "%s", e.text);
    tokenizer_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tokenizer");
    TCase *t = tcase_create("bpe");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, every_shipped_text_gives_the_shipped_ids);
    tcase_add_test(t, added_tokens_stand_for_themselves_and_bytes_need_not_be_text);
    tcase_add_test(t, a_hostile_file_gives_one_clear_error);
    tcase_add_test(t, a_catastrophic_pattern_gives_up_instead_of_hanging);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
