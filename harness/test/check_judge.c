#include "harness/judge.h"
#include "harness/test/help_golden.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PROMPTS 2
#define TOKENS  4

static struct golden *g;
static struct battery *b;
static struct stream free_run[PROMPTS], decode[PROMPTS], prefill[PROMPTS];
static struct arm_answer answer[PROMPTS];
static struct judge_input in;
static struct judgement j;
static struct model_file files[] = {{"config.json", "c0ffee"}, {"readme", "1"}};
static struct model model = {.name = "toy", .file = files, .files = 2};

static void setup(void)
{
    g = toy_golden(PROMPTS, TOKENS);
    b = toy_battery(g);
    for (int i = 0; i < PROMPTS; i++) {
        free_run[i] = toy_stream(&g->prompt[i], &g->prompt[i].decode);
        decode[i] = toy_stream(&g->prompt[i], &g->prompt[i].decode);
        prefill[i] = toy_stream(&g->prompt[i], &g->prompt[i].prefill);
        answer[i] = (struct arm_answer){.free = &free_run[i], .prefill = &prefill[i]};
    }
    in = (struct judge_input){.golden = g, .battery = b, .model = &model, .answer = answer};
}

static void teardown(void)
{
    for (int i = 0; i < PROMPTS; i++) {
        stream_free(&free_run[i]);
        stream_free(&decode[i]);
        stream_free(&prefill[i]);
    }
    battery_free(b);
    golden_free(g);
    judgement_free(&j);
}

static enum run_verdict judged(void)
{
    struct err e = {0};
    judgement_free(&j);
    ck_assert_int_eq(judge_run(&in, &j, &e), OK);
    return j.verdict;
}

/* Prompt 0 leaves the golden at position 1 with `id`; what follows is another text. */
static void leave_at_1(int32_t id)
{
    free_run[0].ids[1] = id;
    free_run[0].ids[2] = free_run[0].ids[3] = 7;
    answer[0].decode = &decode[0];
}

START_TEST(all_equal_is_pass_with_every_row_counted)
{
    ck_assert_int_eq(judged(), RV_PASS);
    ck_assert_int_eq(j.prompts, PROMPTS);
    ck_assert_int_eq(j.prompts_exact, PROMPTS);
    ck_assert_int_eq(j.tokens, PROMPTS * TOKENS);
    ck_assert_int_eq(j.tokens_equal, PROMPTS * TOKENS);
    ck_assert_int_eq(j.decode.rows, PROMPTS * TOKENS);
    ck_assert_int_eq(j.decode.equal, PROMPTS * TOKENS);
    ck_assert_int_eq(j.prefill.equal, PROMPTS * TOKENS);
    ck_assert_int_eq(j.forced, 2 * PROMPTS * TOKENS);
    ck_assert_int_eq(j.forced_equal, 2 * PROMPTS * TOKENS);
    ck_assert_int_eq(j.judged, PROMPTS * TOKENS);
    ck_assert_int_eq(j.rows, 0);
}
END_TEST

START_TEST(equal_ids_with_another_row_pass_and_say_so)
{
    *toy_value(&free_run[1].view, 2, 3) = 14.1875f;
    ck_assert_int_eq(judged(), RV_PASS);
    ck_assert_int_eq(j.decode.equal, PROMPTS * TOKENS - 1);
    ck_assert_str_eq(j.why, "every position equal, though 1 of 16 logits rows differ in some bit");
}
END_TEST

START_TEST(a_near_tie_passes_by_razor_and_its_cascade_is_shown)
{
    leave_at_1(102);
    ck_assert_int_eq(judged(), RV_PASS_BY_RAZOR);
    ck_assert_int_eq(j.roots, 1);
    ck_assert_int_eq(j.row[0].verdict, V_NEAR_TIE);
    ck_assert_int_eq(j.row[0].root, 1);
    ck_assert_int_eq(j.row[0].position, 1);
    ck_assert_double_eq(j.row[0].gap_ulp, 2);
    ck_assert_double_eq(j.row[0].razor_nats, 0.25);
    ck_assert_int_eq(j.cascades, 2);
    ck_assert_int_eq(j.cascades_unjudged, 0);
    ck_assert_int_eq(j.row[1].verdict, V_CASCADE);
    ck_assert_int_eq(j.row[1].root, 0);
    ck_assert_int_eq(j.prompts_exact, 1);
    ck_assert_int_eq(j.tokens_equal, PROMPTS * TOKENS - 3);
    ck_assert_int_eq(j.judged, PROMPTS * TOKENS);
}
END_TEST

