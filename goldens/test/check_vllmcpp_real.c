/* Real golden folders of vllm.cpp against their known recount, and NumPy files that must be refused. */
#include "goldens/npy.h"
#include "goldens/vllmcpp.h"
#include "harness/test/help_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA "goldens/test/data/vllmcpp/"

static const struct known {
    const char *folder, *variant;
    int prompts, tokens, strict, divergent, roots, gap[6], runs, grid;
} known[] = {
    {"llama_greedy_1b", "", 16, 16, 12, 13, 4, {0, 0, 0, 0}, 6, 0},
    {"olmo2_greedy_1b", "", 16, 16, 13, 15, 3, {31, 0, 0}, 5, 31},
    {"qwen3_32b_nvfp4a16_greedy", "", 6, 16, 4, 29, 2, {62, 0}, 5, 31},
    {"qwen3_greedy_0_6b", "", 16, 16, 10, 60, 6, {0, 0, 0, 0, 0, 0}, 10, 0},
    {"qwen3_greedy_0_6b", "_metal", 16, 16, 10, 60, 6, {0, 0, 125, 0, 0, 0}, 10, 31},
    {"qwen3_greedy_4b", "", 16, 16, 11, 43, 5, {250, 0, 0, 62, 0}, 5, 31},
    {"qwen3coder_greedy", "", 6, 16, 5, 1, 1, {0}, 5, 0},
};

static void read_known(const struct known *k, struct vllmcpp *v)
{
    char path[200];
    struct err e = {0};
    snprintf(path, sizeof path, DATA "%s", k->folder);
    ck_assert_msg(vllmcpp_read(path, k->variant, v, &e) == OK, "%s", e.text);
}

START_TEST(every_number_of_the_recount_comes_out)
{
    const struct known *k = &known[_i];
    struct vllmcpp v;
    read_known(k, &v);
    ck_assert_int_eq(v.prompts, k->prompts);
    ck_assert_int_eq(v.tokens, k->tokens);
    ck_assert_int_eq(v.runs, k->runs);
    ck_assert_int_eq(v.strict_prompts, k->strict);
    ck_assert_int_eq(v.divergent, k->divergent);
    ck_assert_int_eq(v.multi_valued, 0);
    ck_assert_int_eq(v.roots, k->roots);
    for (int i = 0; i < v.roots; i++) {
        ck_assert_int_eq(v.root[i].gap_mnats, k->gap[i]);
        ck_assert_int_ne(v.root[i].oracle_id, v.root[i].arm_id);
        ck_assert(!i || v.root[i].prompt > v.root[i - 1].prompt);
    }
    vllmcpp_free(&v);
}
END_TEST

START_TEST(the_golden_carries_the_prompts_and_the_ids_of_run_0)
{
    const struct known *k = &known[_i];
    struct vllmcpp v;
    struct npy ids;
    char path[200];
    read_known(k, &v);
    snprintf(path, sizeof path, DATA "%s/greedy_ids.npy", k->folder);
    ck_assert_int_eq(npy_read(path, &ids, NULL), OK);
    ck_assert_str_eq(v.golden->model, k->folder);
    ck_assert_int_eq(v.golden->prompts, k->prompts);
    for (int p = 0; p < k->prompts; p++) {
        const struct golden_prompt *g = &v.golden->prompt[p];
        ck_assert_int_gt(g->prompts, 0);
        ck_assert_int_eq(g->n, k->tokens);
        ck_assert_mem_eq(g->ids, ids.data + (ptrdiff_t)p * k->tokens, (size_t)k->tokens * 4);
    }
    npy_free(&ids);
    vllmcpp_free(&v);
}
END_TEST

/* The token equals the oracle's and has a gap all the same: the oracle's prefill disagrees with its own decode. */
START_TEST(both_traps_are_found_and_said)
{
    static const struct {
        int folder, prompt, token, gap;
    } trap[] = {{1, 7, 4, 94}, {4, 11, 1, 125}};
    for (int t = 0; t < 2; t++) {
        struct vllmcpp v;
        char expected[100];
        read_known(&known[trap[t].folder], &v);
        ck_assert_int_eq(v.traps, 1);
        ck_assert_int_eq(v.trap[0].prompt, trap[t].prompt);
        ck_assert_int_eq(v.trap[0].position, trap[t].token);
        ck_assert_int_eq(v.trap[0].gap_mnats, trap[t].gap);
        ck_assert_int_eq(v.trap[0].oracle_id, v.trap[0].arm_id);
        json_t *report = vllmcpp_json(&v);
        char *text = json_dumps(report, 0);
        snprintf(expected, sizeof expected, "prompt %d token %d: the token equals the oracle's and has a gap of %d",
                 trap[t].prompt, trap[t].token, trap[t].gap);
        ck_assert_msg(strstr(text, expected) != NULL, "%s", text);
        free(text);
        json_decref(report);
        vllmcpp_free(&v);
    }
}
END_TEST

