/* The runner with an engine made of a golden's own answers, and a real store */
#include "harness/run/ask.h"
#include "harness/test/help_golden.h"

#include <check.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROMPTS 6
#define TOKENS  4

static struct golden *g;
static struct battery *b;
static struct store *s;
static char folder[64], path[96], sha256[SHA256_HEX_SIZE];

/* Answers with the golden's records; what it does wrong is set by the test. */
static struct {
    struct engine engine;
    pthread_mutex_t lock;
    int asked[3], fails_at, edits_at, skips_at, other_id;
    const char *absent;
    int64_t ran, expected;
} fake;

/* Behind the store's back. */
static void sql(const char *text)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    char *message = NULL;
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, &message) == SQLITE_OK, "%s", message);
    ck_assert_int_gt(sqlite3_total_changes(db), 0);
    sqlite3_close(db);
}

static void edit_golden(void)
{
    sql("DROP TRIGGER golden_sealed; UPDATE golden SET text = x'28b52ffd'");
}

static int answer(struct engine *e, int slot, const struct engine_request *q, struct stream *out, struct err *err)
{
    const struct golden_prompt *p = golden_find(g, q->seq->name);
    (void)e, (void)slot;
    pthread_mutex_lock(&fake.lock);
    int number = ++fake.asked[q->mode];
    fake.ran += number != fake.skips_at || q->mode != MODE_GENERATE;
    fake.expected++;
    pthread_mutex_unlock(&fake.lock);
    if (number == fake.fails_at && q->mode == MODE_GENERATE)
        return FAIL(err, E_ENGINE, "the device fell off the bus");
    if (number == fake.edits_at && q->mode == MODE_GENERATE)
        edit_golden();
    if (fake.absent && !strcmp(fake.absent, p->name))
        return FAIL(err, E_MISSING, "no answer to %s", p->name);
    *out = toy_stream(p, q->mode == MODE_FORCE_PREFILL ? &p->prefill : &p->decode);
    if (fake.other_id && q->mode == MODE_GENERATE && !strcmp(p->name, "p2"))
        out->ids[1] = fake.other_id;
    return OK;
}

static int counters(struct engine *e, struct counter *out, int max)
{
    (void)e, (void)max;
    *out = (struct counter){"gemms", fake.ran, fake.expected};
    return 1;
}

static const struct engine_ops fake_ops = {.name = "fake", .answer = answer, .counters = counters};

static void setup(void)
{
    struct err e = {0};
    strcpy(folder, "build/check-run-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/store.db", folder);
    g = toy_golden(PROMPTS, TOKENS);
    b = toy_battery(g);
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.lock, NULL);
    fake.engine = (struct engine){.ops = &fake_ops, .slots = 3, .has_logits = 1, .arm = "fake"};
    int64_t id;
    ck_assert_msg(store_open(path, &s, &e) == OK, "%s", e.text);
    ck_assert_msg(store_battery_put(s, b, &e) == OK, "%s", e.text);
    ck_assert_msg(store_golden_put(s, g, "active", &id, &e) == OK, "%s", e.text);
    golden_free(g);
    ck_assert_msg(store_golden_get(s, "toy", "toys", NULL, &g, sha256, &e) == OK, "%s", e.text);
}

