/* Gate policies: what is shipped is whole, sets of flags, and what a pile of findings amounts to. */
#include "harness/bench/decode.h"
#include "harness/gate/policy.h"

#include <check.h>
#include <string.h>

static const char *const shipped[] = {"cpu", "gb10", "cuda", "demo", "demo-quick"};

START_TEST(each_shipped_policy_asks_for_every_check_or_says_why_not)
{
    struct policy p;
    struct err e = {0};
    ck_assert_msg(policy_read(".", shipped[_i], &p, &e) == OK, "%s", e.text);
    ck_assert_str_eq(p.name, shipped[_i]);
    for (int c = 0; c < CHECK_COUNT; c++)
        ck_assert(!p.section[c] != !p.not_applicable[c]);
    policy_free(&p);
}
END_TEST

START_TEST(the_gpu_policy_leaves_nothing_out)
{
    struct policy p;
    struct err e = {0};
    ck_assert_int_eq(policy_read(".", "cuda", &p, &e), OK);
    for (int c = 0; c < CHECK_COUNT; c++)
        ck_assert_ptr_nonnull(p.section[c]);
    policy_free(&p);
}
END_TEST

static int decide(const char *letters)
{
    enum outcome o[8];
    int n = 0;
    for (; letters[n]; n++)
        o[n] = letters[n] == 'o'   ? OUTCOME_OK
               : letters[n] == 'n' ? OUTCOME_NOT_APPLICABLE
               : letters[n] == 'm' ? OUTCOME_MISSING
               : letters[n] == 'v' ? OUTCOME_VOID
                                   : OUTCOME_FAILED;
    return gate_decide(o, n);
}

START_TEST(one_failure_refuses_and_what_was_not_looked_at_is_not_granted)
{
    ck_assert_int_eq(decide("ooon"), 0);
    ck_assert_int_eq(decide("oof"), 1);
    ck_assert_int_eq(decide("ofmv"), 1);
    ck_assert_int_eq(decide("omv"), 5);
    ck_assert_int_eq(decide("om"), 4);
    ck_assert_int_eq(decide("nn"), 4);
    ck_assert_int_eq(decide(""), 4);
}
END_TEST

START_TEST(sets_are_the_prospective_defaults_and_each_recent_flag_the_other_way_round)
{
    struct flag_set flags;
    struct policy p;
    struct err e = {0};
    struct gate_set set[GATE_SETS];
    const char *recent[] = {"fp32_reduce", "marlin_dense", "fp32_reduce", "cuda_graph", "gone"};
    ck_assert_int_eq(flags_read(".", &flags, &e), OK);
    ck_assert_int_eq(policy_read(".", "cpu", &p, &e), OK);
    const struct flag *f = flags_find(&flags, "marlin_dense");
    int at = (int)(f - flags.flag), reduce = (int)(flags_find(&flags, "fp32_reduce") - flags.flag);
    ck_assert_int_eq(gate_sets(&flags, &p, f, 0, recent, 5, set), 2); /* itself, repeats and CUDA's own are no pairs */
    ck_assert_str_eq(set[0].label, "defaults");
    ck_assert(!set[0].on[at] && set[0].on[reduce]);
    ck_assert_str_eq(set[1].label, "with fp32_reduce=off");
    ck_assert(!set[1].on[at] && !set[1].on[reduce]);
    ck_assert_int_eq(gate_sets(&flags, &p, f, 0, recent, 0, set), 1);
    policy_free(&p);
    flags_free(&flags);
}
END_TEST

START_TEST(median_and_spread_of_runs)
{
    const double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    ck_assert(bench_median(odd, 3) == 2 && bench_median(even, 4) == 2.5);
    ck_assert(bench_spread(odd, 3) == 1 && bench_spread(odd, 1) == 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("policy");
    TCase *t = tcase_create("policy");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, each_shipped_policy_asks_for_every_check_or_says_why_not, 0, 5);
    tcase_add_test(t, the_gpu_policy_leaves_nothing_out);
    tcase_add_test(t, one_failure_refuses_and_what_was_not_looked_at_is_not_granted);
    tcase_add_test(t, sets_are_the_prospective_defaults_and_each_recent_flag_the_other_way_round);
    tcase_add_test(t, median_and_spread_of_runs);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
