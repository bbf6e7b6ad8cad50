/* Every exit status of `assay run`, provoked through the program itself */
#include "goldens/exchange.h"
#include "harness/base/json.h"

#include <check.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256], store[300];
static const char *program;

/* Runs `assay ARGS` with this suite's store; what it printed lies in folder/out afterwards. */
static int assay(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int assay(const char *fmt, ...)
{
    char args[1024], command[2048];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(args, sizeof args, fmt, ap);
    va_end(ap);
    snprintf(command, sizeof command, "%s %s --store %s >%s/out 2>%s/err </dev/null", program, args, store, folder,
             folder);
    int status = system(command);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *fmt, ...)
{
    char command[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    ck_assert_msg(system(command) == 0, "%s", command);
}

/* Does folder/NAME hold the words? */
static int says(const char *name, const char *words)
{
    char path[300], text[16384] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = 0;
    fclose(f);
    return strstr(text, words) != NULL;
}

START_TEST(equal_is_0)
{
    ck_assert_int_eq(assay("run --engine native --model tiny-dense-int4g128 --battery smoke --strict"), 0);
    ck_assert(says("out", "verdict   PASS: every position equal"));
    ck_assert(says("out", "counter   dense_gemms=2448 (expected 2448)"));
}
END_TEST

START_TEST(benign_is_0_and_strict_makes_it_1)
{
    const char *run = "run --engine replay:goldens/tiny-dense-nvfp4.strict.triton-attention.jsonl.zst "
                      "--model tiny-dense-nvfp4 --battery strict";
    ck_assert_int_eq(assay("%s", run), 0);
    ck_assert(says("out", "verdict   PASS_BY_RAZOR"));
    ck_assert_int_eq(assay("%s --strict", run), 1);
}
END_TEST

START_TEST(a_deliberately_wrong_kernel_is_1)
{
    ck_assert_int_eq(assay("run --engine native mutant=row_shifted_stride --model tiny-dense-nvfp4 --battery smoke"),
                     1);
    ck_assert(says("out", "verdict   FAIL"));
    ck_assert(says("out", "DIVERGENT"));
}
END_TEST

START_TEST(other_weights_are_1_through_replay)
{
    ck_assert_int_eq(assay("run --engine replay:goldens/tiny-dense-bf16.smoke.eager.jsonl.zst --model tiny-dense-nvfp4 "
                           "--battery smoke"),
                     1);
}
END_TEST

START_TEST(a_record_that_was_fed_other_ids_is_tokenisation_and_1)
{
    shell("printf '{\"prompt\":\"p00\",\"ids\":[1],\"prompt_ids\":[533,1642,7]}\\n' >%s/fed.jsonl", folder);
    ck_assert_int_eq(assay("run --engine replay:%s/fed.jsonl --model tiny-dense-nvfp4 --battery smoke", folder), 1);
    ck_assert(says("out", "smoke: p00 token 2: TOKENISATION: got 7"));
}
END_TEST

START_TEST(wrong_usage_is_2)
{
    static const char *const wrong[] = {"run",
                                        "run --engine native --model tiny-dense-nvfp4",
                                        "run --engine nativ --model tiny-dense-nvfp4 --battery smoke",
                                        "run --engine native route=sideways --model tiny-dense-nvfp4 --battery smoke",
                                        "run --engine native word --model tiny-dense-nvfp4 --battery smoke",
                                        "run --engine replay: --model tiny-dense-nvfp4 --battery smoke",
                                        "run --nonsense",
                                        "run --threads many --engine native --model m --battery b",
                                        "show seven",
                                        "show 1 2",
                                        "diff 1",
                                        "explain 1",
                                        "explain 1 p00:x",
                                        "list --verdict GOOD",
                                        "demo --battery chat"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(assay("%s", wrong[i]) == 2, "%s", wrong[i]);
}
END_TEST

START_TEST(an_unreadable_model_is_3)
{
    shell("cp -r batteries/models/tiny-dense-nvfp4 %s/ && chmod -R u+w %s/tiny-dense-nvfp4 && "
          "truncate -s 5000 %s/tiny-dense-nvfp4/model.safetensors",
          folder, folder, folder);
    ck_assert_int_eq(assay("run --engine native --model %s/tiny-dense-nvfp4 --battery smoke", folder), 3);
    ck_assert(says("err", "model.safetensors"));
}
END_TEST

START_TEST(a_record_that_is_no_json_is_3_with_its_line)
{
    shell("printf '{\"prompt\":\"p00\",\"ids\":[1]}\\n{\"prompt\":\"p01\",\"ids\":[}\\n' >%s/bad.jsonl", folder);
    ck_assert_int_eq(assay("run --engine replay:%s/bad.jsonl --model tiny-dense-nvfp4 --battery smoke", folder), 3);
    ck_assert(says("err", "bad.jsonl:2: not JSON"));
}
END_TEST

START_TEST(what_is_missing_is_4_with_its_name)
{
    ck_assert_int_eq(assay("run --engine native --model tiny-dense-nvfp4 --battery smoke --golden nightly"), 4);
    ck_assert(says("err", "NO_EVIDENCE"));
    ck_assert_int_eq(assay("run --engine native --model no-such-model --battery smoke"), 4);
    ck_assert_int_eq(assay("run --engine native --model tiny-dense-nvfp4 --battery no-such-battery"), 4);
    ck_assert_int_eq(assay("run --engine replay:%s/no-such-file --model tiny-dense-nvfp4 --battery smoke", folder), 4);
    ck_assert_int_eq(assay("show 4000000"), 4);
    shell("printf '{\"prompt\":\"p00\",\"ids\":[273,1642]}\\n' >%s/one.jsonl", folder);
    ck_assert_int_eq(assay("run --engine replay:%s/one.jsonl --model tiny-dense-bf16 --battery smoke", folder), 1);
    ck_assert(says("out", "p00 token 2: LENGTH"));
    ck_assert(says("out", "no prompt \"p01\""));
    ck_assert_int_eq(assay("run --engine replay:goldens/tiny-moe-mxfp4.smoke.eager.jsonl.zst batch=7 "
                           "--model tiny-moe-mxfp4 --battery smoke"),
                     4);
    ck_assert(says("out", "no pass 7"));
}
END_TEST

START_TEST(other_weights_under_the_same_name_are_4)
{
    shell("mkdir -p %s/other && cp -r batteries/models/tiny-dense-mxfp4 %s/other/ && "
          "chmod -R u+w %s/other && echo >>%s/other/tiny-dense-mxfp4/config.json",
          folder, folder, folder, folder);
    ck_assert_int_eq(assay("run --engine native --model %s/other/tiny-dense-mxfp4 --battery smoke", folder), 4);
    ck_assert(says("out", "verdict   NO_EVIDENCE: config.json"));
}
END_TEST

static void edit_goldens(void)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(store, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    ck_assert_int_eq(
        sqlite3_exec(db, "DROP TRIGGER golden_sealed; UPDATE golden SET text = x'28b52ffd'", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(a_golden_that_changes_during_the_run_is_5)
{
    char pipe_path[300], kept[300];
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    snprintf(kept, sizeof kept, "%s", store);
    /* A store of its own: it will not be usable afterwards. */
    shell("cp %s %s/void.db && mkfifo %s", store, folder, pipe_path);
    snprintf(store, sizeof store, "%s/void.db", folder);
    pid_t child = fork();
    if (child == 0)
        _exit(assay("run --engine replay:%s --model tiny-dense-mxfp4 --battery smoke", pipe_path));
    /* Opening waits for the reader, and the reader comes when the golden has been loaded and verified. */
    int fd = open(pipe_path, O_WRONLY), status;
    ck_assert_int_ge(fd, 0);
    edit_goldens();
    void *text;
    size_t bytes, sent = 0;
    struct err e = {0};
    ck_assert_int_eq(packed_read("goldens/tiny-dense-mxfp4.smoke.eager.jsonl.zst", 1 << 30, &text, &bytes, &e), OK);
    for (ssize_t n; sent < bytes; sent += (size_t)n)
        ck_assert_int_gt(n = write(fd, (char *)text + sent, bytes - sent), 0);
    free(text);
    close(fd);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 5);
    ck_assert(says("out", "verdict   VOID: the golden changed during the run"));
    /* Found before a run, the same damage is an error. */
    ck_assert_int_eq(assay("run --engine native --model tiny-dense-mxfp4 --battery smoke"), 3);
    strcpy(store, kept);
}
END_TEST

START_TEST(the_json_object_has_every_documented_key)
{
    static const char *const keys[] = {"model",         "battery", "golden",       "arm",     "prompts",
                                       "prompts_exact", "tokens",  "tokens_equal", "roots",   "counters",
                                       "forced",        "logits",  "power",        "verdict", "exit"};
    char path[300];
    struct err e = {0};
    ck_assert_int_eq(assay("run --engine native route=grouped --model tiny-moe-int4g128 --battery smoke --json"), 0);
    snprintf(path, sizeof path, "%s/out", folder);
    json_t *o = json_read(path, &e);
    ck_assert_msg(o != NULL, "%s", e.text);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ck_assert_msg(json_object_get(o, keys[i]) != NULL, "%s", keys[i]);
    const json_t *c = json_object_get(json_object_get(o, "counters"), "grouped_gemms");
    ck_assert_int_eq(json_integer_value(json_object_get(c, "ran")), 1632);
    ck_assert_int_eq(json_integer_value(json_object_get(c, "expected")), 1632);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(o, "forced"), "positions")), 192);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(o, "logits"), "prefill_rows")), 96);
    json_decref(o);
}
END_TEST