START_TEST(only_two_of_the_sets_have_a_trap)
{
    int traps = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct vllmcpp v;
        read_known(&known[i], &v);
        traps += v.traps;
        vllmcpp_free(&v);
    }
    ck_assert_int_eq(traps, 2);
}
END_TEST

START_TEST(the_bf16_grid_under_the_milli_nats_is_told)
{
    struct vllmcpp v;
    read_known(&known[_i], &v);
    if (known[_i].grid) {
        ck_assert_int_eq(v.grid_mnats, known[_i].grid);
        json_t *report = vllmcpp_json(&v);
        char *text = json_dumps(report, 0);
        ck_assert_ptr_nonnull(strstr(text, "multiple of 1/32 nat"));
        free(text);
        json_decref(report);
    }
    vllmcpp_free(&v);
}
END_TEST

/* --- hostile files --- */

/* A .npy with this header dictionary and `bytes` of zeros behind it, into NAME of the scratch folder. */
static const char *make_npy(const char *name, const char *magic, const char *dictionary, size_t bytes)
{
    const char *path = scratch(name);
    FILE *f = fopen(path, "wb");
    size_t n = strlen(dictionary);
    unsigned char head[4] = {1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    ck_assert_ptr_nonnull(f);
    fwrite(magic, 1, strlen(magic), f);
    fwrite(head, 1, 4, f);
    fwrite(dictionary, 1, n, f);
    for (size_t i = 0; i < bytes; i++)
        fputc(0, f);
    ck_assert_int_eq(fclose(f), 0);
    return path;
}

#define MAGIC "\x93NUMPY"

static const struct {
    const char *magic, *dictionary;
    size_t bytes;
    const char *reason; /* NULL: fine */
} array[] = {
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, NULL},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (0,), }\n", 0, NULL},
    {"\x93NUMPI", "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "magic"},
    {MAGIC, "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }\n", 48, "'<i8'"},
    {MAGIC, "{'descr': '>i4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "'>i4'"},
    {MAGIC, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24, "'<f4'"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }\n", 24, "Fortran order"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 23, "23 bytes of data"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }\n", 28, "28 bytes of data"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, -3), }\n", 24, "shape"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2147483647, 2147483647, 2147483647), }\n", 24, "shape"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2147483647, 2147483647), }\n", 4, "shape"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }\n", 4, "shape"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (), }\n", 4, "scalar"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': 6, }\n", 24, "shape"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, x), }\n", 24, "shape"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3", 24, "shape"},
    {MAGIC, "{'descr': '<i4', 'shape': (2, 3), }\n", 24, "fortran_order"},
    {MAGIC, "", 24, "missing"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (268435456,), }\n", 4, "4 bytes of data"},
    {MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (268435457,), }\n", 4, "shape"},
    {"\x93", "", 0, "magic"},
};

START_TEST(an_array_is_taken_or_refused_with_its_reason)
{
    struct npy a;
    struct err e = {0};
    const char *path = make_npy("a.npy", array[_i].magic, array[_i].dictionary, array[_i].bytes);
    int rc = npy_read(path, &a, &e);
    if (array[_i].reason) {
        ck_assert_msg(rc == E_INPUT, "%s: status %d %s", array[_i].dictionary, rc, e.text);
        CHECK_HOLDS(e, path);
        CHECK_HOLDS(e, array[_i].reason);
    } else {
        ck_assert_msg(rc == OK, "%s", e.text);
    }
    npy_free(&a);
}
END_TEST

START_TEST(a_header_longer_than_the_file_is_refused)
{
    struct npy a;
    struct err e = {0};
    const char *path = scratch("long.npy");
    FILE *f = fopen(path, "wb");
    fwrite(MAGIC "\x01\x00\xff\x03{'descr'", 1, 18, f);
    fclose(f);
    ck_assert_int_eq(npy_read(path, &a, &e), E_INPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "header of 1023 bytes"));
}
END_TEST

