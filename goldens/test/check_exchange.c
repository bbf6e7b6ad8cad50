/* Files come back byte for byte, hostile ones are refused with their place, other projects' folders are recounted. */
#include "goldens/exchange.h"
#include "goldens/text.h"
#include "goldens/vllmcpp.h"

#include <check.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

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

/* --- files --- */

START_TEST(every_shipped_golden_is_canonical_text)
{
    DIR *d = opendir("goldens");
    int files = 0;
    for (struct dirent *f; (f = readdir(d));) {
        char path[400], *text;
        struct golden *g;
        struct err e = {0};
        void *raw;
        size_t bytes, want;
        if (!strstr(f->d_name, ".jsonl.zst"))
            continue;
        snprintf(path, sizeof path, "goldens/%s", f->d_name);
        ck_assert_msg(golden_read(path, &g, &e) == OK, "%s", e.text);
        ck_assert_int_eq(golden_text(g, &text, &bytes, &e), OK);
        ck_assert_int_eq(packed_read(path, 1 << 30, &raw, &want, &e), OK);
        ck_assert_uint_eq(bytes, want);
        ck_assert_int_eq(memcmp(text, raw, bytes), 0);
        golden_free(g);
        free(text);
        free(raw);
        files++;
    }
    closedir(d);
    ck_assert_int_ge(files, 25);
}
END_TEST

START_TEST(numbers_are_written_as_short_as_they_read_back)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0.1, "0.1"},
                 {1, "1.0"},
                 {-0.0, "-0.0"},
                 {1e-5, "1e-05"},
                 {0.0001, "0.0001"},
                 {1e16, "1e+16"},
                 {123456, "123456.0"},
                 {1e15, "1000000000000000.0"},
                 {5e-324, "5e-324"},
                 {0.3, "0.3"},
                 {1.0 / 3, "0.3333333333333333"},
                 {-2.5e-7, "-2.5e-07"},
                 {1.5e300, "1.5e+300"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text t = {0};
        text_real(&t, cases[i].x);
        ck_assert_str_eq(t.data, cases[i].text);
        ck_assert(strtod(t.data, NULL) == cases[i].x);
        free(t.data);
    }
}
END_TEST

#define HEADER                                                                                                         \
    "{\"schema\":\"assay-golden/"                                                                                      \
    "1\",\"model\":\"m\",\"model_files\":{},\"battery\":\"b\",\"arm\":\"a\",\"oracle\":{},\"top_k\":2}\n"
#define PROMPT(name, ids, rows)                                                                                        \
    "{\"prompt\":\"" name "\",\"prompt_ids\":[1],\"ids\":" ids                                                         \
    ",\"finish\":\"length\",\"repeats\":[],\"batch\":[],\"decode\":" rows ",\"prefill\":null}\n"
#define ROWS(ids, values) "{\"top_ids\":[" ids "],\"top_logits\":[" values "],\"logsumexp\":[0.0]}"

static const char *const hostile[][2] = {
    {"", "empty"},
    {HEADER, "no prompt"},
    {"{\"schema\":\"assay-golden/9\"}\n", "assay-golden/9"},
    {"{\"schema\":\"assay-golden/1\",\"model\":\"m\",\"battery\":\"b\",\"arm\":\"a\",\"top_k\":2}\n", "provenance"},
    {"{\"schema\":\"assay-golden/1\",\"model\":\"../"
     "m\",\"model_files\":{},\"battery\":\"b\",\"arm\":\"a\",\"oracle\":{},\"top_k\":2}\n",
     "without '/'"},
    {HEADER PROMPT("p", "[5]", "null") PROMPT("p", "[5]", "null"), ":3: prompt \"p\" appears twice"},
    {HEADER PROMPT("p", "[-5]", "null"), ":2: \"ids\"[0]"},
    {HEADER PROMPT("p", "[4294967296]", "null"), ":2: \"ids\"[0]"},
    {HEADER PROMPT("p", "[5,6]", ROWS("[5,6]", "[1.0,0.5]")), "a row for each of the 2 ids"},
    {HEADER PROMPT("p", "[5]", ROWS("[5,6]", "[1.0]")), "arrays of one length"},
    {HEADER PROMPT("p", "[5]", ROWS("[5,6]", "[1.0,2.0]")), "must not increase"},
    {HEADER PROMPT("p", "[5]", ROWS("[5,6]", "[NaN,0.5]")), "not JSON"},
    {HEADER PROMPT("p", "[5]", ROWS("[5,6]", "[1e99,0.5]")), "no fp32"},
    {HEADER "{\"prompt\":\"p\",\"prompt\":\"q\"}\n", "duplicate"},
    {HEADER "{\"prompt\":\"p\"", ":2: the last line has no end"},
};

START_TEST(a_hostile_golden_is_refused_with_its_line)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct golden *g = NULL;
        struct err e = {0};
        ck_assert_int_eq(golden_parse(hostile[i][0], strlen(hostile[i][0]), "file", &g, &e), E_INPUT);
        ck_assert_msg(strstr(e.text, hostile[i][1]) != NULL, "%zu: %s", i, e.text);
        ck_assert_msg(!strncmp(e.text, "file", 4), "%s", e.text);
    }
    struct golden *g;
    struct err e = {0};
    const char *good = HEADER PROMPT("p", "[5]", ROWS("[5,6]", "[1.0,0.5]"));
    ck_assert_msg(golden_parse(good, strlen(good), "file", &g, &e) == OK, "%s", e.text);
    golden_free(g);
}
END_TEST

