/* The store keeps what it was given, and any damage is named. */
#include "goldens/exchange.h"
#include "goldens/store.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];

static const char *in_tmp(const char *name)
{
    static char path[4][400];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[0], "%s/%s", folder, name);
    return path[turn];
}

static void put_file(const char *path, const void *data, size_t bytes)
{
    remove(path);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
    fclose(f);
}

/* --- store --- */

static struct store *fresh(const char *name)
{
    struct store *s;
    struct err e = {0};
    char path[420];
    const char *tails[] = {"", "-wal", "-shm"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", in_tmp(name), tails[i]);
        remove(path);
    }
    ck_assert_msg(store_open(in_tmp(name), &s, &e) == OK, "%s", e.text);
    return s;
}

static int64_t put_shipped(struct store *s, char sha256[SHA256_HEX_SIZE])
{
    struct golden *g;
    struct err e = {0};
    int64_t id, again;
    ck_assert_int_eq(golden_read("goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst", &g, &e), OK);
    ck_assert_msg(store_golden_put(s, g, "active", &id, &e) == OK, "%s", e.text);
    ck_assert_int_eq(store_golden_put(s, g, "active", &again, &e), OK);
    ck_assert_int_eq(id, again); /* the same content is the same golden */
    golden_free(g);
    ck_assert_msg(store_golden_get(s, "tiny-dense-nvfp4", "smoke", NULL, &g, sha256, &e) == OK, "%s", e.text);
    ck_assert_int_eq(g->prompts, 6);
    golden_free(g);
    ck_assert_int_eq(store_golden_verify(s, sha256, &e), OK);
    return id;
}

/* Complaints of store_check, joined. */
static const char *complaints(struct store *s)
{
    static char all[4000];
    json_t *report, *one;
    size_t i;
    struct err e = {0};
    all[0] = 0;
    ck_assert_msg(store_check(s, &report, &e) == OK, "%s", e.text);
    json_array_foreach(json_object_get(report, "bad"), i, one)
    {
        strncat(all, json_string_value(one), sizeof all - strlen(all) - 2);
        strcat(all, "\n");
    }
    json_decref(report);
    return all;
}

static int raw_exec(const char *name, const char *sql)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(in_tmp(name), &db), SQLITE_OK);
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_close(db);
    return rc;
}

#define UNSEAL                                                                                                         \
    "DROP TRIGGER golden_kept; DROP TRIGGER golden_sealed; DROP TRIGGER ledger_kept; DROP TRIGGER ledger_sealed;"

START_TEST(any_change_of_what_was_sealed_is_named)
{
    static const char *const damage[][2] = {
        {"UPDATE golden SET text = (SELECT text FROM golden WHERE arm = 'other')", "was edited"},
        {"UPDATE golden SET text = zeroblob(length(text))", "damaged"},
        {"UPDATE golden SET sha256 = replace(sha256, substr(sha256, 1, 1), 'z')", "was edited"},
        {"UPDATE ledger SET what = '{}' WHERE seq = 1", "ledger row 1"},
        {"UPDATE ledger SET at = 'x' WHERE seq = 1", "ledger row 1"},
        {"DELETE FROM ledger", "has no row in the ledger"},
        {"PRAGMA foreign_keys = OFF; INSERT INTO stream VALUES (99, 'p', 0, 'x', 1, x'00')", "points to nothing"},
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        char sha256[SHA256_HEX_SIZE];
        struct store *s = fresh("damage.db");
        put_shipped(s, sha256);
        ck_assert_str_eq(complaints(s), "");
        ck_assert_int_eq(raw_exec("damage.db", UNSEAL), SQLITE_OK);
        if (strstr(damage[i][0], "other"))
            ck_assert_int_eq(
                raw_exec(
                    "damage.db",
                    "INSERT INTO golden (sha256, model, battery, arm, status, bytes, text, created)"
                    " SELECT 'y', model, battery, 'other', status, bytes, substr(text, 1, 1000), created FROM golden"),
                SQLITE_OK);
        ck_assert_int_eq(raw_exec("damage.db", damage[i][0]), SQLITE_OK);
        const char *found = complaints(s);
        ck_assert_msg(strstr(found, damage[i][1]) || (i == 0 && strstr(found, "damaged")), "%s gives: %s", damage[i][0],
                      found);
        store_close(s);
    }
}
END_TEST

