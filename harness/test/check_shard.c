/* How a battery is cut: even, whole, and stable when the number of shards changes */
#include "goldens/exchange.h"
#include "harness/run/estimate.h"
#include "harness/test/help_golden.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 3000

static struct battery_prompt many[MANY];
static char names[MANY][16];
static int32_t ids[MANY][3];

static void setup(void)
{
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "p%d", i);
        for (int k = 0; k < 3; k++)
            ids[i][k] = i * 7 + k;
        many[i] = (struct battery_prompt){names[i], NULL, ids[i], 3};
    }
}

START_TEST(with_one_shard_more_a_prompt_stays_or_goes_to_the_new_one)
{
    for (int n = 1; n < 100; n++) {
        int moved = 0;
        for (int i = 0; i < MANY; i++) {
            int before = shard_of(&many[i], n), after = shard_of(&many[i], n + 1);
            ck_assert(after == before || after == n + 1);
            moved += after != before;
        }
        double fair = (double)MANY / (n + 1);
        ck_assert_msg(moved > fair / 2 && moved < fair * 2, "%d of %d moved at %d shards", moved, MANY, n);
    }
}
END_TEST

START_TEST(shards_are_about_equally_large)
{
    int count[9] = {0};
    for (int i = 0; i < MANY; i++)
        count[shard_of(&many[i], 8)]++;
    ck_assert_int_eq(count[0], 0);
    for (int k = 1; k <= 8; k++)
        ck_assert_msg(count[k] > MANY / 10 && count[k] < MANY / 6, "shard %d has %d", k, count[k]);
}
END_TEST

/* These numbers are a promise: shards of two versions of this program fit together. */
START_TEST(the_cut_of_the_strict_battery_is_written_down)
{
    static const char want[] = "26122432188718141815252785475124";
    char got[80] = "";
    struct battery *b;
    struct err e = {0};
    ck_assert_msg(battery_read("batteries/strict.json", &b, &e) == OK, "%s", e.text);
    for (int i = 0; i < b->prompts; i++)
        snprintf(got + i, sizeof got - (size_t)i, "%d", shard_of(&b->prompt[i], 8));
    ck_assert_str_eq(got, want);
    battery_free(b);
}
END_TEST

START_TEST(name_and_ids_decide_and_nothing_else)
{
    struct battery_prompt p = many[5];
    int32_t other[] = {35, 36, 38};
    int by_name = 0, by_ids = 0;
    p.text = "whatever";
    for (int n = 1; n < 60; n++) {
        struct battery_prompt named = p, fed = p;
        named.name = "q5", fed.ids = other;
        ck_assert_int_eq(shard_of(&p, n), shard_of(&many[5], n));
        by_name += shard_of(&named, n) != shard_of(&p, n);
        by_ids += shard_of(&fed, n) != shard_of(&p, n);
    }
    ck_assert_int_gt(by_name, 0);
    ck_assert_int_gt(by_ids, 0);
}
END_TEST

START_TEST(shards_make_the_whole_and_share_nothing)
{
    struct battery b = {.prompt = many, .prompts = 200};
    for (int n = 1; n < 300; n += n < 12 ? 1 : 71) {
        int seen[200] = {0};
        for (int i = 1; i <= n; i++) {
            struct battery part;
            struct err e = {0};
            ck_assert_int_eq(shard_cut(&b, (struct shard){i, n}, &part, &e), OK);
            for (int k = 0; k < part.prompts; k++)
                seen[atoi(part.prompt[k].name + 1)]++;
            free(part.prompt);
        }
        for (int i = 0; i < 200; i++)
            ck_assert_int_eq(seen[i], 1);
    }
}
END_TEST

START_TEST(what_is_no_shard_is_refused)
{
    static const char *const bad[] = {"",     "1",    "/",   "0/4",  "5/4",   "1/0",      "-1/4",
                                      "1/-4", "1/4x", "a/b", "1/ 4", "1/4/2", "1/100001", "99999999999/99999999999"};
    struct shard s;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct err e = {0};
        ck_assert_msg(shard_parse(bad[i], &s, &e) == E_USAGE, "%s", bad[i]);
        ck_assert_ptr_nonnull(strstr(e.text, "1 <= I <= N"));
    }
    ck_assert_int_eq(shard_parse("3/8", &s, NULL), OK);
    ck_assert(s.i == 3 && s.n == 8);
}
END_TEST

/* One layer of known shapes: every multiplication can be counted by hand. */
START_TEST(work_is_counted_exactly)
{
    struct layer layer = {.q = {.n = 8, .k = 4},
                          .k = {.n = 4, .k = 4},
                          .v = {.n = 4, .k = 4},
                          .o = {.n = 4, .k = 8},
                          .gate = {.n = 16, .k = 4},
                          .up = {.n = 16, .k = 4},
                          .down = {.n = 4, .k = 16}};
    struct model m = {.config = {.hidden = 4, .layers = 1, .heads = 2, .kv_heads = 1, .head_dim = 4},
                      .head = {.n = 10, .k = 4},
                      .layer = &layer};
    struct battery b = {.prompt = many, .prompts = 2, .max_new_tokens = 2};
    double row = 8 * 4 + 4 * 4 + 4 * 4 + 4 * 8 + 3 * 16 * 4, pairs4 = 2 * 8 * (1 + 2 + 3 + 4),
           pairs5 = pairs4 + 2 * 8 * 5;
    struct work w = work_of(&b, &m, 0);
    ck_assert(w.prompts == 2 && w.fed == 6 && w.emitted == 4 && w.forced == 0);
    ck_assert_double_eq(w.macs, 2 * (4 * row + pairs4 + 2 * 40));
    w = work_of(&b, &m, 1);
    ck_assert_int_eq(w.forced, 10);
    ck_assert_double_eq(w.macs, 2 * (4 * row + pairs4 + 2 * 40) + 2 * (5 * row + pairs5 + 2 * 40));
    struct expert expert = {layer.gate, layer.up, layer.down};
    layer.experts = &expert, layer.router = (struct linear){.n = 6, .k = 4};
    m.config.experts = 6, m.config.topk = 3;
    w = work_of(&b, &m, 0);
    ck_assert_double_eq(w.macs, 2 * (4 * (row + 2 * 3 * 16 * 4 + 6 * 4) + pairs4 + 2 * 40));
    ck_assert_double_eq(work_of(&b, NULL, 1).macs, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shard");
    TCase *t = tcase_create("shard");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, with_one_shard_more_a_prompt_stays_or_goes_to_the_new_one);
    tcase_add_test(t, shards_are_about_equally_large);
    tcase_add_test(t, the_cut_of_the_strict_battery_is_written_down);
    tcase_add_test(t, name_and_ids_decide_and_nothing_else);
    tcase_add_test(t, shards_make_the_whole_and_share_nothing);
    tcase_add_test(t, what_is_no_shard_is_refused);
    tcase_add_test(t, work_is_counted_exactly);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
