#include "harness/power.h"
#include "harness/razor.h"
#include "harness/rows.h"
#include "harness/test/help_golden.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static struct golden *g;
static const struct razor_rule two_ulp = {2, 0.5};

static void setup(void)
{
    g = toy_golden(1, 4);
}

static void teardown(void)
{
    golden_free(g);
}

static enum verdict verdict_of(int position, int32_t id)
{
    struct gap gap = gap_of(&g->prompt->decode, position, id, 8);
    return razor_verdict(&gap, razor_width(&two_ulp, gap.ulp, jitter_at(g->prompt, position, id, 8).nats));
}

START_TEST(a_bf16_logit_of_16_has_steps_of_an_eighth)
{
    ck_assert_double_eq(ulp_at(16, 8), 0.125);
    ck_assert_double_eq(ulp_at(-31.75, 8), 0.125);
    ck_assert_double_eq(ulp_at(15.9375, 8), 0.0625);
    ck_assert_double_eq(ulp_at(1, 24), 0x1p-23);
    ck_assert_double_eq(ulp_at(1, 11), 0x1p-10);
    ck_assert_double_eq(ulp_at(0, 8), 0x1p-133);
    ck_assert_double_nan(ulp_at(NAN, 8));
    ck_assert_double_nan(ulp_at(INFINITY, 8));
}
END_TEST

START_TEST(exact_tie_is_not_a_divergence)
{
    *toy_value(&g->prompt->decode, 1, 1) = 16;
    ck_assert_int_eq(verdict_of(1, 102), V_TIE_EXACT);
    ck_assert_int_eq(gap_of(&g->prompt->decode, 1, 102, 8).ties, 2);
}
END_TEST

START_TEST(a_lone_maximum_that_the_oracle_did_not_emit_is_a_split)
{
    g->prompt->ids[1] = 102;
    ck_assert_int_eq(verdict_of(1, 101), V_ORACLE_SPLIT);
}
END_TEST

START_TEST(a_gap_of_exactly_the_razor_is_a_near_tie_and_one_step_more_diverges)
{
    ck_assert_int_eq(verdict_of(0, 101), V_NEAR_TIE);
    ck_assert_double_eq(gap_of(&g->prompt->decode, 0, 101, 8).ulps, 2);
    *toy_value(&g->prompt->decode, 0, 1) = nextafterf(15.75f, 0);
    ck_assert_int_eq(verdict_of(0, 101), V_DIVERGENT);
}
END_TEST

START_TEST(the_cap_beats_the_steps_and_the_jitter)
{
    struct razor_rule wide = {100, 0.5};
    ck_assert_double_eq(razor_width(&wide, 0.125, 3), 0.5);
    ck_assert_double_eq(razor_width(&two_ulp, 0.125, 0), 0.25);
    ck_assert_double_eq(razor_width(&two_ulp, 0.125, 0.375), 0.375);
    ck_assert_double_eq(razor_width(&two_ulp, NAN, NAN), 0);
    ck_assert_double_eq(razor_width(&two_ulp, NAN, 0.1), 0.1);
}
END_TEST

START_TEST(what_prefill_and_decode_disagree_about_widens_the_razor)
{
    *toy_value(&g->prompt->decode, 0, 1) = 15.625f; /* 3 ULP */
    ck_assert_int_eq(verdict_of(0, 101), V_DIVERGENT);
    *toy_value(&g->prompt->prefill, 0, 1) = 16;
    struct jitter j = jitter_at(g->prompt, 0, 101, 8);
    ck_assert_double_eq(j.self_nats, 0.375);
    ck_assert_double_eq(j.nats, 0.375);
    ck_assert_double_nan(j.batch_nats);
    ck_assert_int_eq(verdict_of(0, 101), V_NEAR_TIE);
}
END_TEST

START_TEST(where_a_batch_pass_left_the_lone_stream_its_gap_is_jitter)
{
    struct golden_prompt *p = g->prompt;
    p->batch = calloc(1, sizeof *p->batch);
    p->batches = 1;
    p->batch->ids = calloc(4, sizeof *p->batch->ids);
    p->batch->n = 4;
    for (int i = 0; i < 4; i++)
        p->batch->ids[i] = p->ids[i] + (i >= 2 ? 2 : 0);
    ck_assert_double_eq(jitter_at(p, 2, 104, 8).batch_nats, 1.5);
    ck_assert_double_nan(jitter_at(p, 1, 104, 8).batch_nats);
    ck_assert_double_nan(jitter_at(p, 3, 104, 8).batch_nats); /* after its root the prefix is another one */
}
END_TEST

