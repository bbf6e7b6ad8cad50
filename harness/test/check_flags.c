/* batteries/flags.json: what it must say, what a flip writes, what a flag that is on its way out does. */
#include "harness/gate/flags.h"
#include "harness/native/flags.h"
#include "harness/test/help_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FLAG(name, stage, dflt, more)                                                                                  \
    "{\"name\":\"" name "\",\"engine\":\"native\",\"summary\":\"s\",\"values\":[\"off\",\"on\"],\"default\":\"" dflt   \
    "\",\"stage\":\"" stage "\",\"since\":\"0.1\"" more "}"
#define GOING                   FLAG("old", "deprecated", "off", ",\"removal\":\"0.3\"")
#define GONE                    FLAG("gone", "removed", "off", ",\"removal\":\"0.1\"")
#define FILE_OF(version, flags) "{\"schema\":\"assay-flags/1\",\"version\":\"" version "\",\"flags\":[" flags "]}"
#define ENGINE_FLAGS                                                                                                   \
    FLAG("marlin_dense", "default-off", "off", ",\"spelling\":{\"on\":\"route=dense\"}")                               \
    "," FLAG("marlin_e1_par1", "experimental", "off", "") "," FLAG("fp32_reduce", "default-on", "on", "") "," FLAG(    \
        "cuda_graph", "default-off", "off", ",\"device\":\"cuda\"")

static struct flag_set set;

static void put(const char *text)
{
    mkdir(scratch("batteries"), 0755);
    scratch_text("batteries/flags.json", text);
}

static int reads(const char *text, struct err *e)
{
    memset(e, 0, sizeof *e);
    put(text);
    return flags_read(scratch(""), &set, e);
}

static const struct {
    const char *text, *named;
} wrong[] = {
    {"{}", "schema"},
    {"{\"schema\":\"assay-flags/2\"}", "assay-flags/1 is expected"},
    {FILE_OF("one", GOING), "MAJOR.MINOR is expected"},
    {FILE_OF("0.1", ""), "must be an array of flags"},
    {FILE_OF("0.1", FLAG("a", "default-on", "off", "")), "flag a: a flag that is default-on has the default \"on\""},
    {FILE_OF("0.1", FLAG("a", "experimental", "on", "")), "a flag that is experimental has the default \"off\""},
    {FILE_OF("0.1", FLAG("a", "young", "on", "")), "\"young\" is no stage of life"},
    {FILE_OF("0.1", FLAG("a", "default-off", "maybe", "")), "default \"maybe\" is none of its values"},
    {FILE_OF("0.1", FLAG("a", "default-off", "off", ",\"removal\":\"0.3\"")), "deprecated and removed ones have it"},
    {FILE_OF("0.1", FLAG("a", "deprecated", "off", "")), "deprecated and removed ones have it"},
    {FILE_OF("0.3", GOING), "flag old: it is deprecated, its removal is due in 0.3 and this is 0.3"},
    {FILE_OF("0.10", GOING), "its removal is due in 0.3 and this is 0.10"},
    {FILE_OF("0.1", FLAG("a", "removed", "off", ",\"removal\":\"0.2\"")), "it is removed, its removal is due in 0.2"},
    {FILE_OF("0.1", GOING "," GOING), "there are two of that name"},
    {FILE_OF("0.1", FLAG("a", "default-off", "off", ",\"colour\":1")), "unknown key \"colour\""},
};

START_TEST(a_file_that_contradicts_itself_is_refused_with_the_flag)
{
    struct err e;
    ck_assert_int_eq(reads(wrong[_i].text, &e), E_INPUT);
    CHECK_HOLDS(e, wrong[_i].named);
}
END_TEST

START_TEST(a_flip_writes_default_and_stage_and_nothing_else)
{
    struct err e;
    const struct flag *f;
    int on;
    ck_assert_msg(reads(FILE_OF("0.1", ENGINE_FLAGS "," GOING), &e) == OK, "%s", e.text);
    json_t *before = json_deep_copy(set.file);
    ck_assert_int_eq(flags_parse(&set, "route=dense", &f, &on, &e), OK);
    ck_assert_str_eq(f->name, "marlin_dense");
    ck_assert_int_eq(flags_flip(&set, f, on, &e), OK);
    flags_free(&set);
    ck_assert_int_eq(flags_read(scratch(""), &set, &e), OK);
    f = flags_find(&set, "marlin_dense");
    ck_assert(f->on && f->stage == STAGE_DEFAULT_ON);
    ck_assert_int_eq(flags_flip(&set, f, 0, &e), OK);
    ck_assert_msg(json_equal(before, set.file), "there and back is not where it was");
    json_decref(before);
    flags_free(&set);
}
END_TEST

static const struct {
    const char *word, *named;
} no_flip[] = {
    {"nobody=on", "flags are marlin_dense"},
    {"marlin_dense", "FLAG=on or FLAG=off is expected"},
    {"marlin_dense=1", "FLAG=on or FLAG=off is expected"},
    {"", "FLAG=on or FLAG=off is expected"},
    {"marlin_dense=off", "is \"off\" by default already"},
    {"marlin_e1_par1=on", "is experimental: its default cannot be flipped"},
    {"old=on", "is deprecated: its default cannot be flipped"},
    {"gone=on", "is removed: its default cannot be flipped"},
};

