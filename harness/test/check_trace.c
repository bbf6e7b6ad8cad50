/* Every op of the native engine gives the bytes that vLLM's modules gave on an H200, on the recorded inputs. */
#include "harness/bisect/trace.h"
#include "harness/models/load.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_OPS 1024

static struct op_difference diff[MAX_OPS];

/* Runs the arm on the trace's ids and compares; returns how many ops were compared. */
static int against_trace(const char *model, const char *trace, char *const *words, int n)
{
    char path[256], folder[512];
    struct trace recorded = {0};
    struct op_log ours = {0};
    struct model *m;
    struct engine *g;
    struct err e = {0};
    snprintf(path, sizeof path, "harness/test/data/%s.trace.safetensors.zst", trace);
    ck_assert_msg(model_find(model, ".", NULL, folder, sizeof folder, &e) == OK, "%s", e.text);
    ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
    ck_assert_msg(engine_open_spec("native", words, n, m, ".", 1, &g, &e) == OK, "%s", e.text);
    ck_assert_msg(trace_read(path, &recorded, &e) == OK, "%s", e.text);
    ck_assert_msg(
        op_log_engine(g, recorded.prompt, recorded.prompts, recorded.forced, recorded.forceds, NULL, &ours, &e) == OK,
        "%s", e.text);
    static struct op_record first; /* diff points into the logs, which end here: keep the first difference's names */
    int ops = op_log_compare(&recorded.log, &ours, diff, MAX_OPS);
    for (int i = 0; i < ops; i++)
        if (diff[i].differ) {
            first = *diff[i].a;
            printf("%s: first difference at step %d layer %d %s: %ld of %ld\n", trace, first.step, first.layer,
                   first.op, diff[i].differ, diff[i].elements);
            diff[i].a = &first;
            diff[0] = diff[i];
            break;
        }
    trace_free(&recorded);
    op_log_free(&ours);
    g->ops->close(g);
    model_close(m);
    return ops;
}

static long differing(int ops)
{
    long n = 0;
    for (int i = 0; i < ops; i++)
        n += diff[i].differ != 0;
    return n;
}

START_TEST(every_op_of_a_dense_int4_model_equals_the_recorded_gpu)
{
    int ops = against_trace("tiny-dense-int4g128", "tiny-dense-int4g128.smoke.p01", NULL, 0);
    ck_assert_int_ge(ops, 3 * (9 + 3)); /* at least: three steps, one of the six layers is shipped */
    ck_assert_int_eq(differing(ops), 0);
}
END_TEST

START_TEST(every_op_of_an_nvfp4_mixture_of_experts_equals_the_recorded_gpu)
{
    int ops = against_trace("tiny-moe-nvfp4", "tiny-moe-nvfp4.smoke.p01", NULL, 0);
    ck_assert_int_ge(ops, 3 * (4 * 8 + 3));
    ck_assert_int_eq(differing(ops), 0);
}
END_TEST

START_TEST(a_planted_mistake_is_found_at_its_op)
{
    char *rope[] = {(char *)"mutant=rope_off_by_one"}, *shift[] = {(char *)"mutant=row_shifted_stride"};
    int ops = against_trace("tiny-dense-int4g128", "tiny-dense-int4g128.smoke.p01", rope, 1);
    ck_assert_int_gt(differing(ops), 0);
    ck_assert_str_eq(diff[0].a->op, "rotary_q");
    ck_assert_int_eq(diff[0].a->layer, 0);
    ck_assert_int_eq(diff[0].a->step, 0);
    ops = against_trace("tiny-moe-nvfp4", "tiny-moe-nvfp4.smoke.p01", shift, 1);
    ck_assert_int_gt(differing(ops), 0);
    ck_assert_str_eq(diff[0].a->op, "qkv_proj");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("trace");
    TCase *t = tcase_create("ops");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_op_of_a_dense_int4_model_equals_the_recorded_gpu);
    tcase_add_test(t, every_op_of_an_nvfp4_mixture_of_experts_equals_the_recorded_gpu);
    tcase_add_test(t, a_planted_mistake_is_found_at_its_op);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