START_TEST(outside_the_list_the_bound_decides_or_nothing_does)
{
    struct gap gap = gap_of(&g->prompt->decode, 0, 4000, 8);
    ck_assert_int_eq(gap.stored, 0);
    ck_assert_double_eq(gap.bound_nats, 1.75);
    ck_assert_double_nan(gap.nats);
    ck_assert_int_eq(verdict_of(0, 4000), V_DIVERGENT);
    for (int i = 1; i < 4; i++)
        *toy_value(&g->prompt->decode, 0, i) = 15.875f;
    ck_assert_int_eq(verdict_of(0, 4000), V_CASCADE);
}
END_TEST

START_TEST(nan_and_infinity_are_never_a_gap)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int slot = 0; slot < 4; slot++)
        for (int i = 0; i < 3; i++) {
            float kept = *toy_value(&g->prompt->decode, 0, slot);
            *toy_value(&g->prompt->decode, 0, slot) = bad[i];
            ck_assert_int_eq(verdict_of(0, 101), V_NON_FINITE);
            *toy_value(&g->prompt->decode, 0, slot) = kept;
        }
    g->prompt->decode.logsumexp[0] = NAN;
    ck_assert_int_eq(verdict_of(0, 101), V_NON_FINITE);
}
END_TEST

START_TEST(a_gap_that_is_nan_is_divergent)
{
    struct gap gap = {.finite = 1, .stored = 1, .ties = 2, .nats = NAN, .bound_nats = NAN};
    ck_assert_int_eq(razor_verdict(&gap, 0.25), V_DIVERGENT);
}
END_TEST

START_TEST(an_empty_view_has_no_gap)
{
    struct view none = {0};
    ck_assert_int_eq(gap_of(&none, 0, 1, 8).finite, 0);
    ck_assert_int_eq(row_is_finite(&none, 0), 0);
    ck_assert_int_eq(gap_of(&g->prompt->decode, -1, 1, 8).finite, 0);
    ck_assert_int_eq(gap_of(&g->prompt->decode, 4, 1, 8).finite, 0);
}
END_TEST

START_TEST(the_grid_of_log_probabilities_is_inferred_and_never_too_coarse)
{
    struct view *v = &g->prompt->decode;
    v->kind = VALUE_LOGPROB;
    for (int i = 0; i < 4; i++)
        *toy_value(v, 0, i) = (float)((double)*toy_value(v, 0, i) - 17.2513371);
    struct gap gap = gap_of(v, 0, 101, 8);
    ck_assert_int_eq(gap.inferred, 1);
    ck_assert_double_eq(gap.ulp, 0.125);
    *toy_value(v, 0, 3) += 0.0625f;
    ck_assert_double_eq(gap_of(v, 0, 101, 8).ulp, 0.0625);
    *toy_value(v, 0, 3) = NAN;
    ck_assert_double_nan(ulp_inferred(v, 0));
}
END_TEST

START_TEST(the_dtype_of_the_oracle_decides_the_grid)
{
    ck_assert_int_eq(golden_significand_bits(g), 8);
    json_object_set_new(json_object_get(g->header, "oracle"), "dtype", json_string("float32"));
    ck_assert_int_eq(golden_significand_bits(g), 24);
    json_object_set_new(json_object_get(g->header, "oracle"), "dtype", json_string("posit16"));
    ck_assert_int_eq(golden_significand_bits(g), 0);
    json_object_del(g->header, "oracle");
    ck_assert_int_eq(golden_significand_bits(g), 0);
    ck_assert_int_eq(gap_of(&g->prompt->decode, 0, 101, 0).inferred, 1);
}
END_TEST

START_TEST(rows_with_ties_in_another_order_are_equal)
{
    struct view *a = &g->prompt->decode, *b = &g->prompt->prefill;
    *toy_value(a, 0, 1) = *toy_value(b, 0, 1) = 16;
    b->top_ids[0] = 101, b->top_ids[1] = 100;
    ck_assert_int_eq(row_equal(a, 0, b, 0), 1);
    b->top_ids[3] = 999; /* the last value may be tied with tokens that were cut off */
    ck_assert_int_eq(row_equal(a, 0, b, 0), 1);
    b->top_ids[2] = 998;
    ck_assert_int_eq(row_equal(a, 0, b, 0), 0);
}
END_TEST

START_TEST(one_step_in_one_value_is_another_row)
{
    struct view *a = &g->prompt->decode, *b = &g->prompt->prefill;
    for (int slot = 0; slot < 4; slot++) {
        float kept = *toy_value(b, 1, slot);
        ck_assert_int_eq(row_equal(a, 1, b, 1), 1);
        *toy_value(b, 1, slot) = nextafterf(kept, 0);
        ck_assert_int_eq(row_equal(a, 1, b, 1), 0);
        *toy_value(b, 1, slot) = kept;
    }
    b->logsumexp[1] += 2e-9;
    ck_assert_int_eq(row_equal(a, 1, b, 1), 0);
    b->logsumexp[1] = NAN;
    ck_assert_int_eq(row_equal(a, 1, b, 1), 0);
}
END_TEST