START_TEST(a_cascade_that_nobody_judged_is_no_evidence_but_for_a_record)
{
    leave_at_1(102);
    answer[0].decode = NULL;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    ck_assert_int_eq(j.cascades_unjudged, 2);
    ck_assert_int_eq(j.judged, PROMPTS * TOKENS - 2);
    ck_assert_int_eq(j.decode.rows, PROMPTS * TOKENS - 2);
    in.recording = 1;
    ck_assert_int_eq(judged(), RV_PASS_BY_RAZOR);
}
END_TEST

START_TEST(a_divergent_root_fails)
{
    leave_at_1(103);
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_DIVERGENT);
    ck_assert_double_eq(j.worst_ulp, 12);
    ck_assert_ptr_nonnull(strstr(j.why, "p0 token 1: DIVERGENT: got 103, oracle 101, gap 1.5 nat (razor 0.25)"));
}
END_TEST

START_TEST(a_divergent_forced_position_fails_behind_a_benign_root)
{
    leave_at_1(102);
    decode[0].ids[3] = 105;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.forced_equal, j.forced - 1);
    ck_assert_double_eq(j.forced_worst_ulp, 12);
}
END_TEST

START_TEST(a_forced_argmax_that_the_oracle_itself_has_in_the_same_shape_is_equal)
{
    /* The oracle's prefill contradicts its own decode at position 2; an engine with the same bits is right. */
    struct view *const both[] = {&g->prompt[0].prefill, &prefill[0].view};
    for (int i = 0; i < 2; i++)
        *toy_value(both[i], 2, 1) = 16.25f;
    prefill[0].ids[2] = 103;
    ck_assert_int_eq(judged(), RV_PASS);
    *toy_value(&prefill[0].view, 2, 3) = 14.125f;
    ck_assert_int_eq(judged(), RV_PASS_BY_RAZOR);
    ck_assert_int_eq(j.row[0].verdict, V_ORACLE_SPLIT);
    ck_assert_int_eq(j.row[0].forced, 2);
}
END_TEST

START_TEST(a_stream_that_ends_early_is_length)
{
    free_run[0].n = 2;
    free_run[0].finish = FINISH_STOP;
    answer[0].decode = &decode[0];
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_LENGTH);
    ck_assert_int_eq(j.row[0].position, 2);
    ck_assert_int_eq(j.row[0].golden_id, 102);
    ck_assert_int_eq(j.row[0].arm_id, -1);
    ck_assert_int_eq(j.tokens_equal, PROMPTS * TOKENS - 2);
}
END_TEST

START_TEST(an_empty_stream_is_length)
{
    free_run[0].n = 0;
    answer[0].decode = &decode[0];
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_LENGTH);
    ck_assert_int_eq(j.row[0].position, 0);
}
END_TEST

START_TEST(running_past_the_oracles_end_of_sequence_is_length)
{
    g->prompt[0].n = 3;
    g->prompt[0].finish = FINISH_STOP;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_LENGTH);
    ck_assert_int_eq(j.row[0].position, 3);
    ck_assert_int_eq(j.row[0].golden_id, -1);
    free_run[0].n = 3;
    ck_assert_int_eq(judged(), RV_FAIL); /* the same ids, but not because of the end of sequence */
    ck_assert_int_eq(j.row[0].verdict, V_LENGTH);
    free_run[0].finish = FINISH_STOP;
    ck_assert_int_eq(judged(), RV_PASS);
}
END_TEST

START_TEST(other_prompt_ids_are_tokenisation_before_anything_else)
{
    struct counter c = {"dense_gemms", 1, 2};
    in.counter = &c;
    in.counters = 1;
    b->prompt[1].ids[2] = 9;
    free_run[0].ids[0] = 5;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_ptr_nonnull(strstr(j.why, "p1 token 2: TOKENISATION: got 9, oracle 3"));
    b->prompt[1].n = 2;
    ck_assert_int_eq(judged(), RV_FAIL);
}
END_TEST

