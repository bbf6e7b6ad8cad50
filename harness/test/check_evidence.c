/* What tools/gpu-gate.sh wrote on a GPU machine: it counts as what it is, of the sources it is of, and of nothing else.
 */
#include "harness/base/json.h"
#include "harness/gate/evidence.h"
#include "harness/test/help_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void make_folder(void)
{
    scratch_setup();
    ck_assert(!mkdir(scratch("kernels"), 0755) && !mkdir(scratch("kernels/cuda"), 0755));
    scratch_text("kernels/cuda/b.cuh", "// b\n");
    scratch_text("kernels/cuda/a.cu", "// a\n");
    scratch_text("kernels/cuda/readme.md", "not a source\n");
}

/* A shipped result, as if it were of the folder's two sources. */
static json_t *shipped(const char *name)
{
    char path[256], hash[65];
    struct err e = {0};
    snprintf(path, sizeof path, "kernels/cuda/results/%s", name);
    json_t *o = json_read(path, &e);
    ck_assert_msg(o && !evidence_sources(scratch(""), hash, &e), "%s", e.text);
    json_object_set_new(o, "kernel_sources_sha256", json_string(hash));
    return o;
}

static struct finding judged(json_t *o, enum gate_check c)
{
    struct finding f;
    char *text = json_dumps(o, 0);
    scratch_text("e.json", text);
    free(text);
    json_decref(o);
    evidence_judge(scratch(""), "e.json", c, "NVIDIA H200", &f);
    return f;
}

#define EXPECT(o, c, result, words)                                                                                    \
    do {                                                                                                               \
        struct finding f_ = judged(o, c);                                                                              \
        ck_assert_msg(f_.outcome == (result) && strstr(f_.text, words), "%s: %s", outcome_name(f_.outcome), f_.text);  \
    } while (0)

START_TEST(sources_are_hashed_as_the_script_does)
{
    char hash[65];
    struct err e = {0};
    ck_assert_int_eq(evidence_sources(scratch(""), hash, &e), OK);
    ck_assert_str_eq(hash, "5e64079ba15206a0a5726d3e3e527598b62552f2a271ba04e9d4758cf1e7a3a3");
    ck_assert_int_eq(evidence_sources("/nowhere", hash, &e), E_MISSING);
}
END_TEST

START_TEST(shipped_results_of_these_very_sources_count)
{
    EXPECT(shipped("h200-sanitizer.json"), CHECK_MEMORY, OUTCOME_OK,
           "no error by memcheck, initcheck, synccheck, racecheck");
    EXPECT(shipped("h200-steady.json"), CHECK_GRAPH, OUTCOME_OK, "give eager's bytes (9 cases, 100 runs each)");
}
END_TEST

START_TEST(what_speaks_of_something_else_is_no_evidence)
{
    json_t *o = shipped("h200-sanitizer.json");
    scratch_text("kernels/cuda/a.cu", "// another\n");
    EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "is of other kernel sources");
    scratch_text("kernels/cuda/a.cu", "// a\n");
    EXPECT(shipped("h200-sanitizer.json"), CHECK_GRAPH, OUTCOME_MISSING,
           "is of step \"sanitizer\"; \"steady\" is asked for");
    EXPECT(shipped("h200-bench.json"), CHECK_MEMORY, OUTCOME_MISSING, "is of step \"bench\"");
    o = shipped("h200-sanitizer.json");
    json_object_set_new(o, "gpu", json_string("NVIDIA A100"));
    EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "is of GPU \"NVIDIA A100\"; asked for: NVIDIA H200");
    o = shipped("h200-sanitizer.json");
    json_object_set_new(o, "commit", json_string("unknown"));
    EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "does not say when, of which commit");
    o = shipped("h200-sanitizer.json");
    json_object_del(o, "kernel_sources_sha256");
    EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "does not say when, of which commit");
}
END_TEST

START_TEST(what_is_absent_or_corrupted_is_no_evidence_and_says_why)
{
    static const char *const wrong[][2] = {
        {"", "e.json"}, {"{\"step\": \"sanitizer\"", "e.json"}, {"[]", "is of step \"\""}, {"\x01\xff", "e.json"}};
    struct finding f;
    evidence_judge(scratch(""), "e.json", CHECK_MEMORY, "", &f);
    ck_assert(f.outcome == OUTCOME_MISSING && strstr(f.text, "e.json"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scratch_text("e.json", wrong[i][0]);
        evidence_judge(scratch(""), "e.json", CHECK_MEMORY, "", &f);
        ck_assert_msg(f.outcome == OUTCOME_MISSING && strstr(f.text, wrong[i][1]), "%zu: %s", i, f.text);
    }
}
END_TEST

START_TEST(each_tool_must_have_looked_and_seen_nothing)
{
    for (size_t i = 0; i < 4; i++) {
        json_t *o = shipped("h200-sanitizer.json"), *list = json_object_get(o, "result");
        json_array_remove(list, i);
        EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "says nothing of ");
        o = shipped("h200-sanitizer.json"), list = json_object_get(o, "result");
        json_object_set_new(json_array_get(list, i), "summary", json_string("ERROR SUMMARY: 3 errors"));
        EXPECT(o, CHECK_MEMORY, OUTCOME_FAILED, "3 errors");
        o = shipped("h200-sanitizer.json"), list = json_object_get(o, "result");
        json_object_set_new(json_array_get(list, i), "exit_status", json_integer(124));
        EXPECT(o, CHECK_MEMORY, OUTCOME_FAILED, "exit status 124");
        o = shipped("h200-sanitizer.json"), list = json_object_get(o, "result");
        json_object_set_new(json_array_get(list, i), "summary", json_string(""));
        EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "has no summary");
    }
    json_t *o = shipped("h200-sanitizer.json");
    json_object_set_new(o, "exit_status", json_integer(4));
    EXPECT(o, CHECK_MEMORY, OUTCOME_MISSING, "but exit status 4");
}
END_TEST

START_TEST(a_graph_that_differed_fails_and_one_that_was_not_replayed_is_missing)
{
    json_t *o = shipped("h200-steady.json"), *in = json_object_get(json_object_get(o, "result"), "steady");
    json_object_set_new(in, "graph_differs", json_integer(1));
    EXPECT(o, CHECK_GRAPH, OUTCOME_FAILED, "says graph_differs: 1");
    o = shipped("h200-steady.json"), in = json_object_get(json_object_get(o, "result"), "steady");
    json_object_del(in, "graph_differs");
    EXPECT(o, CHECK_GRAPH, OUTCOME_MISSING, "lacks graph_differs");
    o = shipped("h200-steady.json"), in = json_object_get(json_object_get(o, "result"), "steady");
    json_object_set_new(in, "cases", json_integer(0));
    EXPECT(o, CHECK_GRAPH, OUTCOME_MISSING, "of how many cases");
    o = shipped("h200-steady.json");
    json_object_set_new(o, "exit_status", json_integer(1));
    EXPECT(o, CHECK_GRAPH, OUTCOME_FAILED, "but exit status 1");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("evidence");
    TCase *t = tcase_create("evidence");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, make_folder, scratch_teardown);
    tcase_add_test(t, sources_are_hashed_as_the_script_does);
    tcase_add_test(t, shipped_results_of_these_very_sources_count);
    tcase_add_test(t, what_speaks_of_something_else_is_no_evidence);
    tcase_add_test(t, what_is_absent_or_corrupted_is_no_evidence_and_says_why);
    tcase_add_test(t, each_tool_must_have_looked_and_seen_nothing);
    tcase_add_test(t, a_graph_that_differed_fails_and_one_that_was_not_replayed_is_missing);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
