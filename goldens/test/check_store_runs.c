/* Runs, their streams and verdicts: what resumes, what comes back, and who may write. */
#include "goldens/exchange.h"
#include "goldens/test/help_store.h"
#include "harness/test/help_folder.h"

#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void finish(struct store *s, int64_t run, enum run_verdict v)
{
    struct err e = {0};
    json_t *summary = json_pack("{s:i}", "prompts", 1);
    ck_assert_msg(store_run_finish(s, run, NULL, 0, v, summary, &e) == OK, "%s", e.text);
    json_decref(summary);
}

/* --- resuming --- */

START_TEST(only_the_same_key_continues_an_unfinished_run)
{
    struct store *s = store_opened("s.db");
    int64_t run = store_run_of(s, &test_key, 0);
    struct run_key other[] = {test_key, test_key, test_key, test_key, test_key, test_key, test_key};
    other[0].model = "n", other[1].model_sha256 = "x", other[2].battery_sha256 = "x";
    other[3].golden_sha256 = "x", other[4].arm = "x", other[5].commit = "x", other[6].shard = "1/2";
    ck_assert_int_eq(store_run_of(s, &test_key, 0), run);
    for (int i = 0; i < 7; i++)
        ck_assert_int_ne(store_run_of(s, &other[i], 0), run);
    store_close(s);
    s = store_opened("s.db"); /* also in another process */
    ck_assert_int_eq(store_run_of(s, &test_key, 0), run);
    int64_t fresh = store_run_of(s, &test_key, 1);
    ck_assert_int_gt(fresh, run);
    ck_assert_int_eq(store_run_of(s, &test_key, 0), fresh); /* the newest unfinished one */
    finish(s, fresh, RV_PASS);
    ck_assert_int_eq(store_run_of(s, &test_key, 0), run);
    finish(s, run, RV_FAIL);
    ck_assert_int_gt(store_run_of(s, &test_key, 0), fresh); /* finished runs are never continued */
    store_close(s);
}
END_TEST

/* Two processes of one key work side by side, each on a run of its own; who died leaves his to the next. */
START_TEST(a_run_belongs_to_the_process_that_works_on_it)
{
    struct store *s = store_opened("s.db");
    int pipes[2], status;
    int64_t theirs = 0, mine = store_run_of(s, &test_key, 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pipe(pipes), 0);
        pid_t child = fork();
        if (!child) {
            struct store *own = store_opened("s.db");
            theirs = store_run_of(own, &test_key, 0);
            if (write(pipes[1], &theirs, sizeof theirs) == sizeof theirs)
                pause();
            _exit(1);
        }
        ck_assert_int_eq(read(pipes[0], &theirs, sizeof theirs), sizeof theirs);
        ck_assert_int_eq(theirs, mine + 1); /* the second child takes up what the first has left */
        ck_assert_int_eq(store_run_of(s, &test_key, 0), mine);
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    ck_assert_int_eq(store_run_of(s, &test_key, 0), theirs); /* nobody's now, and the newest */
    store_close(s);
}
END_TEST

/* --- streams --- */

static void check_same(const struct stream *a, const struct stream *b)
{
    size_t rows = (size_t)a->view.rows, cells = rows * (size_t)a->view.top_k;
    ck_assert_int_eq(a->n, b->n);
    ck_assert_int_eq(a->finish, b->finish);
    ck_assert_int_eq(a->view.rows, b->view.rows);
    ck_assert(!a->n || !memcmp(a->ids, b->ids, 4 * (size_t)a->n));
    if (!rows)
        return;
    ck_assert_int_eq(a->view.top_k, b->view.top_k);
    ck_assert_int_eq(a->view.kind, b->view.kind);
    ck_assert_mem_eq(a->view.top_ids, b->view.top_ids, 4 * cells);
    ck_assert_mem_eq(a->view.top_values, b->view.top_values, 4 * cells);
    ck_assert_mem_eq(a->view.logsumexp, b->view.logsumexp, 8 * rows);
    ck_assert_int_eq(!a->view.row_sha256, !b->view.row_sha256);
    if (a->view.row_sha256)
        ck_assert_mem_eq(a->view.row_sha256, b->view.row_sha256, rows * SHA256_BYTES);
}

