/* Folders of vllm.cpp that were made wrong, or right in a way the real ones never are. */
#include "goldens/vllmcpp.h"
#include "harness/test/help_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void put_npy(const char *name, const char *descr, const char *shape, const int32_t *data, int n)
{
    char file[1024], text[128];
    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    int length = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    memcpy(file + 10, text, (size_t)length);
    file[127] = '\n';
    memcpy(file + 128, data, 4 * (size_t)n);
    scratch_write(name, file, 128 + 4 * (size_t)n);
}

/* Two prompts, three tokens, two runs. Prompt 0 ends after token 0 in both runs (its true id 0 is a token); in prompt 1
 * the runs disagree at token 1. Ours differs from run 0 at prompt 1 tokens 1 and 2. */
static const int32_t dist[] = {0, 0, -1, -1, -1, -1, 7, 7, 8, 9, 10, 10};
static const int32_t greedy[] = {0, 0, 0, 7, 8, 10}, ours[] = {0, -1, -1, 7, 9, 11},
                     gaps[] = {0, 0, 0, 94, 31, 99999000};

static void put_folder(void)
{
    static const int32_t prompt[] = {1, 2};
    mkdir(scratch("f"), 0777);
    put_npy("f/greedy_dist.npy", "<i4", "2, 3, 2", dist, 12);
    put_npy("f/greedy_ids.npy", "<i4", "2, 3", greedy, 6);
    put_npy("f/our_ids.npy", "<i4", "2, 3", ours, 6);
    put_npy("f/neartie_gap_mnats.npy", "<i4", "2, 3", gaps, 6);
    scratch_write("f/p0_prompt.i32", prompt, 8);
    scratch_write("f/p1_prompt.i32", prompt, 8);
    scratch_write("f/our_ids.i32", ours, sizeof ours); /* a stray dump */
}

static void refuse(int code, const char *why)
{
    struct vllmcpp v;
    struct err e = {0};
    ck_assert_msg(vllmcpp_read(scratch("f"), "", &v, &e) == code, "wanted %s, got: %s", why, e.text);
    ck_assert_msg(strstr(e.text, why) != NULL, "wanted %s, got: %s", why, e.text);
}

START_TEST(an_end_of_sequence_is_not_token_zero)
{
    struct vllmcpp v;
    struct err e = {0};
    put_folder();
    ck_assert_msg(vllmcpp_read(scratch("f"), "", &v, &e) == OK, "%s", e.text);
    ck_assert_int_eq(v.golden->prompt[0].n, 1);
    ck_assert_int_eq(v.golden->prompt[0].ids[0], 0);
    ck_assert_int_eq(v.golden->prompt[0].finish, FINISH_STOP);
    ck_assert_int_eq(v.golden->prompt[1].n, 3);
    ck_assert_int_eq(v.golden->prompt[1].finish, FINISH_LENGTH);
    vllmcpp_free(&v);
}
END_TEST

START_TEST(runs_that_disagree_and_equal_tokens_with_a_gap_are_counted)
{
    struct vllmcpp v;
    struct err e = {0};
    put_folder();
    ck_assert_int_eq(vllmcpp_read(scratch("f"), "", &v, &e), OK);
    ck_assert_int_eq(v.runs, 2);
    ck_assert_int_eq(v.multi_valued, 1);
    ck_assert_int_eq(v.strict_prompts, 1);
    ck_assert_int_eq(v.divergent, 2);
    ck_assert_int_eq(v.roots, 1);
    ck_assert_int_eq(v.root[0].prompt, 1);
    ck_assert_int_eq(v.root[0].position, 1);
    ck_assert_int_eq(v.root[0].gap_mnats, 31);
    ck_assert_int_eq(v.traps, 1);
    ck_assert_int_eq(v.trap[0].gap_mnats, 94);
    ck_assert_int_eq(v.outside, 1);
    ck_assert_int_ne(v.grid_mnats, 0);
    json_t *report = vllmcpp_json(&v);
    char *text = json_dumps(report, 0);
    ck_assert_ptr_nonnull(strstr(text, "prompt 1 token 0: the token equals the oracle's and has a gap of 94"));
    ck_assert_ptr_nonnull(strstr(text, "1 gaps only say that the token is outside"));
    free(text);
    json_decref(report);
    vllmcpp_free(&v);
}
END_TEST

START_TEST(gaps_off_the_grid_are_not_called_a_grid)
{
    static const int32_t off[] = {0, 0, 0, 94, 45, 0};
    struct vllmcpp v;
    struct err e = {0};
    put_folder();
    put_npy("f/neartie_gap_mnats.npy", "<i4", "2, 3", off, 6);
    ck_assert_int_eq(vllmcpp_read(scratch("f"), "", &v, &e), OK);
    ck_assert_int_eq(v.grid_mnats, 0);
    vllmcpp_free(&v);
}
END_TEST

START_TEST(files_that_contradict_each_other_are_refused)
{
    static const int32_t other[] = {0, 5, 0, 7, 8, 10}, low[] = {-1, 0, 0, 0, 0, 0}, lower[] = {-2, 0, 0, 0, 0, 0};
    put_folder();
    put_npy("f/greedy_ids.npy", "<i4", "2, 3", other, 6);
    refuse(E_INPUT, "greedy_ids.npy: prompt 0 token 1 is 5, run 0 of greedy_dist.npy says -1");
    put_folder();
    put_npy("f/our_ids.npy", "<i4", "3, 2", ours, 6);
    refuse(E_INPUT, "our_ids.npy: its shape is not");
    put_folder();
    put_npy("f/neartie_gap_mnats.npy", "<i4", "2, 3", low, 6);
    refuse(E_INPUT, "neartie_gap_mnats.npy: value 0 is -1");
    put_folder();
    put_npy("f/our_ids.npy", "<i4", "2, 3", lower, 6);
    refuse(E_INPUT, "our_ids.npy: value 0 is -2");
    put_folder();
    put_npy("f/our_ids.npy", "<f4", "2, 3", ours, 6);
    refuse(E_INPUT, "type '<f4'");
    put_folder();
    put_npy("f/our_ids.npy", "<i4", "2, 3", ours, 5);
    refuse(E_INPUT, "20 bytes of data, its shape needs 24");
    put_folder();
    put_npy("f/greedy_dist.npy", "<i4", "2, 6", dist, 12);
    refuse(E_INPUT, "[prompts, tokens, runs]");
    put_folder();
    scratch_write("f/p1_prompt.i32", low, 7);
    refuse(E_INPUT, "p1_prompt.i32: 7 bytes");
    put_folder();
    scratch_write("f/p1_prompt.i32", low, 4);
    refuse(E_INPUT, "p1_prompt.i32: id 0 is negative");
    put_folder();
    remove(scratch("f/p1_prompt.i32"));
    refuse(E_MISSING, "p1_prompt.i32");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("vllmcpp");
    TCase *t = tcase_create("vllmcpp");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_test(t, an_end_of_sequence_is_not_token_zero);
    tcase_add_test(t, runs_that_disagree_and_equal_tokens_with_a_gap_are_counted);
    tcase_add_test(t, gaps_off_the_grid_are_not_called_a_grid);
    tcase_add_test(t, files_that_contradict_each_other_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