START_TEST(compressed_files_are_not_believed)
{
    size_t n = 64 << 20;
    char *zeros = calloc(1, n), *packed = malloc(ZSTD_compressBound(n));
    size_t size = ZSTD_compress(packed, ZSTD_compressBound(n), zeros, n, 3);
    void *out;
    size_t bytes;
    struct err e = {0};
    put_file(in_tmp("bomb.zst"), packed, size);
    ck_assert_int_eq(packed_read(in_tmp("bomb.zst"), 1 << 20, &out, &bytes, &e), E_INPUT);
    ck_assert_msg(strstr(e.text, "more than 1048576") != NULL, "%s", e.text);
    put_file(in_tmp("cut.zst"), packed, size / 2);
    e = (struct err){0};
    ck_assert_int_eq(packed_read(in_tmp("cut.zst"), n, &out, &bytes, &e), E_INPUT);
    put_file(in_tmp("lie.zst"), "not zstd at all", 15);
    e = (struct err){0};
    ck_assert_int_eq(packed_read(in_tmp("lie.zst"), n, &out, &bytes, &e), E_INPUT);
    e = (struct err){0};
    ck_assert_int_eq(packed_read(in_tmp("none.zst"), n, &out, &bytes, &e), E_MISSING);
    free(zeros);
    free(packed);
}
END_TEST

START_TEST(a_file_that_cannot_be_completed_leaves_the_old_one)
{
    char *big = calloc(1, 1 << 20);
    struct err e = {0};
    void *data;
    size_t bytes;
    ck_assert_int_eq(packed_write(in_tmp("kept"), "old", 3, &e), OK);
    if (!fork()) {
        struct rlimit small = {4096, 4096};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
        _exit(packed_write(in_tmp("kept"), big, 1 << 20, &e) == E_IO ? 0 : 1);
    }
    int status;
    wait(&status);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(packed_read(in_tmp("kept"), 100, &data, &bytes, &e), OK);
    ck_assert_uint_eq(bytes, 3);
    free(data);
    free(big);
}
END_TEST

/* --- vllm.cpp folders --- */

START_TEST(imported_folders_give_the_recount)
{
    static const struct {
        const char *name, *variant;
        int prompts, strict, divergent, roots, gap[6], runs, traps;
    } all[] = {{"llama_greedy_1b", "", 16, 12, 13, 4, {0, 0, 0, 0}, 6, 0},
               {"olmo2_greedy_1b", "", 16, 13, 15, 3, {31, 0, 0}, 5, 1},
               {"qwen3_32b_nvfp4a16_greedy", "", 6, 4, 29, 2, {62, 0}, 5, 0},
               {"qwen3_greedy_0_6b", "", 16, 10, 60, 6, {0}, 10, 0},
               {"qwen3_greedy_0_6b", "_metal", 16, 10, 60, 6, {0, 0, 125, 0, 0, 0}, 10, 1},
               {"qwen3_greedy_4b", "", 16, 11, 43, 5, {250, 0, 0, 62, 0}, 5, 0},
               {"qwen3coder_greedy", "", 6, 5, 1, 1, {0}, 5, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char path[200];
        struct vllmcpp v;
        struct err e = {0};
        snprintf(path, sizeof path, "goldens/test/data/vllmcpp/%s", all[i].name);
        ck_assert_msg(vllmcpp_read(path, all[i].variant, &v, &e) == OK, "%s", e.text);
        ck_assert_int_eq(v.prompts, all[i].prompts);
        ck_assert_int_eq(v.strict_prompts, all[i].strict);
        ck_assert_int_eq(v.divergent, all[i].divergent);
        ck_assert_int_eq(v.roots, all[i].roots);
        for (int r = 0; r < v.roots; r++)
            ck_assert_int_eq(v.root[r].gap_mnats, all[i].gap[r]);
        ck_assert_int_eq(v.runs, all[i].runs);
        ck_assert_int_eq(v.multi_valued, 0);
        ck_assert_int_eq(v.traps, all[i].traps);
        vllmcpp_free(&v);
    }
    struct vllmcpp v;
    struct err e = {0};
    ck_assert_int_eq(vllmcpp_read("goldens/test/data", "", &v, &e), E_MISSING);
}
END_TEST

int main(void)
{
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(folder, sizeof folder, "%s", tmp ? tmp : "build");
    Suite *s = suite_create("exchange");
    TCase *t = tcase_create("exchange");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_shipped_golden_is_canonical_text);
    tcase_add_test(t, numbers_are_written_as_short_as_they_read_back);
    tcase_add_test(t, a_hostile_golden_is_refused_with_its_line);
    tcase_add_test(t, compressed_files_are_not_believed);
    tcase_add_test(t, a_file_that_cannot_be_completed_leaves_the_old_one);
    tcase_add_test(t, imported_folders_give_the_recount);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
