/* Stores that become one: what joins, what is refused and by which names. */
#include "goldens/store.h"
#include "goldens/test/help_store.h"
#include "harness/test/help_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPTS 9

static struct run_key shard_key;
static const char *in[40];
static int ins;

/* The next store to be merged. */
static void take(const char *file)
{
    static char path[40][700];
    snprintf(path[ins], sizeof path[ins], "%s", scratch(file));
    in[ins] = path[ins];
    ins++;
}

/* A battery of nine prompts that the key names. */
static void put_battery(struct store *s)
{
    struct battery_prompt prompt[PROMPTS];
    struct battery b = {.name = "b", .max_new_tokens = 4, .razor_ulp = 2, .razor_cap_nats = 0.5, .prompt = prompt};
    struct err e = {0};
    static char name[PROMPTS][4];
    static int32_t id[1] = {1};
    for (int i = 0; i < PROMPTS; i++) {
        snprintf(name[i], sizeof name[i], "p%d", i);
        prompt[b.prompts++] = (struct battery_prompt){name[i], NULL, id, 1};
    }
    snprintf(b.sha256, sizeof b.sha256, "bh");
    ck_assert_msg(store_battery_put(s, &b, &e) == OK, "%s", e.text);
}

static void put(struct store *s, int64_t run, int prompt, unsigned seed, int64_t ran)
{
    char name[8];
    struct err e = {0};
    struct stream st = stream_made(5, 5, 1, seed);
    snprintf(name, sizeof name, "p%d", prompt);
    st.counter = calloc(1, sizeof *st.counter);
    st.counters = 1;
    snprintf(st.counter->name, sizeof st.counter->name, "gemms");
    st.counter->ran = st.counter->expected = ran;
    ck_assert_msg(store_stream_put(s, run, name, PHASE_FREE, &st, &e) == OK, "%s", e.text);
    stream_free(&st);
}

/* A store of one unfinished run; prompts as digits, "035". It is the next to be merged. */
static void make_shard(const char *file, const char *shard, const char *prompts)
{
    struct run_key key = shard_key;
    struct store *s = store_opened(file);
    key.shard = shard;
    put_battery(s);
    int64_t run = store_run_of(s, &key, 0);
    for (; *prompts; prompts++)
        put(s, run, *prompts - '0', (unsigned)(*prompts - '0'), 7);
    store_close(s);
    take(file);
}

static void setup(void)
{
    scratch_setup();
    shard_key = test_key;
    ins = 0;
}

static json_t *merged(const char *file, enum merge_into into)
{
    json_t *report = NULL;
    struct err e = {0};
    struct store *s = store_opened(file);
    ck_assert_msg(store_merge(s, in, ins, into, NULL, NULL, &report, &e) == OK, "%s", e.text);
    ck_assert_str_eq(store_complaints(s), "");
    store_close(s);
    return report;
}

static const json_t *joined(const json_t *report, size_t i)
{
    return json_array_get(json_object_get(report, "joined"), i);
}

static int size_of(const json_t *o, const char *key)
{
    return (int)json_array_size(json_object_get(o, key));
}

static void check_answers(const char *file, int64_t run)
{
    struct store *s = store_opened(file);
    for (int i = 0; i < PROMPTS; i++) {
        char name[8];
        int found;
        struct stream st, want = stream_made(5, 5, 1, (unsigned)i);
        snprintf(name, sizeof name, "p%d", i);
        ck_assert_int_eq(store_stream_get(s, run, name, PHASE_FREE, &st, &found, NULL), OK);
        ck_assert_msg(found, "%s", name);
        ck_assert_mem_eq(st.ids, want.ids, 5 * sizeof *st.ids);
        ck_assert_mem_eq(st.view.row_sha256, want.view.row_sha256, 5 * SHA256_BYTES);
        ck_assert_int_eq(st.counter->ran, 7);
        stream_free(&st);
        stream_free(&want);
    }
    store_close(s);
}

START_TEST(shards_become_one_run_that_goes_on)
{
    make_shard("1.db", "1/3", "036");
    make_shard("2.db", "2/3", "147");
    make_shard("3.db", "3/3", "258");
    store_sql("2.db", "UPDATE run SET started = '1999-12-31 23:59:59'");
    json_t *r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(r, "conflicts"), 0);
    ck_assert_int_eq(size_of(r, "joined"), 1);
    ck_assert_int_eq(size_of(joined(r, 0), "shards"), 3);
    ck_assert_int_eq(size_of(joined(r, 0), "missing"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(joined(r, 0), "answered")), PROMPTS);
    check_answers("out.db", 1);
    struct store *s = store_opened("out.db");
    json_t *o;
    ck_assert_int_eq(store_run_of(s, &test_key, 0), 1); /* as a whole, no shard */
    ck_assert_int_eq(store_run_get(s, 1, &o, NULL), OK);
    ck_assert_str_eq(json_string_value(json_object_get(o, "started")), "1999-12-31 23:59:59");
    ck_assert(json_is_null(json_object_get(o, "verdict")));
    json_decref(o);
    store_close(s);
    json_decref(r);
}
END_TEST