START_TEST(nan_equals_only_its_own_bits)
{
    struct view *a = &g->prompt->decode, *b = &g->prompt->prefill;
    *toy_value(a, 0, 2) = NAN;
    ck_assert_int_eq(row_equal(a, 0, b, 0), 0);
    *toy_value(b, 0, 2) = NAN;
    ck_assert_int_eq(row_equal(a, 0, b, 0), 1);
    *toy_value(b, 0, 2) = -NAN;
    ck_assert_int_eq(row_equal(a, 0, b, 0), 0);
    *toy_value(a, 1, 3) = 0.0f, *toy_value(b, 1, 3) = -0.0f;
    ck_assert_int_eq(row_equal(a, 1, b, 1), 0);
}
END_TEST

START_TEST(hashes_of_full_rows_count_where_both_sides_know_them)
{
    struct view *a = &g->prompt->decode, *b = &g->prompt->prefill;
    a->row_sha256 = calloc(4, SHA256_BYTES);
    ck_assert_int_eq(row_equal(a, 1, b, 1), 1);
    b->row_sha256 = calloc(4, SHA256_BYTES);
    ck_assert_int_eq(row_equal(a, 1, b, 1), 1);
    b->row_sha256[SHA256_BYTES] = 1;
    ck_assert_int_eq(row_equal(a, 1, b, 1), 0);
    ck_assert_int_eq(row_equal(a, 0, b, 0), 1);
}
END_TEST

START_TEST(rows_of_different_kinds_or_no_rows_are_not_comparable)
{
    struct view *a = &g->prompt->decode, *b = &g->prompt->prefill, none = {0};
    b->kind = VALUE_LOGPROB;
    ck_assert_int_eq(row_comparable(a, 0, b, 0), 0);
    ck_assert_int_eq(row_equal(a, 0, b, 0), 0);
    ck_assert_int_eq(row_equal(a, 0, &none, 0), 0);
}
END_TEST

START_TEST(no_root_in_n_tokens_excludes_a_rate_of_about_three_in_n)
{
    ck_assert_double_eq_tol(flip_rate_95(2048, 0), 1 - pow(0.05, 1.0 / 2048), 1e-12);
    ck_assert_double_eq_tol(flip_rate_95(2048, 0) * 2048, 3, 0.01);
    ck_assert_double_eq_tol(flip_rate_95(1, 0), 0.95, 1e-9);
    ck_assert_double_eq_tol(flip_rate_95(10, 1), 0.3941633, 1e-6); /* Clopper and Pearson, one-sided */
    ck_assert_double_eq(flip_rate_95(0, 0), 1);
    ck_assert_double_eq(flip_rate_95(5, 5), 1);
    ck_assert_double_gt(flip_rate_95(2048, 12), 12.0 / 2048);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("razor");
    TCase *t = tcase_create("razor");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_bf16_logit_of_16_has_steps_of_an_eighth);
    tcase_add_test(t, exact_tie_is_not_a_divergence);
    tcase_add_test(t, a_lone_maximum_that_the_oracle_did_not_emit_is_a_split);
    tcase_add_test(t, a_gap_of_exactly_the_razor_is_a_near_tie_and_one_step_more_diverges);
    tcase_add_test(t, the_cap_beats_the_steps_and_the_jitter);
    tcase_add_test(t, what_prefill_and_decode_disagree_about_widens_the_razor);
    tcase_add_test(t, where_a_batch_pass_left_the_lone_stream_its_gap_is_jitter);
    tcase_add_test(t, outside_the_list_the_bound_decides_or_nothing_does);
    tcase_add_test(t, nan_and_infinity_are_never_a_gap);
    tcase_add_test(t, a_gap_that_is_nan_is_divergent);
    tcase_add_test(t, an_empty_view_has_no_gap);
    tcase_add_test(t, the_grid_of_log_probabilities_is_inferred_and_never_too_coarse);
    tcase_add_test(t, the_dtype_of_the_oracle_decides_the_grid);
    tcase_add_test(t, rows_with_ties_in_another_order_are_equal);
    tcase_add_test(t, one_step_in_one_value_is_another_row);
    tcase_add_test(t, nan_equals_only_its_own_bits);
    tcase_add_test(t, hashes_of_full_rows_count_where_both_sides_know_them);
    tcase_add_test(t, rows_of_different_kinds_or_no_rows_are_not_comparable);
    tcase_add_test(t, no_root_in_n_tokens_excludes_a_rate_of_about_three_in_n);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