START_TEST(streams_of_every_shape_come_back_bit_for_bit)
{
    static const struct {
        int n, rows, hashed;
    } shape[] = {{0, 0, 0}, {1, 0, 0}, {1, 1, 0}, {7, 7, 1}, {300, 300, 1}, {64, 64, 0}};
    struct store *s = store_opened("s.db");
    struct err e = {0};
    int64_t run = store_run_of(s, &test_key, 0);
    for (int phase = PHASE_FREE; phase <= PHASE_FORCE_PREFILL; phase++)
        for (unsigned i = 0; i < sizeof shape / sizeof *shape; i++) {
            char name[16];
            struct stream in = stream_made(shape[i].n, shape[i].rows, shape[i].hashed, i + 10 * (unsigned)phase);
            snprintf(name, sizeof name, "p%u", i);
            ck_assert_msg(store_stream_put(s, run, name, (enum run_phase)phase, &in, &e) == OK, "%s", e.text);
            stream_free(&in);
        }
    store_close(s);
    s = store_opened("s.db");
    for (int phase = PHASE_FREE; phase <= PHASE_FORCE_PREFILL; phase++)
        for (unsigned i = 0; i < sizeof shape / sizeof *shape; i++) {
            char name[16];
            int found;
            struct stream in = stream_made(shape[i].n, shape[i].rows, shape[i].hashed, i + 10 * (unsigned)phase), out;
            snprintf(name, sizeof name, "p%u", i);
            ck_assert_int_eq(store_stream_get(s, run, name, (enum run_phase)phase, &out, &found, &e), OK);
            ck_assert_int_eq(found, 1);
            check_same(&in, &out);
            stream_free(&in);
            stream_free(&out);
        }
    struct stream out;
    int found = 7;
    ck_assert_int_eq(store_stream_get(s, run, "p99", PHASE_FREE, &out, &found, &e), OK);
    ck_assert_int_eq(found, 0);
    ck_assert_int_eq(store_stream_get(s, run + 1, "p1", PHASE_FREE, &out, &found, &e), OK);
    ck_assert_int_eq(found, 0);
    ck_assert_str_eq(store_complaints(s), "");
    store_close(s);
}
END_TEST

START_TEST(counters_travel_with_their_answer_and_are_sealed_with_it)
{
    struct store *s = store_opened("s.db");
    struct err e = {0};
    int64_t run = store_run_of(s, &test_key, 0);
    for (int n = 0; n <= COUNTERS_MAX; n += n ? 63 : 1) {
        struct stream in = stream_made(3, 3, 1, 1), out;
        int found;
        in.counter = calloc((size_t)n + 1, sizeof *in.counter);
        in.counters = n;
        for (int i = 0; i < n; i++) {
            snprintf(in.counter[i].name, sizeof in.counter[i].name, "counter %d", i);
            in.counter[i].ran = (int64_t)i << 40, in.counter[i].expected = i - 1;
        }
        ck_assert_msg(store_stream_put(s, run, "p", PHASE_FREE, &in, &e) == OK, "%s", e.text);
        ck_assert_msg(store_stream_get(s, run, "p", PHASE_FREE, &out, &found, &e) == OK, "%s", e.text);
        check_same(&in, &out);
        ck_assert_int_eq(out.counters, n);
        ck_assert(!n || !memcmp(in.counter, out.counter, (size_t)n * sizeof *in.counter));
        stream_free(&in);
        stream_free(&out);
    }
    ck_assert_str_eq(store_complaints(s), "");
    store_close(s);
}
END_TEST

START_TEST(answers_put_together_are_stored_together_or_not_at_all)
{
    struct store *s = store_opened("s.db");
    int64_t run = store_run_of(s, &test_key, 0);
    struct stream st[3];
    struct answer a[3];
    static const char *const name[] = {"p0", "p1", "p2"};
    for (int broken = 1; broken >= 0; broken--) {
        struct err e = {0};
        for (int i = 0; i < 3; i++) {
            st[i] = stream_made(3, 3, 1, (unsigned)i);
            a[i] = (struct answer){name[i], PHASE_FREE, &st[i]};
        }
        st[2].counters = broken ? COUNTERS_MAX + 1 : 0; /* more than a record holds */
        ck_assert_int_eq(store_answers_put(s, run, a, 3, &e) == OK, !broken);
        for (int i = 0; i < 3; i++) {
            struct stream got = {0};
            int found;
            ck_assert_int_eq(store_stream_get(s, run, name[i], PHASE_FREE, &got, &found, &e), OK);
            ck_assert_int_eq(found, !broken);
            stream_free(&got);
            st[i].counters = 0;
            stream_free(&st[i]);
        }
    }
    store_close(s);
}
END_TEST