START_TEST(what_is_missing_is_named_and_may_come_later)
{
    make_shard("1.db", "1/3", "036");
    make_shard("3.db", "3/3", "258");
    json_t *r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(joined(r, 0), "missing"), 3);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(joined(r, 0), "missing"), 1)), "p4");
    json_decref(r);
    ins = 0;
    make_shard("2.db", "2/3", "147");
    r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(joined(r, 0), "missing"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(joined(r, 0), "run")), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(r, "answers")), 3);
    check_answers("out.db", 1);
    json_decref(r);
}
END_TEST

/* Cut once in three and once in two: the overlap is the same answer, though counted in another process. */
START_TEST(overlaps_that_agree_are_one)
{
    make_shard("1.db", "1/3", "036");
    make_shard("2.db", "1/2", "01234");
    make_shard("3.db", "2/2", "5678");
    struct store *s = store_opened("2.db");
    put(s, 1, 3, 3, 8);
    store_close(s);
    json_t *r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(r, "conflicts"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(r, "answers")), PROMPTS);
    check_answers("out.db", 1);
    json_decref(r);
}
END_TEST

static void check_refused(const char *const *words, int n)
{
    json_t *r = merged("out.db", MERGE_ANY);
    ck_assert_int_ge(size_of(r, "conflicts"), 1);
    const char *text = json_string_value(json_array_get(json_object_get(r, "conflicts"), 0));
    for (int i = 0; i < n; i++)
        ck_assert_msg(strstr(text, words[i]) != NULL, "\"%s\" is not in: %s", words[i], text);
    json_decref(r);
    json_t *list;
    struct store *s = store_opened("out.db"); /* all or nothing */
    ck_assert_int_eq(store_run_list(s, &(struct run_filter){0}, &list, NULL), OK);
    ck_assert_uint_eq(json_array_size(list), 0);
    json_decref(list);
    store_close(s);
}

START_TEST(overlaps_that_disagree_are_refused_by_prompt_token_and_store)
{
    make_shard("1.db", "1/2", "0123");
    make_shard("2.db", "2/2", "345678");
    struct store *s = store_opened("2.db");
    put(s, 1, 3, 4, 7);
    store_close(s);
    check_refused((const char *const[]){"1.db", "2.db", "prompt p3", "free", "token 0: 3000 there, 4000 here"}, 5);
}
END_TEST

START_TEST(a_bit_of_a_logit_is_a_disagreement_too)
{
    make_shard("1.db", "1/2", "0123");
    make_shard("2.db", "2/2", "45678");
    struct store *s = store_opened("2.db");
    struct stream st = stream_made(5, 5, 1, 3);
    st.view.top_values[2] = -1.0f;
    ck_assert_int_eq(store_stream_put(s, 1, "p3", PHASE_FREE, &st, NULL), OK);
    stream_free(&st);
    store_close(s);
    check_refused((const char *const[]){"1.db", "2.db", "prompt p3", "in the rows of logits"}, 4);
}
END_TEST

START_TEST(shards_of_another_model_battery_golden_or_commit_are_refused)
{
    static const char *const what[] = {"model", "battery", "golden", "commit"};
    for (int i = 0; i < 4; i++) {
        const char *words[] = {"2.db", "1.db", what[i], "another"};
        remove(scratch("2.db"));
        ins = 0;
        make_shard("1.db", "1/2", "0123");
        if (i == 0)
            shard_key.model_sha256 = "another";
        if (i == 1)
            shard_key.battery_sha256 = "another";
        if (i == 2)
            shard_key.golden_sha256 = "another";
        if (i == 3)
            shard_key.commit = "another";
        make_shard("2.db", "2/2", "45678");
        shard_key = test_key;
        check_refused(words, 4);
    }
}
END_TEST

START_TEST(another_arm_is_another_run)
{
    make_shard("1.db", "1/1", "012345678");
    shard_key.arm = "other";
    make_shard("2.db", "1/1", "012345678");
    json_t *r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(r, "joined"), 2);
    check_answers("out.db", 1);
    check_answers("out.db", 2);
    json_decref(r);
}
END_TEST

START_TEST(a_damaged_shard_is_an_error_that_names_it)
{
    json_t *r;
    struct err e = {0};
    make_shard("1.db", "1/2", "0123");
    make_shard("2.db", "2/2", "45678");
    store_sql("2.db", "UPDATE stream SET record = (SELECT record FROM stream WHERE prompt = 'p4') WHERE prompt = 'p7'");
    struct store *s = store_opened("out.db");
    ck_assert_int_eq(store_merge(s, in, ins, MERGE_ANY, NULL, NULL, &r, &e), E_STORE);
    CHECK_HOLDS(e, "2.db: prompt p7, free was edited");
    ck_assert_str_eq(store_complaints(s), "");
    ck_assert_int_eq(store_run_of(s, &test_key, 0), 1); /* nothing had come in */
    store_close(s);
}
END_TEST