static void teardown(void)
{
    char command[128];
    store_close(s);
    golden_free(g);
    battery_free(b);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static int go(int fresh, struct run_result *r, struct err *e)
{
    struct run_options o = {.store = s,
                            .engine = &fake.engine,
                            .golden = g,
                            .golden_sha256 = sha256,
                            .battery = b,
                            .model_sha256 = "",
                            .commit = "",
                            .fresh = fresh};
    memset(e, 0, sizeof *e);
    return run_battery(&o, r, e);
}

static enum run_verdict verdict_of_run(int fresh)
{
    struct run_result r;
    struct err e;
    ck_assert_msg(go(fresh, &r, &e) == OK, "%s", e.text);
    enum run_verdict v = r.judgement.verdict;
    ck_assert_str_eq(json_string_value(json_object_get(r.summary, "verdict")), run_verdict_name(v));
    ck_assert_int_eq(json_integer_value(json_object_get(r.summary, "exit")), r.status);
    run_result_free(&r);
    return v;
}

START_TEST(every_prompt_is_asked_free_and_by_prefill_and_never_forced_when_its_ids_are_equal)
{
    ck_assert_int_eq(verdict_of_run(0), RV_PASS);
    ck_assert_int_eq(fake.asked[MODE_GENERATE], PROMPTS);
    ck_assert_int_eq(fake.asked[MODE_FORCE_PREFILL], PROMPTS);
    ck_assert_int_eq(fake.asked[MODE_FORCE_DECODE], 0);
}
END_TEST

START_TEST(a_prompt_that_leaves_the_golden_is_forced)
{
    fake.other_id = 122;
    ck_assert_int_eq(verdict_of_run(0), RV_PASS_BY_RAZOR);
    ck_assert_int_eq(fake.asked[MODE_FORCE_DECODE], 1);
}
END_TEST

START_TEST(a_run_that_died_goes_on_where_it_stopped)
{
    struct run_result r;
    struct err e;
    fake.engine.slots = 1;
    fake.fails_at = 4;
    ck_assert_int_eq(go(0, &r, &e), E_ENGINE);
    ck_assert_str_eq(e.text, "prompt p3: the device fell off the bus");
    fake.fails_at = 0;
    fake.asked[MODE_GENERATE] = 0;
    ck_assert_int_eq(go(0, &r, &e), OK);
    ck_assert_int_eq(fake.asked[MODE_GENERATE], PROMPTS - 3);
    ck_assert_int_eq(r.resumed, 3);
    ck_assert_int_eq(r.judgement.verdict, RV_PASS);
    run_result_free(&r);
}
END_TEST

START_TEST(fresh_starts_over_and_a_finished_run_is_never_continued)
{
    struct run_result r;
    struct err e;
    fake.fails_at = 4;
    ck_assert_int_eq(go(0, &r, &e), E_ENGINE);
    fake.fails_at = 0;
    memset(fake.asked, 0, sizeof fake.asked);
    ck_assert_int_eq(verdict_of_run(1), RV_PASS);
    ck_assert_int_eq(fake.asked[MODE_GENERATE], PROMPTS);
    memset(fake.asked, 0, sizeof fake.asked);
    ck_assert_int_eq(verdict_of_run(1), RV_PASS);
    ck_assert_int_eq(fake.asked[MODE_GENERATE], PROMPTS);
}
END_TEST

START_TEST(a_golden_that_changes_during_the_run_voids_it)
{
    fake.edits_at = 2;
    ck_assert_int_eq(verdict_of_run(0), RV_VOID);
}
END_TEST

START_TEST(a_missing_answer_is_no_evidence_and_named)
{
    struct run_result r;
    struct err e;
    fake.absent = "p4";
    ck_assert_int_eq(go(0, &r, &e), OK);
    ck_assert_int_eq(r.judgement.verdict, RV_NO_EVIDENCE);
    ck_assert_int_eq(r.status, 4);
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(r.summary, "missing"), 0)), "no answer to p4");
    run_result_free(&r);
}
END_TEST

START_TEST(a_wrong_counter_is_no_evidence)
{
    fake.skips_at = 3;
    ck_assert_int_eq(verdict_of_run(0), RV_NO_EVIDENCE);
}
END_TEST

static void check_counter(const struct run_result *r, int ran, int expected)
{
    const json_t *c = json_object_get(json_object_get(r->summary, "counters"), "gemms");
    ck_assert_int_eq(json_integer_value(json_object_get(c, "ran")), ran);
    ck_assert_int_eq(json_integer_value(json_object_get(c, "expected")), expected);
}

