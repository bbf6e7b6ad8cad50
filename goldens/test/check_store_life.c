/* A store among others: older and newer ones, other programs' files, several writers, kills, full and read-only disks.
 */
#include "goldens/exchange.h"
#include "goldens/store.h"
#include "harness/test/help_folder.h"

#include <check.h>
#include <grp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WITH_ROWS "goldens/tiny-dense-nvfp4.strict.eager.jsonl.zst"

static struct store *open_store(const char *name)
{
    struct store *s;
    struct err e = {0};
    ck_assert_msg(store_open(scratch(name), &s, &e) == OK, "%s", e.text);
    return s;
}

static void sql(const char *name, const char *text)
{
    sqlite3 *db;
    char *why = NULL;
    ck_assert_int_eq(sqlite3_open(scratch(name), &db), SQLITE_OK);
    ck_assert_msg(sqlite3_exec(db, text, NULL, NULL, &why) == SQLITE_OK, "%s", why);
    sqlite3_close(db);
}

static int try_sql(const char *name, const char *text)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(scratch(name), &db), SQLITE_OK);
    int rc = sqlite3_exec(db, text, NULL, NULL, NULL);
    sqlite3_close(db);
    return rc;
}

static int number(const char *name, const char *text)
{
    sqlite3 *db;
    sqlite3_stmt *q;
    ck_assert_int_eq(sqlite3_open(scratch(name), &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, text, -1, &q, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(q), SQLITE_ROW);
    int n = sqlite3_column_int(q, 0);
    sqlite3_finalize(q);
    sqlite3_close(db);
    return n;
}

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

static int64_t put_golden(struct store *s, const char *path, int with_rows)
{
    struct golden *g;
    struct err e = {0};
    int64_t id;
    ck_assert_msg(golden_read(path, &g, &e) == OK, "%s", e.text);
    for (int i = 0; !with_rows && i < g->prompts; i++) {
        free(g->prompt[i].decode.row_sha256);
        g->prompt[i].decode.row_sha256 = NULL;
    }
    ck_assert_msg(store_golden_put(s, g, "active", &id, &e) == OK, "%s", e.text);
    golden_free(g);
    return id;
}

#define UNSEAL "DROP TRIGGER golden_kept; DROP TRIGGER golden_sealed; "

START_TEST(what_stands_beside_the_text_of_a_golden_is_sealed_too)
{
    static const char *const damage[][2] = {
        {"UPDATE golden SET row_hashes = CAST(x'ff' || substr(row_hashes, 2) AS BLOB)", "row hashes"},
        {"UPDATE golden SET row_hashes = NULL", "row hashes"},
        {"UPDATE golden SET arm = 'graph'", "its row says arm \"graph\", its text says \"eager\""},
        {"UPDATE golden SET model = 'another'", "its row says model"},
        {"UPDATE golden SET status = 'negative'", "its status is \"negative\", the ledger says \"active\""},
        {"DELETE FROM golden", "which is not in the store"},
        {"SELECT 1", "the trigger golden_sealed is gone"},
    };
    store_close(open_store("sound.db"));
    struct store *s = open_store("sound.db");
    put_golden(s, WITH_ROWS, 1);
    ck_assert_str_eq(complaints(s), "");
    store_close(s);
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        void *data;
        size_t bytes;
        struct err e = {0};
        char text[400];
        ck_assert_int_eq(packed_read(scratch("sound.db"), 1 << 30, &data, &bytes, &e), OK);
        scratch_write("damaged.db", data, bytes);
        free(data);
        snprintf(text, sizeof text, UNSEAL "%s", damage[i][0]);
        sql("damaged.db", text);
        s = open_store("damaged.db");
        ck_assert_msg(strstr(complaints(s), damage[i][1]) != NULL, "%s gives: %s", damage[i][0], complaints(s));
        store_close(s);
    }
}
END_TEST

START_TEST(a_golden_of_another_name_is_never_handed_out)
{
    struct golden *g = NULL;
    struct err e = {0};
    char sha256[SHA256_HEX_SIZE];
    struct store *s = open_store("renamed.db");
    put_golden(s, WITH_ROWS, 0);
    sql("renamed.db", UNSEAL "UPDATE golden SET model = 'tiny-dense-bf16'");
    ck_assert_int_eq(store_golden_get(s, "tiny-dense-bf16", "strict", NULL, &g, sha256, &e), E_STORE);
    ck_assert_msg(strstr(e.text, "tiny-dense-nvfp4") != NULL, "%s", e.text);
    store_close(s);
}
END_TEST