START_TEST(a_run_can_be_shown_listed_explained_and_compared)
{
    const char *run = "run --engine %s --model tiny-dense-nvfp4 --battery strict";
    char engine[200];
    snprintf(engine, sizeof engine, "replay:goldens/tiny-dense-nvfp4.strict.reduce16.jsonl.zst");
    ck_assert_int_eq(assay(run, engine), 1);
    ck_assert_int_eq(assay("show"), 0);
    ck_assert(says("out", "strict: p29 token 1: DIVERGENT: got "));
    ck_assert_int_eq(assay("list --verdict FAIL --limit 1"), 0);
    ck_assert(says("out", "reduce16"));
    ck_assert_int_eq(assay("show --json"), 0);
    char path[300];
    struct err e = {0};
    snprintf(path, sizeof path, "%s/out", folder);
    json_t *o = json_read(path, &e);
    int number = (int)json_integer_value(json_object_get(o, "run"));
    json_decref(o);
    ck_assert_int_eq(assay("explain %d p29", number), 0);
    ck_assert(says("out", "token 1 of 64"));
    ck_assert(says("out", "0.078125 nat (5 ULP)"));
    ck_assert(says("out", "DIVERGENT"));
    ck_assert_int_eq(assay("explain %d p29:64", number), 2);
    ck_assert_int_eq(assay("explain %d nobody", number), 4);
    ck_assert_int_eq(assay("diff %d %d", number, number), 0);
    snprintf(engine, sizeof engine, "replay:goldens/tiny-dense-nvfp4.strict.runner-v1.jsonl.zst");
    ck_assert_int_eq(assay(run, engine), 0);
    ck_assert_int_eq(assay("diff %d %d", number, number + 1), 1);
    ck_assert(says("out", "12 of 32 prompts and 484 of 2048 tokens changed"));
}
END_TEST

int main(void)
{
    const char *tmp = getenv("ASSAY_TEST_TMP");
    const struct TTest *const tests[] = {equal_is_0,
                                         benign_is_0_and_strict_makes_it_1,
                                         a_deliberately_wrong_kernel_is_1,
                                         other_weights_are_1_through_replay,
                                         a_record_that_was_fed_other_ids_is_tokenisation_and_1,
                                         wrong_usage_is_2,
                                         an_unreadable_model_is_3,
                                         a_record_that_is_no_json_is_3_with_its_line,
                                         what_is_missing_is_4_with_its_name,
                                         other_weights_under_the_same_name_are_4,
                                         a_golden_that_changes_during_the_run_is_5,
                                         the_json_object_has_every_documented_key,
                                         a_run_can_be_shown_listed_explained_and_compared};
    program = getenv("ASSAY") ? getenv("ASSAY") : "build/assay";
    snprintf(folder, sizeof folder, "%.200s/check-status-XXXXXX", tmp ? tmp : "build");
    if (!mkdtemp(folder))
        return 1;
    snprintf(store, sizeof store, "%s/store.db", folder);
    Suite *s = suite_create("status");
    TCase *t = tcase_create("status");
    tcase_set_timeout(t, 120);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || failed != 0;
}