START_TEST(what_the_arm_says_it_was_fed_counts_too)
{
    static const int32_t other[] = {1, 2, 3, 4};
    answer[1].fed = other;
    answer[1].feds = 3;
    ck_assert_int_eq(judged(), RV_PASS);
    answer[1].feds = 4;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_TOKENISATION);
    ck_assert_int_eq(j.row[0].position, 3);
    ck_assert_int_eq(j.row[0].golden_id, -1);
    ck_assert_int_eq(j.row[0].arm_id, 4);
}
END_TEST

START_TEST(nan_in_the_arms_row_is_non_finite_though_the_id_agrees)
{
    *toy_value(&free_run[0].view, 1, 3) = NAN;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_NON_FINITE);
    ck_assert_int_eq(j.prompts_exact, 1);
}
END_TEST

START_TEST(nan_in_the_oracles_row_equals_only_the_same_bits)
{
    *toy_value(&g->prompt[0].decode, 1, 3) = NAN;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_NON_FINITE);
    *toy_value(&free_run[0].view, 1, 3) = NAN;
    ck_assert_int_eq(judged(), RV_PASS);
}
END_TEST

START_TEST(nan_at_a_root_is_non_finite_not_a_tie)
{
    leave_at_1(102);
    *toy_value(&free_run[0].view, 1, 0) = NAN;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_NON_FINITE);
    ck_assert_int_eq(j.row[0].root, 1);
}
END_TEST

START_TEST(nan_in_a_forced_row_is_non_finite)
{
    prefill[1].view.logsumexp[3] = INFINITY;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.row[0].verdict, V_NON_FINITE);
    ck_assert_int_eq(j.row[0].forced, 2);
}
END_TEST

START_TEST(a_position_has_one_verdict_though_its_row_is_nan_and_its_id_differs)
{
    prefill[1].ids[3] = 4000;
    *toy_value(&prefill[1].view, 3, 0) = NAN;
    ck_assert_int_eq(judged(), RV_FAIL);
    ck_assert_int_eq(j.rows, 1);
    ck_assert_int_eq(j.row[0].verdict, V_NON_FINITE);
}
END_TEST

START_TEST(engines_without_logits_are_judged_by_ids_alone)
{
    for (int i = 0; i < PROMPTS; i++) {
        view_free(&free_run[i].view);
        answer[i].prefill = NULL;
    }
    ck_assert_int_eq(judged(), RV_PASS);
    ck_assert_int_eq(j.decode.rows, 0);
    ck_assert_int_eq(j.forced, 0);
}
END_TEST

START_TEST(a_golden_without_rows_cannot_excuse_a_difference)
{
    view_free(&g->prompt[0].decode);
    view_free(&g->prompt[0].prefill);
    answer[0].prefill = NULL;
    in.recording = 1;
    ck_assert_int_eq(judged(), RV_PASS);
    leave_at_1(102);
    answer[0].decode = NULL;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    ck_assert_int_eq(j.unresolved, 1);
}
END_TEST

START_TEST(other_weights_are_no_evidence_with_the_name_of_the_file)
{
    struct model_file other[] = {{"config.json", "decaf"}};
    struct model m = {.name = "toy", .file = other, .files = 1};
    in.model = &m;
    leave_at_1(103);
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    ck_assert_ptr_nonnull(strstr(j.why, "config.json"));
    m.files = 0;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    in.recording = 1;
    ck_assert_int_eq(judged(), RV_FAIL);
    in.recording = 0;
    in.model = &model;
    json_object_del(g->header, "model_files");
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
}
END_TEST

START_TEST(a_counter_that_is_not_exact_is_no_evidence_with_its_name)
{
    struct counter c[] = {{"dense_gemms", 96, 96}, {"grouped_gemms", 1, 0}, {"seconds", 3, -1}};
    in.counter = c;
    in.counters = 3;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    ck_assert_ptr_nonnull(strstr(j.why, "grouped_gemms ran 1 times, expected 0"));
    c[1].ran = 0;
    ck_assert_int_eq(judged(), RV_PASS);
    c[0].ran = 97;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
}
END_TEST

