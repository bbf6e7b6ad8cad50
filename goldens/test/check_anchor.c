/* An anchor's text is read back as it was written; hostile lines are refused with their place; samples of lm-eval. */
#include "goldens/anchor.h"
#include "goldens/lmeval.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                                           \
    "assay-anchor/1\nmodel m\nmodel_sha256 aa\nbattery b\nbattery_sha256 bb\ngolden_sha256 cc\narm native:cpu x=y\n"   \
    "device h200\nreason kernel\nby Ann Author\nnote\nevidence e f\nrun 7\n"

static const char good[] = HEAD "prompts 2\nprompt 2 length p 0\n0 5 0.0 \" a\"\n1 6 - \"b\" (golden 7 \"c\")\n"
                                "prompt 0 stop q\n";

START_TEST(what_is_written_is_read_back)
{
    struct anchor *a = NULL, *again = NULL;
    struct err e = {0};
    char *text;
    size_t bytes;
    ck_assert_msg(anchor_parse(good, strlen(good), "x", &a, &e) == OK, "%s", e.text);
    ck_assert_str_eq(a->arm, "native:cpu x=y");
    ck_assert_str_eq(a->by, "Ann Author");
    ck_assert_str_eq(a->note, "");
    ck_assert_int_eq(a->run, 7);
    ck_assert_int_eq(a->prompts, 2);
    ck_assert_str_eq(a->prompt[0].name, "p 0");
    ck_assert(a->prompt[0].ids[1] == 6 && a->prompt[0].gap[0] == 0 && isnan(a->prompt[0].gap[1]));
    ck_assert(a->prompt[1].n == 0 && a->prompt[1].finish == FINISH_STOP);
    ck_assert_int_eq(anchor_text(a, NULL, NULL, NULL, &text, &bytes, &e), OK);
    ck_assert_int_eq(anchor_parse(text, bytes, "y", &again, &e), OK);
    ck_assert(again->prompt[0].ids[1] == 6 && !strcmp(again->evidence, "e f"));
    strcpy(a->note, "two\nlines");
    free(text);
    ck_assert_int_eq(anchor_text(a, NULL, NULL, NULL, &text, &bytes, &e), E_USAGE);
    anchor_free(a);
    anchor_free(again);
}
END_TEST

static const struct {
    const char *text, *named;
} hostile[] = {
    {"", "x:1: the file ends early"},
    {"assay-anchor/2\n", "x:1: \"assay-anchor/1\" is expected"},
    {"assay-anchor/1\nbattery b\n", "x:2: \"model ...\" is expected"},
    {HEAD "prompts -1\n", "x:14: a number"},
    {HEAD "prompts 1\nprompt 1 later p\n", "x:15: \"prompt COUNT"},
    {HEAD "prompts 1\nprompt 1 stop p\n1 5 0.0\n", "x:16: \"POSITION ID GAP\""},
    {HEAD "prompts 1\nprompt 1 stop p\n0 -5 0.0\n", "x:16: \"POSITION ID GAP\""},
    {HEAD "prompts 1\nprompt 1 stop p\n0 5 nan\n", "x:16: a gap"},
    {HEAD "prompts 1\nprompt 1 stop p\n0 5 -0.5\n", "x:16: a gap"},
    {HEAD "prompts 1\nprompt 2 stop p\n0 5 0.5\n", "x:17: the file ends early"},
    {HEAD "prompts 0\nmore\n", "x:15: nothing is expected"},
};

START_TEST(hostile_lines_are_refused_with_their_place)
{
    struct anchor *a = NULL;
    struct err e = {0};
    ck_assert_int_eq(anchor_parse(hostile[_i].text, strlen(hostile[_i].text), "x", &a, &e), E_INPUT);
    ck_assert_msg(strstr(e.text, hostile[_i].named) == e.text, "%s", e.text);
    ck_assert_ptr_null(a);
}
END_TEST

START_TEST(a_reason_is_one_of_a_closed_list)
{
    char names[200];
    ck_assert_str_eq(reason_check("reduction-order", names, sizeof names), "");
    ck_assert_ptr_nonnull(strstr(reason_check("because", names, sizeof names), "first, reduction-order"));
}
END_TEST

/* Two filters of one document, two continuations of one context, a document of two contexts, the list form. */
static const char samples[] =
    "{\"doc_id\":0,\"doc\":{},\"arguments\":{\"gen_args_0\":{\"arg_0\":\"Q: 1\",\"arg_1\":{}}},\"filter\":\"a\"}\n"
    "{\"doc_id\":0,\"doc\":{},\"arguments\":{\"gen_args_0\":{\"arg_0\":\"Q: 1\",\"arg_1\":{}}},\"filter\":\"b\"}\n"
    "{\"doc_id\":1,\"arguments\":{\"gen_args_0\":{\"arg_0\":\"x\",\"arg_1\":\" y\"},\"gen_args_1\":{\"arg_0\":\"x\","
    "\"arg_1\":\" z\"},\"gen_args_2\":{\"arg_0\":\"w\"}}}\n"
    "\n{\"doc_id\":2,\"arguments\":[[\"l\",\" m\"]]}\n";

START_TEST(each_context_of_lm_eval_is_taken_once)
{
    char *out;
    size_t bytes;
    int prompts, lines;
    struct err e = {0};
    ck_assert_msg(lmeval_prompts("s", samples, strlen(samples), &out, &bytes, &prompts, &lines, &e) == OK, "%s",
                  e.text);
    ck_assert_int_eq(prompts, 4);
    ck_assert_int_eq(lines, 4);
    ck_assert_str_eq(out, "{\"name\":\"doc0\",\"text\":\"Q: 1\"}\n{\"name\":\"doc1\",\"text\":\"x\"}\n"
                          "{\"name\":\"doc1.1\",\"text\":\"w\"}\n{\"name\":\"doc2\",\"text\":\"l\"}\n");
    free(out);
}
END_TEST

static const struct {
    const char *text, *named;
} no_samples[] = {
    {"\n", "s: no sample"},
    {"{\"doc_id\":1}\n", "s:1: no arguments"},
    {"{\"arguments\":{}}\n", "s:1: no doc_id"},
    {"\n{\"doc_id\":1,\"arguments\":{}}\n", "s:2: document 1 has no request"},
    {"{\"doc_id\":1,\"arguments\":[[7]]}\n", "s:1: document 1: a request without a context"},
    {"{\"doc_id\":1,\n", "s:1"},
};

START_TEST(what_is_no_sample_is_refused)
{
    char *out;
    size_t bytes;
    int prompts, lines;
    struct err e = {0};
    ck_assert_int_eq(
        lmeval_prompts("s", no_samples[_i].text, strlen(no_samples[_i].text), &out, &bytes, &prompts, &lines, &e),
        E_INPUT);
    ck_assert_msg(strstr(e.text, no_samples[_i].named) == e.text, "%s", e.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("anchor");
    TCase *t = tcase_create("texts");
    tcase_add_test(t, what_is_written_is_read_back);
    tcase_add_loop_test(t, hostile_lines_are_refused_with_their_place, 0, (int)(sizeof hostile / sizeof *hostile));
    tcase_add_test(t, a_reason_is_one_of_a_closed_list);
    tcase_add_test(t, each_context_of_lm_eval_is_taken_once);
    tcase_add_loop_test(t, what_is_no_sample_is_refused, 0, (int)(sizeof no_samples / sizeof *no_samples));
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