START_TEST(row_hashes_may_come_later_and_stay)
{
    struct golden *g;
    struct err e = {0};
    char sha256[SHA256_HEX_SIZE], status[16];
    struct store *s = open_store("later.db");
    int64_t id = put_golden(s, WITH_ROWS, 0);
    ck_assert_int_eq(put_golden(s, WITH_ROWS, 1), id);
    ck_assert_int_eq(put_golden(s, WITH_ROWS, 0), id); /* and are not lost again */
    ck_assert_int_eq(store_golden_get(s, "tiny-dense-nvfp4", "strict", "eager", &g, sha256, &e), OK);
    ck_assert_ptr_nonnull(g->prompt[31].decode.row_sha256);
    ck_assert_int_eq(store_golden_put(s, g, "negative", &id, &e), OK);
    ck_assert_int_eq(store_golden_status(s, id, status, &e), OK);
    ck_assert_str_eq(status, "active");
    golden_free(g);
    ck_assert_str_eq(complaints(s), "");
    ck_assert_int_eq(store_golden_verify(s, sha256, &e), OK);
    store_close(s);
}
END_TEST

START_TEST(a_database_of_another_program_is_left_alone)
{
    static const char *const others[] = {
        "CREATE TABLE bookmarks (x)",
        "CREATE TABLE bookmarks (x); PRAGMA user_version = 1",
        "CREATE TABLE golden (x); PRAGMA user_version = 2",
        "PRAGMA application_id = 5; CREATE TABLE golden (x); CREATE TABLE ledger (x); CREATE TABLE stream (x);"
        " PRAGMA user_version = 1",
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct store *s;
        struct err e = {0};
        void *before, *after;
        size_t n, m;
        remove(scratch("other.db"));
        sql("other.db", others[i]);
        ck_assert_int_eq(packed_read(scratch("other.db"), 1 << 20, &before, &n, &e), OK);
        ck_assert_int_eq(store_open(scratch("other.db"), &s, &e), E_STORE);
        ck_assert_msg(strstr(e.text, "another program") != NULL, "%zu: %s", i, e.text);
        e = (struct err){0};
        ck_assert_int_eq(packed_read(scratch("other.db"), 1 << 20, &after, &m, &e), OK);
        ck_assert_uint_eq(n, m);
        ck_assert_mem_eq(before, after, n);
        free(before);
        free(after);
    }
}
END_TEST

/* A store whose last writer died keeps its log beside it; a version that cannot read it must not fold it in. */
START_TEST(a_newer_store_keeps_its_log)
{
    struct store *s;
    struct err e = {0};
    sqlite3 *db;
    struct stat before, after;
    store_close(open_store("newer.db"));
    pid_t child = fork();
    if (!child) {
        sqlite3_open(scratch("newer.db"), &db);
        sqlite3_exec(db, "PRAGMA user_version = 99; CREATE TABLE tomorrow (x)", NULL, NULL, NULL);
        kill(getpid(), SIGKILL);
    }
    waitpid(child, NULL, 0);
    ck_assert_int_eq(stat(scratch("newer.db-wal"), &before), 0);
    ck_assert_int_gt(before.st_size, 0);
    ck_assert_int_eq(store_open(scratch("newer.db"), &s, &e), E_STORE);
    ck_assert_msg(strstr(e.text, "newer assay") != NULL, "%s", e.text);
    ck_assert_int_eq(stat(scratch("newer.db-wal"), &after), 0);
    ck_assert_int_eq(before.st_size, after.st_size);
}
END_TEST