START_TEST(a_missing_answer_or_golden_or_battery_is_no_evidence)
{
    answer[1].free = NULL;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    ck_assert_int_eq(j.prompts_missing, 1);
    answer[1].free = &free_run[1];
    free(g->prompt[1].name);
    g->prompt[1].name = strdup("other");
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    int kept = b->prompts;
    b->prompts = 0;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    b->prompts = kept;
}
END_TEST

START_TEST(a_failure_is_not_hidden_by_a_missing_prompt)
{
    leave_at_1(103);
    answer[1].free = NULL;
    ck_assert_int_eq(judged(), RV_FAIL);
}
END_TEST

START_TEST(a_golden_of_another_length_or_stop_rule_does_not_apply)
{
    b->max_new_tokens = 16;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
    b->max_new_tokens = TOKENS;
    g->prompt[0].finish = FINISH_STOP;
    b->stop_at_eos = 0;
    ck_assert_int_eq(judged(), RV_NO_EVIDENCE);
}
END_TEST

START_TEST(voiding_overrules)
{
    judged();
    judgement_void(&j, "the golden changed");
    ck_assert_int_eq(j.verdict, RV_VOID);
    ck_assert_int_eq(run_verdict_exit_status(j.verdict, 0), 5);
}
END_TEST

START_TEST(the_oracles_own_noise_is_measured)
{
    struct golden_prompt *p = g->prompt;
    p->batch = calloc(1, sizeof *p->batch);
    p->batches = 1;
    p->batch->ids = calloc(TOKENS, sizeof *p->batch->ids);
    p->batch->n = TOKENS;
    memcpy(p->batch->ids, p->ids, TOKENS * sizeof *p->ids);
    p->batch->ids[2]++;
    *toy_value(&p->prefill, 0, 1) = 16.25f;
    judged();
    ck_assert_int_eq(j.noise.batch_roots, 1);
    ck_assert_double_eq(j.noise.batch_ulp, 2);
    ck_assert_int_eq(j.noise.rows, PROMPTS * TOKENS);
    ck_assert_int_eq(j.noise.rows_equal, PROMPTS * TOKENS - 1);
    ck_assert_int_eq(j.noise.argmax_equal, PROMPTS * TOKENS - 1);
}
END_TEST

int main(void)
{
    const struct TTest *const tests[] = {all_equal_is_pass_with_every_row_counted,
                                         equal_ids_with_another_row_pass_and_say_so,
                                         a_near_tie_passes_by_razor_and_its_cascade_is_shown,
                                         a_cascade_that_nobody_judged_is_no_evidence_but_for_a_record,
                                         a_divergent_root_fails,
                                         a_divergent_forced_position_fails_behind_a_benign_root,
                                         a_forced_argmax_that_the_oracle_itself_has_in_the_same_shape_is_equal,
                                         a_stream_that_ends_early_is_length,
                                         an_empty_stream_is_length,
                                         running_past_the_oracles_end_of_sequence_is_length,
                                         other_prompt_ids_are_tokenisation_before_anything_else,
                                         what_the_arm_says_it_was_fed_counts_too,
                                         nan_in_the_arms_row_is_non_finite_though_the_id_agrees,
                                         nan_in_the_oracles_row_equals_only_the_same_bits,
                                         nan_at_a_root_is_non_finite_not_a_tie,
                                         nan_in_a_forced_row_is_non_finite,
                                         a_position_has_one_verdict_though_its_row_is_nan_and_its_id_differs,
                                         engines_without_logits_are_judged_by_ids_alone,
                                         a_golden_without_rows_cannot_excuse_a_difference,
                                         other_weights_are_no_evidence_with_the_name_of_the_file,
                                         a_counter_that_is_not_exact_is_no_evidence_with_its_name,
                                         a_missing_answer_or_golden_or_battery_is_no_evidence,
                                         a_failure_is_not_hidden_by_a_missing_prompt,
                                         a_golden_of_another_length_or_stop_rule_does_not_apply,
                                         voiding_overrules,
                                         the_oracles_own_noise_is_measured};
    Suite *s = suite_create("judge");
    TCase *t = tcase_create("judge");
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