START_TEST(what_cannot_be_flipped_says_why)
{
    struct err e;
    const struct flag *f;
    int on;
    ck_assert_msg(reads(FILE_OF("0.1", ENGINE_FLAGS "," GOING "," GONE), &e) == OK, "%s", e.text);
    if (!flags_parse(&set, no_flip[_i].word, &f, &on, &e))
        flags_may_flip(f, on, &e);
    ck_assert_int_eq(e.code, E_USAGE);
    CHECK_HOLDS(e, no_flip[_i].named);
    flags_free(&set);
}
END_TEST

static int take(struct native_flags *f, const char *name, const char *value, char *warning, struct err *e)
{
    int taken;
    memset(e, 0, sizeof *e);
    return native_flags_set(&set, "cpu", name, value, f, warning, 256, &taken, e);
}

START_TEST(the_native_engine_takes_its_defaults_from_the_file_and_both_spellings)
{
    struct native_flags f;
    struct err e;
    char warning[256] = "";
    ck_assert_msg(reads(FILE_OF("0.1", ENGINE_FLAGS "," GOING "," GONE), &e) == OK, "%s", e.text);
    ck_assert_int_eq(native_flags_default(&set, &f, &e), OK);
    ck_assert_int_eq(native_flags_route(&f), ROUTE_GROUPED);
    ck_assert(f.fp32_reduce && !f.cuda_graph);
    take(&f, "marlin_e1_par1", "on", warning, &e);
    ck_assert_int_eq(native_flags_route(&f), ROUTE_PAR1);
    take(&f, "marlin_dense", "on", warning, &e);
    ck_assert_int_eq(native_flags_route(&f), ROUTE_DENSE);
    take(&f, "route", "par1", warning, &e);
    ck_assert_int_eq(native_flags_route(&f), ROUTE_PAR1);
    take(&f, "reduce", "f16", warning, &e);
    ck_assert(!f.fp32_reduce);
    ck_assert_str_eq(warning, "");
    ck_assert_int_eq(take(&f, "graph", "on", warning, &e), E_USAGE);
    CHECK_HOLDS(e, "cuda_graph is a flag of native:cuda, this is native:cpu");
    flags_free(&set);
}
END_TEST

START_TEST(a_deprecated_flag_changes_nothing_and_says_so_a_removed_one_is_an_error)
{
    struct native_flags f, before;
    struct err e;
    char warning[256] = "";
    ck_assert_msg(reads(FILE_OF("0.1", ENGINE_FLAGS "," GOING "," GONE), &e) == OK, "%s", e.text);
    ck_assert_int_eq(native_flags_default(&set, &f, &e), OK);
    before = f;
    ck_assert_int_eq(take(&f, "old", "on", warning, &e), OK);
    ck_assert_str_eq(warning, "old is deprecated and has no effect; version 0.3 removes it");
    ck_assert_int_eq(memcmp(&f, &before, sizeof f), 0);
    ck_assert_int_eq(take(&f, "old", "maybe", warning, &e), E_USAGE);
    ck_assert_int_eq(take(&f, "gone", "on", warning, &e), E_USAGE);
    CHECK_HOLDS(e, "gone was removed in version 0.1");
    flags_free(&set);
}
END_TEST

START_TEST(the_file_and_the_engine_must_have_the_same_flags)
{
    struct native_flags f;
    struct err e;
    ck_assert_int_eq(reads(FILE_OF("0.1", FLAG("marlin_dense", "default-off", "off", "")), &e), OK);
    ck_assert_int_eq(native_flags_default(&set, &f, &e), E_INPUT);
    CHECK_HOLDS(e, "the native engine has a flag marlin_e1_par1, the file has not");
    flags_free(&set);
    ck_assert_int_eq(reads(FILE_OF("0.1", ENGINE_FLAGS "," FLAG("more", "default-off", "off", "")), &e), OK);
    ck_assert_int_eq(native_flags_default(&set, &f, &e), E_INPUT);
    CHECK_HOLDS(e, "flag more: the native engine has no such flag");
    flags_free(&set);
}
END_TEST

START_TEST(the_shipped_file_is_sound_and_is_written_as_a_flip_would_write_it)
{
    struct err e = {0};
    struct native_flags f;
    ck_assert_msg(flags_read(".", &set, &e) == OK, "%s", e.text);
    ck_assert_msg(native_flags_default(&set, &f, &e) == OK, "%s", e.text);
    ck_assert_int_eq(native_flags_route(&f), ROUTE_DENSE);
    ck_assert_int_eq(flags_find(&set, "marlin_atomic_add")->stage, STAGE_DEPRECATED);
    char *text = json_dumps(set.file, JSON_INDENT(2)), was[8192] = "";
    FILE *file = fopen("batteries/flags.json", "r");
    was[fread(was, 1, sizeof was - 1, file)] = 0;
    fclose(file);
    was[strlen(was) - 1] = 0;
    ck_assert_str_eq(text, was);
    free(text);
    flags_free(&set);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("flags");
    TCase *t = tcase_create("flags");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_loop_test(t, a_file_that_contradicts_itself_is_refused_with_the_flag, 0,
                        (int)(sizeof wrong / sizeof *wrong));
    tcase_add_test(t, a_flip_writes_default_and_stage_and_nothing_else);
    tcase_add_loop_test(t, what_cannot_be_flipped_says_why, 0, (int)(sizeof no_flip / sizeof *no_flip));
    tcase_add_test(t, the_native_engine_takes_its_defaults_from_the_file_and_both_spellings);
    tcase_add_test(t, a_deprecated_flag_changes_nothing_and_says_so_a_removed_one_is_an_error);
    tcase_add_test(t, the_file_and_the_engine_must_have_the_same_flags);
    tcase_add_test(t, the_shipped_file_is_sound_and_is_written_as_a_flip_would_write_it);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