START_TEST(a_judged_run_is_not_joined_but_held_against)
{
    struct err e = {0};
    json_t *summary = json_object(), *r;
    make_shard("1.db", "1/1", "012345678");
    json_decref(merged("out.db", MERGE_ANY));
    struct store *s = store_opened("out.db");
    ck_assert_int_eq(store_run_finish(s, 1, NULL, 0, RV_PASS, summary, &e), OK);
    store_close(s);
    r = merged("out.db", MERGE_ANY);
    ck_assert(json_is_true(json_object_get(joined(r, 0), "judged")));
    ck_assert_int_eq(json_integer_value(json_object_get(r, "answers")), 0);
    json_decref(r);
    r = merged("out.db", MERGE_UNFINISHED); /* who runs it again wants a run of his own */
    ck_assert_int_eq(json_integer_value(json_object_get(joined(r, 0), "run")), 2);
    json_decref(r);
    s = store_opened("1.db");
    put(s, 1, 0, 5, 7);
    store_close(s);
    r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(r, "conflicts"), 1);
    json_decref(r);
    json_decref(summary);
}
END_TEST

START_TEST(finished_runs_and_goldens_travel_once)
{
    json_t *o;
    store_sound("1.db");
    take("1.db");
    for (int again = 0; again < 2; again++) {
        json_t *r = merged("out.db", MERGE_ANY);
        ck_assert_int_eq(json_integer_value(json_object_get(r, "goldens")), again ? 0 : 3);
        ck_assert_int_eq(json_integer_value(json_object_get(r, "runs_copied")), !again);
        json_decref(r);
    }
    struct store *s = store_opened("out.db");
    ck_assert_int_eq(store_run_get(s, 1, &o, NULL), OK);
    ck_assert_str_eq(json_string_value(json_object_get(o, "verdict")), "FAIL");
    ck_assert_int_eq(size_of(o, "positions"), 1);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(o, "summary"), "run")), 1);
    json_decref(o);
    store_close(s);
}
END_TEST

START_TEST(a_golden_keeps_what_it_has_become)
{
    char status[16];
    struct err e = {0};
    json_t *list, *r;
    store_sound("1.db");
    struct store *s = store_opened("1.db");
    ck_assert_int_eq(store_ledger_list(s, "import", &list, &e), OK);
    json_t *first = json_object_get(json_array_get(list, 0), "what");
    json_t *what = json_pack("{s:O,s:s}", "golden", json_object_get(first, "golden"), "status", "superseded");
    ck_assert_int_eq(store_ledger_add(s, "unratify", what, &e), OK);
    store_close(s);
    take("1.db");
    r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(json_integer_value(json_object_get(r, "decisions_left")), 1);
    json_decref(r);
    s = store_opened("out.db");
    ck_assert_int_eq(store_golden_status(s, 1, status, &e), OK);
    ck_assert_str_eq(status, "superseded");
    store_close(s);
    store_sound("2.db"); /* where it is active still */
    take("2.db");
    r = merged("out.db", MERGE_ANY);
    ck_assert_int_eq(size_of(r, "conflicts"), 1);
    const char *text = json_string_value(json_array_get(json_object_get(r, "conflicts"), 0));
    ck_assert_msg(strstr(text, "is active in") && strstr(text, "superseded in"), "%s", text);
    json_decref(r);
    json_decref(list);
    json_decref(what);
}
END_TEST

START_TEST(a_store_is_merged_neither_into_itself_nor_out_of_nothing)
{
    json_t *r;
    struct err e = {0};
    struct store *s = store_opened("out.db");
    const char *path = scratch("out.db");
    ck_assert_int_eq(store_merge(s, &path, 1, MERGE_ANY, NULL, NULL, &r, &e), E_USAGE);
    CHECK_HOLDS(e, "into itself");
    e = (struct err){0};
    path = scratch("none.db");
    ck_assert_int_eq(store_merge(s, &path, 1, MERGE_ANY, NULL, NULL, &r, &e), E_MISSING);
    CHECK_HOLDS(e, "none.db");
    store_close(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store merge");
    TCase *t = tcase_create("merge");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, scratch_teardown);
    tcase_add_test(t, shards_become_one_run_that_goes_on);
    tcase_add_test(t, what_is_missing_is_named_and_may_come_later);
    tcase_add_test(t, overlaps_that_agree_are_one);
    tcase_add_test(t, overlaps_that_disagree_are_refused_by_prompt_token_and_store);
    tcase_add_test(t, a_bit_of_a_logit_is_a_disagreement_too);
    tcase_add_test(t, shards_of_another_model_battery_golden_or_commit_are_refused);
    tcase_add_test(t, another_arm_is_another_run);
    tcase_add_test(t, a_damaged_shard_is_an_error_that_names_it);
    tcase_add_test(t, a_judged_run_is_not_joined_but_held_against);
    tcase_add_test(t, finished_runs_and_goldens_travel_once);
    tcase_add_test(t, a_golden_keeps_what_it_has_become);
    tcase_add_test(t, a_store_is_merged_neither_into_itself_nor_out_of_nothing);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