START_TEST(a_version_1_store_is_lifted_with_all_it_holds)
{
    void *schema;
    size_t n;
    struct err e = {0};
    struct golden *g;
    char sha256[SHA256_HEX_SIZE];
    ck_assert_int_eq(packed_read("goldens/test/data/schema_1.sql", 1 << 20, &schema, &n, &e), OK);
    sql("old.db", schema);
    sql("old.db", "PRAGMA user_version = 1; INSERT INTO run (started, model, model_sha256, battery, battery_sha256,"
                  " golden_sha256, arm, commit_id) VALUES ('a', 'm', '', 'b', '', '', 'x', '')");
    free(schema);
    struct store *s = open_store("new.db");
    put_golden(s, WITH_ROWS, 1);
    store_close(s);
    char attach[700];
    snprintf(attach, sizeof attach, "ATTACH '%s' AS new; INSERT INTO golden SELECT * FROM new.golden;",
             scratch("new.db"));
    sql("old.db", attach);
    s = open_store("old.db");
    store_close(s);
    ck_assert_int_eq(number("old.db", "PRAGMA user_version"), 4);
    ck_assert_int_eq(number("old.db", "SELECT count(*) FROM ledger WHERE kind = 'rows'"), 1);
    ck_assert_int_eq(number("old.db", "SELECT count(*) FROM run"), 1);
    s = open_store("old.db");
    ck_assert_int_eq(store_golden_get(s, "tiny-dense-nvfp4", "strict", NULL, &g, sha256, &e), OK);
    golden_free(g);
    const char *found = complaints(s);
    ck_assert_ptr_nonnull(strstr(found, "has no row in the ledger")); /* true: it was never entered */
    ck_assert_ptr_null(strstr(found, "trigger"));
    store_close(s);
    ck_assert_int_ne(try_sql("old.db", "UPDATE golden SET arm = 'x'"), SQLITE_OK);
    ck_assert_int_ne(try_sql("old.db", "UPDATE golden SET row_hashes = NULL"), SQLITE_OK);
    /* Both ways lead to one schema. */
    ck_assert_int_eq(number("old.db", "SELECT count(*) FROM sqlite_master"),
                     number("new.db", "SELECT count(*) FROM sqlite_master"));
}
END_TEST

