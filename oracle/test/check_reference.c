/* The reference tells the same story as vLLM on an H200, up to near-ties; a wrong layout would not. */
#include "goldens/exchange.h"
#include "harness/models/load.h"
#include "oracle/oracle.h"
#include "oracle/weights.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tally {
    const struct golden_prompt *p;
    int first, rows, agree, near;
};

static double value(uint16_t h)
{
    return oracle_bf16(h);
}

/* Row r of the feed speaks about emitted position r - first. */
static void count(void *arg, int row, const uint16_t *logits, int vocab)
{
    struct tally *t = arg;
    const struct view *v = &t->p->decode;
    int at = row - t->first, best = 0;
    for (int i = 1; i < vocab; i++)
        if (value(logits[i]) > value(logits[best]))
            best = i;
    t->rows++;
    if (best == t->p->ids[at]) {
        t->agree++;
        return;
    }
    for (int i = 0; i < v->top_k; i++) {
        double top = v->top_values[at * v->top_k], ulp = ldexp(1, (int)floor(log2(fabs(top))) - 7);
        if (v->top_ids[at * v->top_k + i] == best && top - (double)v->top_values[at * v->top_k + i] <= 4 * ulp)
            t->near++;
    }
}

/* Feeds the golden's own ids; damage: 0 none, 1 another rotary base, 2 a wrong scale in one layer. */
static struct tally on_golden(const char *model, const char *path, int damage)
{
    char folder[512];
    struct err e = {0};
    struct model *m;
    struct golden *g;
    struct oracle *o;
    struct tally t = {0};
    ck_assert_msg(model_find(model, ".", NULL, folder, sizeof folder, &e) == OK, "%s", e.text);
    ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
    ck_assert_msg(golden_read(path, &g, &e) == OK, "%s", e.text);
    if (damage == 1)
        m->config.rope_theta *= 100;
    if (damage == 2)
        m->layer[0].o.global_scale *= 8;
    ck_assert_msg(oracle_find("reference")->open(m, &o, &e) == OK, "%s", e.text);
    for (int i = 0; i < g->prompts; i++) {
        const struct golden_prompt *p = &g->prompt[i];
        int n = p->prompts + p->n - 1;
        int32_t *all = malloc((size_t)n * sizeof *all);
        memcpy(all, p->prompt_ids, (size_t)p->prompts * sizeof *all);
        memcpy(all + p->prompts, p->ids, (size_t)(p->n - 1) * sizeof *all);
        t.p = p;
        t.first = p->prompts - 1;
        oracle_find("reference")->reset(o);
        ck_assert_msg(oracle_find("reference")->feed(o, all, n, t.first, count, &t, &e) == OK, "%s", e.text);
        free(all);
    }
    oracle_find("reference")->close(o);
    golden_free(g);
    model_close(m);
    return t;
}

static void agrees(const char *model, const char *path)
{
    struct tally t = on_golden(model, path, 0);
    ck_assert_int_eq(t.rows, 96);
    ck_assert_int_ge(t.agree, 90);
    ck_assert_int_eq(t.agree + t.near, t.rows);
}

START_TEST(a_dense_model_agrees_with_vllm_up_to_near_ties)
{
    agrees("tiny-dense-nvfp4", "goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst");
}
END_TEST

START_TEST(a_mixture_of_experts_agrees_with_vllm_up_to_near_ties)
{
    agrees("tiny-moe-int4g128", "goldens/tiny-moe-int4g128.smoke.eager.jsonl.zst");
}
END_TEST

START_TEST(a_wrong_rotary_base_or_scale_is_seen)
{
    for (int damage = 1; damage <= 2; damage++) {
        struct tally t = on_golden("tiny-dense-nvfp4", "goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst", damage);
        ck_assert_int_lt(t.agree + t.near, t.rows - 5);
    }
}
END_TEST

START_TEST(sixteen_bits_round_trip_and_round_to_nearest_even)
{
    for (unsigned h = 0; h < 65536; h++)
        if ((h & 0x7fff) <= 0x7f80)
            ck_assert_uint_eq(oracle_to_bf16(oracle_bf16((uint16_t)h)), h);
    ck_assert_uint_eq(oracle_to_bf16(1 + 1.0 / 256), 0x3f80);
    ck_assert_uint_eq(oracle_to_bf16(1 + 3.0 / 256), 0x3f82);
    ck_assert_uint_eq(oracle_to_bf16(ldexp(1, -134)), 0);
    ck_assert_uint_eq(oracle_to_bf16(ldexp(3, -135)), 1);
    ck_assert_uint_eq(oracle_to_bf16(3.4e38), 0x7f80);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("reference");
    TCase *t = tcase_create("oracle");
    tcase_set_timeout(t, 180);
    tcase_add_test(t, a_dense_model_agrees_with_vllm_up_to_near_ties);
    tcase_add_test(t, a_mixture_of_experts_agrees_with_vllm_up_to_near_ties);
    tcase_add_test(t, a_wrong_rotary_base_or_scale_is_seen);
    tcase_add_test(t, sixteen_bits_round_trip_and_round_to_nearest_even);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