START_TEST(a_stream_or_a_verdict_needs_its_run)
{
    struct store *s = store_opened("s.db");
    struct err e = {0};
    struct stream st = stream_made(1, 0, 0, 1);
    struct verdict_row row = {.prompt = "p", .verdict = V_EQUAL};
    json_t *summary = json_object();
    ck_assert_int_eq(store_stream_put(s, 5, "p", PHASE_FREE, &st, &e), E_STORE);
    CHECK_HOLDS(e, "FOREIGN KEY");
    e = (struct err){0};
    ck_assert_int_eq(store_run_finish(s, 5, &row, 1, RV_PASS, summary, &e), E_STORE);
    e = (struct err){0};
    ck_assert_int_eq(store_run_finish(s, 5, &row, 0, RV_PASS, summary, &e), E_MISSING);
    CHECK_HOLDS(e, "no run 5");
    ck_assert_str_eq(store_complaints(s), "");
    json_decref(summary);
    stream_free(&st);
    store_close(s);
}
END_TEST

/* --- verdicts --- */

START_TEST(a_verdict_comes_back_with_the_inputs_of_its_decision)
{
    static const struct verdict_row row[] = {
        {"p1", 3, 0, 1, V_DIVERGENT, 7, 9, NAN, NAN, 1.25, 0.125, 0.25, NAN, 0.0625, 2},
        {"p1", 4, 1, 0, V_EQUAL, 8, 8, 0, 0, 0, 0.125, 0.25, 0.5, 0, 1},
    };
    struct store *s = store_opened("s.db");
    struct err e = {0};
    int64_t run = store_run_of(s, &test_key, 0);
    json_t *summary = json_pack("{s:s}", "text", "\xc3\xa9 \"quoted\""), *o;
    ck_assert_msg(store_run_finish(s, run, row, 1, RV_FAIL, summary, &e) == OK, "%s", e.text);
    struct err twice = {0}; /* judged once is judged: the ledger holds the seal */
    ck_assert_int_eq(store_run_finish(s, run, row, 2, RV_PASS, summary, &twice), E_STORE);
    ck_assert_msg(strstr(twice.text, "never"), "%s", twice.text);
    ck_assert_int_eq(store_run_get(s, 0, &o, &e), OK);
    const json_t *p = json_array_get(json_object_get(o, "positions"), 0);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "positions")), 1);
    ck_assert(json_equal(json_object_get(o, "summary"), summary));
    ck_assert_str_eq(json_string_value(json_object_get(o, "verdict")), "FAIL");
    ck_assert_str_eq(json_string_value(json_object_get(p, "verdict")), "DIVERGENT");
    ck_assert(json_is_null(json_object_get(p, "gap_nats")) && json_is_null(json_object_get(p, "jitter_nats")));
    ck_assert(json_real_value(json_object_get(p, "gap_bound_nats")) == 1.25);
    ck_assert(json_real_value(json_object_get(p, "self_gap_nats")) == 0.0625);
    ck_assert_int_eq(json_integer_value(json_object_get(p, "arm_id")), 9);
    ck_assert(json_is_true(json_object_get(p, "root")));
    json_decref(o);
    json_decref(summary);
    ck_assert_int_eq(store_run_get(s, run + 1, &o, &e), E_MISSING);
    store_close(s);
}
END_TEST

static int listed_runs(struct store *s, const struct run_filter *f)
{
    json_t *list;
    struct err e = {0};
    ck_assert_msg(store_run_list(s, f, &list, &e) == OK, "%s", e.text);
    int n = (int)json_array_size(list);
    for (int i = 1; i < n; i++)
        ck_assert_int_lt(json_integer_value(json_object_get(json_array_get(list, (size_t)i), "run")),
                         json_integer_value(json_object_get(json_array_get(list, (size_t)i - 1), "run")));
    json_decref(list);
    return n;
}