START_TEST(one_flipped_byte_anywhere_in_a_golden_is_found)
{
    for (int at = 1; at < 8000; at += 977) {
        char sha256[SHA256_HEX_SIZE], sql[300];
        struct err e = {0};
        struct store *s = fresh("flip.db");
        put_shipped(s, sha256);
        snprintf(sql, sizeof sql,
                 UNSEAL "UPDATE golden SET text = CAST(substr(text, 1, %d) || CASE WHEN substr(text, %d, 1) = x'55' "
                        "THEN x'56' ELSE x'55' END || substr(text, %d) AS BLOB)",
                 at - 1, at, at + 1);
        ck_assert_int_eq(raw_exec("flip.db", sql), SQLITE_OK);
        ck_assert_int_eq(store_golden_verify(s, sha256, &e), E_STORE);
        ck_assert_msg(strstr(e.text, sha256) || strstr(e.text, "golden"), "%s", e.text);
        store_close(s);
    }
}
END_TEST

START_TEST(triggers_refuse_to_change_or_remove)
{
    char sha256[SHA256_HEX_SIZE];
    struct store *s = fresh("sealed.db");
    put_shipped(s, sha256);
    ck_assert_int_ne(raw_exec("sealed.db", "UPDATE golden SET arm = 'x'"), SQLITE_OK);
    ck_assert_int_ne(raw_exec("sealed.db", "DELETE FROM golden"), SQLITE_OK);
    ck_assert_int_ne(raw_exec("sealed.db", "UPDATE ledger SET kind = 'x'"), SQLITE_OK);
    ck_assert_int_ne(raw_exec("sealed.db", "DELETE FROM ledger"), SQLITE_OK);
    store_close(s);
}
END_TEST

START_TEST(a_newer_store_and_other_files_are_refused_untouched)
{
    struct err e = {0};
    struct store *s = fresh("newer.db");
    void *before, *after;
    size_t n, m;
    store_close(s);
    ck_assert_int_eq(raw_exec("newer.db", "PRAGMA user_version = 99"), SQLITE_OK);
    ck_assert_int_eq(packed_read(in_tmp("newer.db"), 1 << 30, &before, &n, &e), OK);
    ck_assert_int_eq(store_open(in_tmp("newer.db"), &s, &e), E_STORE);
    ck_assert_msg(strstr(e.text, "newer assay") != NULL, "%s", e.text);
    e = (struct err){0};
    ck_assert_int_eq(packed_read(in_tmp("newer.db"), 1 << 30, &after, &m, &e), OK);
    ck_assert_uint_eq(n, m);
    ck_assert_int_eq(memcmp(before, after, n), 0);
    put_file(in_tmp("text.db"), "this is no database, it is a text that is long enough to look at", 64);
    ck_assert_int_eq(store_open(in_tmp("text.db"), &s, &e), E_STORE);
    e = (struct err){0};
    ck_assert_int_eq(store_open("/proc/assay/none.db", &s, &e), E_STORE);
    free(before);
    free(after);
}
END_TEST

static struct stream sample(int hashed)
{
    struct stream st = {.n = 3, .finish = FINISH_STOP, .ids = malloc(12)};
    struct err e = {0};
    memcpy(st.ids, (int32_t[]){7, 8, 0}, 12);
    ck_assert_int_eq(view_alloc(&st.view, 3, 2, hashed, &e), OK);
    for (int i = 0; i < 6; i++)
        st.view.top_ids[i] = i, st.view.top_values[i] = i == 4 ? NAN : i == 5 ? -INFINITY : 1.0f / (float)(i + 1);
    if (hashed)
        memset(st.view.row_sha256, 0xab, 96);
    return st;
}

static int64_t open_run(struct store *s, int again)
{
    static const struct run_key key = {"m", "mh", "b", "bh", "", "arm", "c", NULL};
    int64_t run;
    struct err e = {0};
    ck_assert_msg(store_run_open(s, &key, again, &run, &e) == OK, "%s", e.text);
    return run;
}

START_TEST(streams_come_back_bit_for_bit_and_runs_resume)
{
    struct store *s = fresh("runs.db");
    struct err e = {0};
    int found;
    int64_t run = open_run(s, 0);
    for (int hashed = 0; hashed < 2; hashed++) {
        struct stream in = sample(hashed), out;
        ck_assert_int_eq(store_stream_put(s, run, "p", PHASE_FREE, &in, &e), OK);
        ck_assert_int_eq(store_stream_get(s, run, "p", PHASE_FREE, &out, &found, &e), OK);
        ck_assert_int_eq(found, 1);
        ck_assert_int_eq(out.n, 3);
        ck_assert_int_eq(out.finish, FINISH_STOP);
        ck_assert_mem_eq(out.ids, in.ids, 12);
        ck_assert_mem_eq(out.view.top_values, in.view.top_values, 24);
        ck_assert_int_eq(out.view.row_sha256 != NULL, hashed);
        stream_free(&in);
        stream_free(&out);
    }
    ck_assert_int_eq(open_run(s, 0), run); /* unfinished: goes on */
    ck_assert_int_ne(open_run(s, 1), run);
    json_t *summary = json_pack("{s:i}", "x", 1), *o;
    struct verdict_row row = {.prompt = "p", .verdict = V_DIVERGENT, .root = 1, .gap_nats = NAN, .gap_bound_nats = 2};
    ck_assert_int_eq(store_run_finish(s, run, &row, 1, RV_FAIL, summary, &e), OK);
    ck_assert_int_eq(store_run_get(s, run, &o, &e), OK);
    ck_assert_str_eq(json_string_value(json_object_get(o, "verdict")), "FAIL");
    ck_assert(json_is_null(json_object_get(json_array_get(json_object_get(o, "positions"), 0), "gap_nats")));
    json_decref(o);
    json_decref(summary);
    store_close(s);
}
END_TEST