static int status_of(pid_t child)
{
    int status;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(several_processes_may_be_the_first)
{
    pid_t child[6];
    for (int i = 0; i < 6; i++)
        if (!(child[i] = fork())) {
            struct store *s;
            struct err e = {0};
            int rc = store_open(scratch("first.db"), &s, &e) || store_import_shipped(s, ".", NULL, NULL, &e);
            if (rc)
                fprintf(stderr, "%s\n", e.text);
            _exit(rc);
        }
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(status_of(child[i]), 0);
    struct store *s = open_store("first.db");
    ck_assert_str_eq(complaints(s), "");
    store_close(s);
    ck_assert_int_ge(number("first.db", "SELECT count(*) FROM golden"), 25);
    ck_assert_int_eq(number("first.db", "SELECT count(*) - count(DISTINCT golden) FROM source"), 0);
}
END_TEST

START_TEST(a_killed_import_goes_on_and_changes_nothing)
{
    for (int round = 0; round < 4; round++) {
        pid_t child = fork();
        if (!child) {
            struct store *s;
            struct err e = {0};
            _exit(store_open(scratch("killed.db"), &s, &e) || store_import_shipped(s, ".", NULL, NULL, &e));
        }
        usleep(60000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct store *s = open_store("killed.db");
        ck_assert_str_eq(complaints(s), "");
        store_close(s);
    }
    struct store *s = open_store("killed.db");
    struct err e = {0};
    ck_assert_msg(store_import_shipped(s, ".", NULL, NULL, &e) == OK, "%s", e.text);
    ck_assert_str_eq(complaints(s), "");
    store_close(s);
    ck_assert_int_ge(number("killed.db", "SELECT count(*) FROM golden"), 25);
}
END_TEST

START_TEST(a_razor_that_changed_beside_its_battery_is_the_one_in_force)
{
    static const char battery[] = "{\"battery\":\"b\",\"max_new_tokens\":4,\"stop_at_eos\":true,\"prompts\":"
                                  "[{\"name\":\"p\",\"ids\":[1]}]}";
    struct store *s = open_store("razor.db");
    mkdir(scratch("batteries"), 0777);
    scratch_text("batteries/b.json", battery);
    for (int ulp = 2; ulp < 5; ulp++) {
        char side[80];
        struct battery *b;
        struct err e = {0};
        snprintf(side, sizeof side, "{\"b\":{\"ulp\":%d,\"cap_nats\":0.5}}", ulp);
        scratch_text("batteries/razor.json", side);
        ck_assert_msg(store_import_shipped(s, scratch("."), NULL, NULL, &e) == OK, "%s", e.text);
        ck_assert_int_eq(store_battery_get(s, "b", &b, &e), OK);
        ck_assert(b->razor_ulp == ulp);
        battery_free(b);
    }
    store_close(s);
}
END_TEST

/* --- disks --- */

START_TEST(a_full_disk_loses_nothing_and_says_so)
{
    struct store *s;
    struct err e = {0};
    char sha256[SHA256_HEX_SIZE];
    struct golden *g;
    mkdir(scratch("disk"), 0777);
    if (mount("none", scratch("disk"), "tmpfs", 0, "size=512k")) {
        puts("NO_EVIDENCE: a small disk cannot be mounted here; check_store.c has a limit on file sizes instead");
        return;
    }
    int rc = store_open(scratch("disk/s.db"), &s, &e);
    if (!rc) {
        put_golden(s, "goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst", 0);
        rc = store_import_shipped(s, ".", NULL, NULL, &e);
    }
    int kept = store_golden_get(s, "tiny-dense-nvfp4", "smoke", NULL, &g, sha256, &(struct err){0});
    char found[400];
    snprintf(found, sizeof found, "%s", complaints(s));
    store_close(s);
    umount2(scratch("disk"), MNT_DETACH);
    ck_assert_int_eq(rc, E_STORE);
    ck_assert_msg(strstr(e.text, "full") != NULL, "%s", e.text);
    ck_assert_int_eq(kept, OK);
    golden_free(g);
    ck_assert_str_eq(found, "");
}
END_TEST

static int write_unprivileged(const char *name)
{
    pid_t child = fork();
    if (!child) {
        struct store *s = NULL;
        struct err e = {0};
        struct golden *g;
        int64_t id;
        if (golden_read("goldens/tiny-dense-nvfp4.smoke.eager.jsonl.zst", &g, &e) ||
            (!geteuid() && (setgroups(0, NULL) || setgid(65534) || setuid(65534))))
            _exit(99);
        int rc = store_open(scratch(name), &s, &e);
        if (!rc)
            rc = store_golden_put(s, g, "active", &id, &e);
        if (rc == E_STORE && !strstr(e.text, name))
            _exit(98);
        _exit(rc);
    }
    return status_of(child);
}

START_TEST(a_read_only_store_is_an_error_not_a_loss)
{
    struct store *s = open_store("locked.db");
    put_golden(s, WITH_ROWS, 1);
    store_close(s);
    chmod(scratch("."), 0777);
    chmod(scratch("locked.db"), 0444);
    ck_assert_int_eq(write_unprivileged("locked.db"), E_STORE);
    mkdir(scratch("shut"), 0555);
    ck_assert_int_eq(write_unprivileged("shut/none.db"), E_STORE);
    s = open_store("locked.db");
    ck_assert_str_eq(complaints(s), "");
    store_close(s);
    ck_assert_int_eq(number("locked.db", "SELECT count(*) FROM golden"), 1);
}
END_TEST

START_TEST(a_store_needs_a_name)
{
    struct store *s;
    struct err e = {0};
    ck_assert_int_eq(store_open("", &s, &e), E_USAGE);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store_life");
    TCase *t = tcase_create("store_life");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_test(t, what_stands_beside_the_text_of_a_golden_is_sealed_too);
    tcase_add_test(t, a_golden_of_another_name_is_never_handed_out);
    tcase_add_test(t, row_hashes_may_come_later_and_stay);
    tcase_add_test(t, a_database_of_another_program_is_left_alone);
    tcase_add_test(t, a_newer_store_keeps_its_log);
    tcase_add_test(t, a_version_1_store_is_lifted_with_all_it_holds);
    tcase_add_test(t, several_processes_may_be_the_first);
    tcase_add_test(t, a_killed_import_goes_on_and_changes_nothing);
    tcase_add_test(t, a_razor_that_changed_beside_its_battery_is_the_one_in_force);
    tcase_add_test(t, a_full_disk_loses_nothing_and_says_so);
    tcase_add_test(t, a_read_only_store_is_an_error_not_a_loss);
    tcase_add_test(t, a_store_needs_a_name);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