START_TEST(runs_are_listed_by_model_battery_verdict_and_day)
{
    struct store *s = store_opened("s.db");
    struct run_key other = test_key;
    json_t *o;
    struct err e = {0};
    ck_assert_int_eq(store_run_get(s, 0, &o, &e), E_MISSING);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){0}), 0);
    other.model = "n'; DROP TABLE run; --";
    for (int i = 0; i < 60; i++)
        finish(s, store_run_of(s, i % 3 ? &test_key : &other, 1), i % 2 ? RV_PASS : RV_FAIL);
    store_run_of(s, &test_key, 1);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){0}), 50);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.limit = 1000}), 61);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.limit = 7}), 7);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.model = "m", .limit = 100}), 41);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.model = other.model, .verdict = "PASS"}), 10);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.battery = "b", .verdict = "FAIL"}), 30);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.battery = "c"}), 0);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.since = "2000-01-01", .limit = 100}), 61);
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.since = "9999-01-01"}), 0);
    store_close(s);
}
END_TEST

START_TEST(a_battery_comes_back_as_it_was)
{
    struct store *s = store_opened("s.db");
    struct err e = {0};
    struct battery *a, *b;
    ck_assert_msg(battery_read("batteries/strict.json", &a, &e) == OK, "%s", e.text);
    ck_assert_int_eq(store_battery_put(s, a, &e), OK);
    ck_assert_int_eq(store_battery_put(s, a, &e), OK);
    ck_assert_int_eq(store_battery_get(s, "strict", &b, &e), OK);
    ck_assert_str_eq(a->sha256, b->sha256);
    ck_assert_str_eq(a->tokenizer_sha256, b->tokenizer_sha256);
    ck_assert_str_eq(a->note, b->note);
    ck_assert(a->razor_ulp == b->razor_ulp && a->razor_cap_nats == b->razor_cap_nats);
    ck_assert_int_eq(a->max_new_tokens, b->max_new_tokens);
    ck_assert_int_eq(a->stop_at_eos, b->stop_at_eos);
    ck_assert_int_eq(a->prompts, b->prompts);
    for (int i = 0; i < a->prompts; i++) {
        ck_assert_str_eq(a->prompt[i].name, b->prompt[i].name);
        ck_assert_int_eq(a->prompt[i].n, b->prompt[i].n);
        ck_assert_mem_eq(a->prompt[i].ids, b->prompt[i].ids, 4 * (size_t)a->prompt[i].n);
        ck_assert_int_eq(!a->prompt[i].text, !b->prompt[i].text);
        if (a->prompt[i].text)
            ck_assert_str_eq(a->prompt[i].text, b->prompt[i].text);
    }
    battery_free(a);
    battery_free(b);
    ck_assert_int_eq(store_battery_get(s, "none", &b, &e), E_MISSING);
    store_close(s);
}
END_TEST

/* --- several writers --- */

static void write_streams(const char *prefix, int n)
{
    struct store *s = store_opened("s.db");
    struct run_key own = test_key;
    struct err e = {0};
    own.arm = prefix;
    int64_t run = store_run_of(s, &own, 0);
    for (int i = 0; i < n; i++) {
        char name[40];
        struct stream st = stream_made(i % 9, i % 9, 1, (unsigned)i);
        snprintf(name, sizeof name, "%s%d", prefix, i);
        if (store_stream_put(s, run, name, PHASE_FREE, &st, &e)) {
            fprintf(stderr, "%s\n", e.text);
            _exit(1);
        }
        stream_free(&st);
    }
    finish(s, run, RV_PASS);
    store_close(s);
}

START_TEST(writers_at_once_all_succeed)
{
    static const char *const prefix[] = {"a", "b", "c"};
    pid_t child[3];
    store_close(store_opened("s.db"));
    for (int i = 0; i < 3; i++)
        if (!(child[i] = fork())) {
            write_streams(prefix[i], 40);
            _exit(0);
        }
    for (int i = 0; i < 3; i++) {
        int status;
        ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
        ck_assert_int_eq(status, 0);
    }
    struct store *s = store_opened("s.db");
    ck_assert_str_eq(store_complaints(s), "");
    ck_assert_int_eq(listed_runs(s, &(struct run_filter){.verdict = "PASS"}), 3);
    for (int64_t run = 1; run <= 3; run++)
        for (int i = 0; i < 40; i++) {
            struct stream st = {0}, want = stream_made(i % 9, i % 9, 1, (unsigned)i);
            int found = 0, any = 0;
            for (int k = 0; k < 3 && !any; k++) {
                char name[40];
                snprintf(name, sizeof name, "%s%d", prefix[k], i);
                ck_assert_int_eq(store_stream_get(s, run, name, PHASE_FREE, &st, &found, NULL), OK);
                any = found;
            }
            ck_assert_int_eq(any, 1);
            check_same(&want, &st);
            stream_free(&st);
            stream_free(&want);
        }
    store_close(s);
}
END_TEST