START_TEST(a_killed_writer_loses_nothing_that_was_stored)
{
    srand(7);
    for (int round = 0; round < 12; round++) {
        store_close(fresh("kill.db"));
        int pipes[2];
        ck_assert_int_eq(pipe(pipes), 0);
        pid_t child = fork();
        if (!child) {
            struct store *s;
            struct err e = {0};
            struct stream st = sample(1);
            store_open(in_tmp("kill.db"), &s, &e);
            int64_t run = open_run(s, 0);
            for (int i = 0;; i++) {
                char name[16];
                snprintf(name, sizeof name, "p%d", i);
                if (store_stream_put(s, run, name, PHASE_FREE, &st, &e) || write(pipes[1], &i, sizeof i) < 0)
                    _exit(1);
            }
        }
        close(pipes[1]);
        usleep(20000 + (unsigned)rand() % 40000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        int last = -1, one;
        while (read(pipes[0], &one, sizeof one) == sizeof one)
            last = one;
        close(pipes[0]);
        struct store *s;
        struct err e = {0};
        ck_assert_msg(store_open(in_tmp("kill.db"), &s, &e) == OK, "%s", e.text);
        int64_t run = last < 0 ? 0 : open_run(s, 0);
        for (int i = 0; i <= last; i++) {
            char name[16];
            struct stream st;
            int found;
            snprintf(name, sizeof name, "p%d", i);
            ck_assert_int_eq(store_stream_get(s, run, name, PHASE_FREE, &st, &found, &e), OK);
            ck_assert_int_eq(found, 1);
            stream_free(&st);
        }
        ck_assert_str_eq(complaints(s), "");
        store_close(s);
    }
}
END_TEST

START_TEST(a_full_disk_is_an_error_and_keeps_what_was_stored)
{
    char sha256[SHA256_HEX_SIZE];
    struct store *s = fresh("full.db");
    put_shipped(s, sha256);
    store_close(s);
    pid_t child = fork();
    if (!child) {
        struct rlimit small = {128 << 10, 128 << 10};
        struct err e = {0};
        struct golden *g;
        int64_t id;
        signal(SIGXFSZ, SIG_IGN);
        golden_read("goldens/tiny-moe-nvfp4.strict.reduce16.jsonl.zst", &g, &e);
        setrlimit(RLIMIT_FSIZE, &small);
        if (store_open(in_tmp("full.db"), &s, &e))
            _exit(e.code == E_STORE ? 0 : 2);
        _exit(store_golden_put(s, g, "active", &id, &e) == E_STORE ? 0 : 3);
    }
    int status;
    waitpid(child, &status, 0);
    ck_assert_int_eq(status, 0);
    struct err e = {0};
    ck_assert_msg(store_open(in_tmp("full.db"), &s, &e) == OK, "%s", e.text);
    ck_assert_str_eq(complaints(s), "");
    ck_assert_int_eq(store_golden_verify(s, sha256, &e), OK);
    store_close(s);
}
END_TEST

int main(void)
{
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(folder, sizeof folder, "%s", tmp ? tmp : "build");
    Suite *s = suite_create("store");
    TCase *t = tcase_create("store");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, any_change_of_what_was_sealed_is_named);
    tcase_add_test(t, one_flipped_byte_anywhere_in_a_golden_is_found);
    tcase_add_test(t, triggers_refuse_to_change_or_remove);
    tcase_add_test(t, a_newer_store_and_other_files_are_refused_untouched);
    tcase_add_test(t, streams_come_back_bit_for_bit_and_runs_resume);
    tcase_add_test(t, a_killed_writer_loses_nothing_that_was_stored);
    tcase_add_test(t, a_full_disk_is_an_error_and_keeps_what_was_stored);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