/* A copy of a good folder, named f. */
static void copy_folder(const char *name)
{
    char line[1100];
    snprintf(line, sizeof line, "cp -r " DATA "%s %s && chmod -R u+w %s", name, scratch("f"), scratch("f"));
    ck_assert_int_eq(system(line), 0);
}

static void folder_refused(int code, const char *reason)
{
    struct vllmcpp v;
    struct err e = {0};
    ck_assert_int_eq(vllmcpp_read(scratch("f"), "", &v, &e), code);
    CHECK_HOLDS(e, scratch("f"));
    CHECK_HOLDS(e, reason);
    ck_assert_ptr_null(v.golden);
}

START_TEST(a_folder_with_a_wrong_or_missing_file_is_refused_by_name)
{
    copy_folder("qwen3coder_greedy");
    scratch_write("f/p3_prompt.i32", "\x01\x00\x00", 3);
    folder_refused(E_INPUT, "p3_prompt.i32: 3 bytes");
    scratch_write("f/p3_prompt.i32", "", 0);
    folder_refused(E_INPUT, "p3_prompt.i32");
    scratch_write("f/p3_prompt.i32", "\xff\xff\xff\xff", 4);
    folder_refused(E_INPUT, "id 0 is negative");
    unlink(scratch("f/p3_prompt.i32"));
    folder_refused(E_MISSING, "p3_prompt.i32");
    make_npy("f/our_ids.npy", MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (16, 6), }\n", 384);
    folder_refused(E_INPUT, "our_ids.npy: its shape is not that of greedy_dist.npy, [6, 16]");
    make_npy("f/greedy_dist.npy", MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (6, 16), }\n", 384);
    folder_refused(E_INPUT, "[prompts, tokens, runs]");
    make_npy("f/greedy_dist.npy", MAGIC, "{'descr': '<i4', 'fortran_order': False, 'shape': (6, 16, 0), }\n", 0);
    folder_refused(E_INPUT, "[prompts, tokens, runs]");
    unlink(scratch("f/greedy_dist.npy"));
    folder_refused(E_MISSING, "greedy_dist.npy");
}
END_TEST

/* One id of our_ids changed to another: exactly one more divergent position, and it is a root. */
START_TEST(one_changed_id_is_one_more_divergence)
{
    struct vllmcpp v;
    struct err e = {0};
    copy_folder("qwen3coder_greedy");
    ck_assert_int_eq(vllmcpp_read(scratch("f"), "", &v, &e), OK);
    int whole = -1;
    for (int p = 0; p < v.prompts && whole < 0; p++)
        whole = v.root[0].prompt != p ? p : -1;
    vllmcpp_free(&v);
    FILE *f = fopen(scratch("f/our_ids.npy"), "r+b");
    int32_t id = 1;
    fseek(f, -(long)(6 * 16 * 4) + (whole * 16 + 5) * 4, SEEK_END);
    fwrite(&id, 4, 1, f);
    fclose(f);
    ck_assert_int_eq(vllmcpp_read(scratch("f"), "", &v, &e), OK);
    ck_assert_int_eq(v.divergent, 2);
    ck_assert_int_eq(v.roots, 2);
    ck_assert_int_eq(v.strict_prompts, 4);
    ck_assert(v.root[0].prompt == whole || v.root[1].prompt == whole);
    vllmcpp_free(&v);
}
END_TEST

int main(void)
{
    const int sets = (int)(sizeof known / sizeof *known), arrays = (int)(sizeof array / sizeof *array);
    Suite *s = suite_create("vllmcpp real folders");
    TCase *t = tcase_create("folders");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_loop_test(t, every_number_of_the_recount_comes_out, 0, sets);
    tcase_add_loop_test(t, the_golden_carries_the_prompts_and_the_ids_of_run_0, 0, sets);
    tcase_add_loop_test(t, the_bf16_grid_under_the_milli_nats_is_told, 0, sets);
    tcase_add_test(t, both_traps_are_found_and_said);
    tcase_add_test(t, only_two_of_the_sets_have_a_trap);
    tcase_add_loop_test(t, an_array_is_taken_or_refused_with_its_reason, 0, arrays);
    tcase_add_test(t, a_header_longer_than_the_file_is_refused);
    tcase_add_test(t, a_folder_with_a_wrong_or_missing_file_is_refused_by_name);
    tcase_add_test(t, one_changed_id_is_one_more_divergence);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