/* While somebody reads with an old snapshot, writing goes on. */
START_TEST(a_reader_does_not_stop_a_writer)
{
    sqlite3 *reader;
    struct err e = {0};
    struct stream st = stream_made(3, 3, 0, 1);
    store_sound("s.db");
    ck_assert_int_eq(sqlite3_open(scratch("s.db"), &reader), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM stream", NULL, NULL, NULL), SQLITE_OK);
    struct store *s = store_opened("s.db");
    ck_assert_msg(store_stream_put(s, 1, "p2", PHASE_FREE, &st, &e) == OK, "%s", e.text);
    store_close(s);
    sqlite3_close(reader);
    stream_free(&st);
}
END_TEST

/* Killed at twenty random moments: what was reported as stored is there, in every bit. */
START_TEST(a_killed_writer_keeps_every_stream_it_had_put)
{
    int64_t run = 0;
    int put = 0, next = 0;
    srand(20);
    for (int round = 0; round < 20; round++) {
        int pipes[2], one;
        ck_assert_int_eq(pipe(pipes), 0);
        pid_t child = fork();
        if (!child) {
            struct store *s = store_opened("s.db");
            struct err e = {0};
            run = store_run_of(s, &test_key, 0);
            for (int i = next;; i++) {
                char name[16];
                struct stream st = stream_made(i % 50, i % 50, 1, (unsigned)i);
                snprintf(name, sizeof name, "p%d", i);
                if (store_stream_put(s, run, name, PHASE_FREE, &st, &e) || write(pipes[1], &i, sizeof i) < 0)
                    _exit(1);
                stream_free(&st);
            }
        }
        close(pipes[1]);
        usleep(5000 + (unsigned)rand() % 60000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        while (read(pipes[0], &one, sizeof one) == sizeof one) {
            ck_assert_int_eq(one, next);
            next++, put++;
        }
        close(pipes[0]);
        struct store *s = store_opened("s.db");
        run = store_run_of(s, &test_key, 0);
        ck_assert_int_eq(run, 1); /* the run goes on where it died */
        for (int i = 0; i < next; i++) {
            char name[16];
            int found;
            struct stream st, want = stream_made(i % 50, i % 50, 1, (unsigned)i);
            snprintf(name, sizeof name, "p%d", i);
            ck_assert_int_eq(store_stream_get(s, run, name, PHASE_FREE, &st, &found, NULL), OK);
            ck_assert_msg(found, "round %d: %s is gone", round, name);
            check_same(&want, &st);
            stream_free(&st);
            stream_free(&want);
        }
        ck_assert_str_eq(store_complaints(s), "");
        store_close(s);
    }
    ck_assert_int_gt(put, 20);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store runs");
    TCase *t = tcase_create("runs");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_test(t, only_the_same_key_continues_an_unfinished_run);
    tcase_add_test(t, a_run_belongs_to_the_process_that_works_on_it);
    tcase_add_test(t, counters_travel_with_their_answer_and_are_sealed_with_it);
    tcase_add_test(t, answers_put_together_are_stored_together_or_not_at_all);
    tcase_add_test(t, streams_of_every_shape_come_back_bit_for_bit);
    tcase_add_test(t, a_stream_or_a_verdict_needs_its_run);
    tcase_add_test(t, a_verdict_comes_back_with_the_inputs_of_its_decision);
    tcase_add_test(t, runs_are_listed_by_model_battery_verdict_and_day);
    tcase_add_test(t, a_battery_comes_back_as_it_was);
    tcase_add_test(t, writers_at_once_all_succeed);
    tcase_add_test(t, a_reader_does_not_stop_a_writer);
    tcase_add_test(t, a_killed_writer_keeps_every_stream_it_had_put);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