/* What the first process skipped is not forgotten by the second, and what both did is added up. */
START_TEST(counters_are_those_of_all_processes_that_answered)
{
    for (int skips = 0; skips < 2; skips++) {
        struct run_result r;
        struct err e;
        memset(fake.asked, 0, sizeof fake.asked);
        fake.engine.slots = 1;
        fake.fails_at = 4;
        fake.skips_at = skips ? 2 : 0;
        ck_assert_int_eq(go(1, &r, &e), E_ENGINE);
        fake.fails_at = fake.skips_at = 0;
        fake.ran = 1000, fake.expected = 2000; /* another process, another start */
        ck_assert_int_eq(go(0, &r, &e), OK);
        ck_assert_int_eq(r.resumed, 3);
        ck_assert_int_eq(r.judgement.verdict, skips ? RV_NO_EVIDENCE : RV_PASS);
        check_counter(&r, 2 * PROMPTS - skips, 2 * PROMPTS);
        run_result_free(&r);
    }
}
END_TEST

START_TEST(a_run_that_died_before_its_verdict_is_judged_by_counters_that_were_stored)
{
    struct run_result r;
    struct err e;
    json_t *once;
    ck_assert_int_eq(go(0, &r, &e), OK);
    once = json_incref(r.summary);
    run_result_free(&r);
    sql("DROP TRIGGER run_sealed; DROP TRIGGER position_kept;"
        "UPDATE run SET finished = NULL, verdict = NULL, summary = NULL");
    memset(fake.asked, 0, sizeof fake.asked);
    ck_assert_int_eq(go(0, &r, &e), OK);
    ck_assert_int_eq(fake.asked[MODE_GENERATE], 0);
    ck_assert_int_eq(r.judgement.verdict, RV_PASS);
    ck_assert(json_equal(once, r.summary)); /* the report does not tell in how many sittings it was made */
    json_decref(once);
    run_result_free(&r);
}
END_TEST

static int refuse(void *arg, const struct answered *a, int n, struct err *e)
{
    (void)a, (void)n;
    ++*(int *)arg;
    return FAIL(e, E_STORE, "disk full");
}

START_TEST(a_store_that_refuses_stops_the_asking)
{
    struct job job[PROMPTS] = {0};
    struct err e = {0};
    int puts = 0;
    fake.engine.slots = 1;
    for (int i = 0; i < PROMPTS; i++) {
        job[i].fed = &b->prompt[i];
        job[i].golden = &g->prompt[i];
    }
    ck_assert_int_eq(ask_all(&fake.engine, b, 4, job, PROMPTS, refuse, &puts, &e), E_STORE);
    ck_assert_str_eq(e.text, "disk full");
    ck_assert_int_eq(puts, 1); /* nothing is put after the refusal */
    for (int i = 0; i < PROMPTS * PHASES; i++)
        stream_free(&job[i / PHASES].answer[i % PHASES]);
}
END_TEST

START_TEST(the_ids_of_a_failed_run_are_in_the_store)
{
    struct run_result r;
    struct err e;
    struct stream st = {0};
    int found = 0;
    fake.other_id = 4000;
    ck_assert_int_eq(go(0, &r, &e), OK);
    ck_assert_int_eq(r.status, 1);
    ck_assert_int_eq(store_stream_get(s, r.run, "p2", PHASE_FREE, &st, &found, &e), OK);
    ck_assert_int_eq(found, 1);
    ck_assert_int_eq(st.ids[1], 4000);
    stream_free(&st);
    run_result_free(&r);
}
END_TEST

int main(void)
{
    const struct TTest *const tests[] = {
        every_prompt_is_asked_free_and_by_prefill_and_never_forced_when_its_ids_are_equal,
        a_prompt_that_leaves_the_golden_is_forced,
        a_run_that_died_goes_on_where_it_stopped,
        fresh_starts_over_and_a_finished_run_is_never_continued,
        a_golden_that_changes_during_the_run_voids_it,
        a_missing_answer_is_no_evidence_and_named,
        a_wrong_counter_is_no_evidence,
        counters_are_those_of_all_processes_that_answered,
        a_run_that_died_before_its_verdict_is_judged_by_counters_that_were_stored,
        a_store_that_refuses_stops_the_asking,
        the_ids_of_a_failed_run_are_in_the_store,
    };
    Suite *suite = suite_create("run");
    TCase *t = tcase_create("run");
    tcase_add_checked_fixture(t, setup, teardown);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
