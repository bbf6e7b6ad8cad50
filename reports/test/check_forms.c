/* forms - every form from stored runs: complete, parseable, and deaf to what the texts in it say */
#include "reports/escape.h"
#include "reports/flip.h"
#include "reports/form.h"
#include "reports/test/help_run.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOKENS 12

static char folder[400], path[500];
static struct store *store;
static struct golden *golden;
static struct battery *battery;
static struct err e;

static void setup(void)
{
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(folder, sizeof folder, "%s/formsXXXXXX", tmp ? tmp : "/tmp");
    ck_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/store.db", folder);
    e = (struct err){0};
    ck_assert_msg(!store_open(path, &store, &e), "%s", e.text);
    golden = toy_golden(5, TOKENS);
    battery = toy_battery(golden);
}

static void teardown(void)
{
    char command[600];
    store_close(store);
    golden_free(golden);
    battery_free(battery);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert(!system(command));
}

/* p0 equal, p1 near tie at 3, p2 divergent at 5, p3 outside the lists, p4 equal. */
static int32_t mixed(const struct golden_prompt *p, int prompt, int position)
{
    int32_t id = p->ids[position];
    if (prompt == 1 && position >= 3)
        return position == 3 ? id + 1 : id + 20;
    if (prompt == 2 && position == 5)
        return id + 2;
    return prompt == 3 && position == 0 ? 9000 : id;
}

static int32_t near_tie(const struct golden_prompt *p, int prompt, int position)
{
    return p->ids[position] + (prompt == 1 && position == 3);
}

static struct toy_run plain_run(void)
{
    return (struct toy_run){.golden = golden, .battery = battery, .arm = "toy route=dense", .again = "assay run again"};
}

static char *form_text(const char *form, const struct report *r)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    const struct form *shape = form_by_name(form);
    ck_assert_msg(f && shape, "no form %s", form);
    ck_assert_msg(!shape->write(f, &r, 1, &e), "%s", e.text);
    ck_assert(!fclose(f));
    ck_assert_uint_eq(strlen(text), size); /* no zero byte */
    return text;
}

static struct report *gathered(int64_t run, report_piece *piece)
{
    struct report *r = NULL;
    ck_assert_msg(!report_gather(store, run, piece, NULL, &r, &e), "%s", e.text);
    return r;
}

static void write_all(const struct report *r, const char *name)
{
    for (int i = 0; form_all[i]; i++) {
        char *text = form_text(form_all[i]->name, r), file[600];
        snprintf(file, sizeof file, "%s/%s%s", folder, name, form_all[i]->ending);
        FILE *f = fopen(file, "w");
        ck_assert(f && fputs(text, f) >= 0 && !fclose(f));
        free(text);
    }
}

/* how: "schema" also holds the JSON against its schema, which costs a while. */
static void parse_all(const char *how)
{
    char command[600];
    snprintf(command, sizeof command, "python3 reports/test/parse_forms.py '%s' %s", folder, how);
    ck_assert_msg(!system(command), "see above");
}

/* A page that a browser test can open: left in ASSAY_TEST_TMP. */
static void keep_page(const char *name)
{
    char command[1200];
    const char *tmp = getenv("ASSAY_TEST_TMP");
    snprintf(command, sizeof command, "cp '%s/report.html' '%s/%s.html'", folder, tmp ? tmp : folder, name);
    ck_assert(!system(command));
}

START_TEST(every_form_is_written_from_one_run_and_parses)
{
    struct toy_run t = plain_run();
    t.answer = mixed;
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    ck_assert_int_eq(r->verdict, RV_FAIL);
    write_all(r, "report");
    parse_all("schema");
    report_free(r);
}
END_TEST

START_TEST(a_sentence_has_both_sides_gap_and_razor)
{
    struct toy_run t = plain_run();
    t.answer = mixed;
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    char *text = report_sentence(r, r->prompt[2].root);
    ck_assert_str_eq(text, "toys: p2 token 5: DIVERGENT: got 127, oracle 125, gap 1.5 nat (12 ULP, razor 2)");
    free(text);
    text = form_text("junit", r);
    ck_assert(strstr(text, "<failure type=\"DIVERGENT\" message=\"toys: p2 token 5: DIVERGENT: got 127"));
    ck_assert(strstr(text, "again: assay run again"));
    free(text);
    report_free(r);
}
END_TEST

START_TEST(roots_cascades_and_ties_are_told_apart)
{
    struct toy_run t = plain_run();
    t.answer = mixed;
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    const struct report_prompt *p = &r->prompt[1];
    ck_assert(p->root && p->root->position == 3);
    ck_assert_int_eq(p->position[3].row.verdict, V_NEAR_TIE);
    ck_assert_int_eq(p->position[4].row.verdict, V_CASCADE);
    ck_assert(p->position[4].after_root && !p->position[2].after_root);
    ck_assert(report_prompt_exact(&r->prompt[0]) && !report_prompt_exact(p));
    ck_assert_int_eq(r->prompt[2].position[6].row.verdict, V_EQUAL);
    ck_assert(r->prompt[2].position[6].after_root);
    ck_assert(r->prompt[0].position[0].margin_nats == 0.25);
    report_free(r);
}
END_TEST

START_TEST(what_only_the_razor_excuses_passes_in_junit_and_says_so)
{
    struct toy_run t = plain_run();
    t.answer = near_tie;
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    char *text = form_text("junit", r);
    ck_assert_int_eq(r->verdict, RV_PASS_BY_RAZOR);
    ck_assert(strstr(text, "failures=\"0\" errors=\"0\""));
    ck_assert(strstr(text, "<system-out>toys: p1 token 3: NEAR_TIE"));
    free(text);
    report_free(r);
}
END_TEST

START_TEST(a_run_that_never_finished_says_so_in_every_form)
{
    struct toy_run t = plain_run();
    t.unfinished = 1;
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    ck_assert_int_eq(r->answered, 4);
    char *text = form_text("html", r);
    ck_assert(strstr(text, "NOT FINISHED</strong>"));
    ck_assert(strstr(text, "4 of 5 prompts are answered"));
    ck_assert(!strstr(text, "PASS</strong>"));
    free(text);
    text = form_text("markdown", r);
    ck_assert(strstr(text, "NOT FINISHED"));
    free(text);
    text = form_text("junit", r);
    ck_assert(strstr(text, "failures=\"0\" errors=\"1\" skipped=\"5\""));
    ck_assert(strstr(text, "<error type=\"NOT FINISHED\""));
    free(text);
    text = form_text("json", r);
    ck_assert(strstr(text, "\"verdict\":null") && strstr(text, "\"complete\":false"));
    free(text);
    text = form_text("csv", r);
    ck_assert(!strstr(text, "EQUAL"));
    free(text);
    write_all(r, "report");
    parse_all("schema");
    report_free(r);
}
END_TEST

static struct toy_run hostile_run(int i)
{
    struct toy_run t = plain_run();
    for (int k = 0; k < golden->prompts; k++) {
        char name[60];
        snprintf(name, sizeof name, "%.50s", hostile[(i + k) % hostiles]);
        free(golden->prompt[k].name);
        free(battery->prompt[k].name);
        golden->prompt[k].name = strdup(name);
        battery->prompt[k].name = strdup(name);
    }
    t.answer = mixed;
    t.arm = hostile[i];
    t.again = hostile[i];
    return t;
}

START_TEST(hostile_texts_neither_break_nor_inject_into_any_form)
{
    struct toy_run t = hostile_run(_i);
    struct report *r = gathered(toy_run_store(store, &t), hostile_piece);
    ck_assert_int_eq(r->verdict, RV_FAIL);
    write_all(r, "report");
    parse_all("");
    report_free(r);
}
END_TEST

START_TEST(a_page_of_hostile_texts_and_one_of_ten_thousand_tokens_are_quick_and_kept)
{
    struct toy_run t = hostile_run(0);
    struct report *r = gathered(toy_run_store(store, &t), hostile_piece);
    write_all(r, "report");
    keep_page("hostile");
    report_free(r);
    struct golden *many = toy_golden(100, 100);
    struct battery *all = toy_battery(many);
    strcpy(many->battery, "many");
    strcpy(all->name, "many");
    strcpy(all->sha256, "another");
    json_object_set_new(many->header, "battery", json_string("many"));
    t = (struct toy_run){.golden = many, .battery = all, .arm = "toy", .again = "again", .answer = mixed};
    int64_t run = toy_run_store(store, &t);
    clock_t start = clock();
    r = gathered(run, hostile_piece);
    write_all(r, "report");
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    keep_page("many");
    ck_assert_msg(seconds < 10, "10,000 tokens took %.1f s", seconds);
    report_free(r);
    golden_free(many);
    battery_free(all);
}
END_TEST

START_TEST(a_long_list_of_differences_still_fits_a_comment)
{
    struct golden *many = toy_golden(900, 2);
    struct battery *all = toy_battery(many);
    struct toy_run t = {.golden = many, .battery = all, .arm = "toy", .again = "again"};
    t.answer = NULL;
    for (int i = 0; i < many->prompts; i++)
        all->prompt[i].ids[0] = 2; /* every prompt was tokenised otherwise */
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    char *text = form_text("markdown", r);
    ck_assert_uint_lt(strlen(text), 65000);
    ck_assert(strstr(text, "more: `assay show"));
    ck_assert(strstr(text, "Power: "));
    free(text);
    report_free(r);
    golden_free(many);
    battery_free(all);
}
END_TEST

START_TEST(many_runs_still_fit_a_comment)
{
    enum { RUNS = 60 };
    struct report *r[RUNS];
    char *text = NULL;
    size_t size = 0;
    struct toy_run t = hostile_run(8);
    t.answer = mixed;
    for (int i = 0; i < RUNS; i++)
        r[i] = gathered(toy_run_store(store, &t), hostile_piece);
    FILE *f = open_memstream(&text, &size);
    ck_assert(f && !form_by_name("markdown")->write(f, (const struct report *const *)r, RUNS, &e) && !fclose(f));
    ck_assert_uint_lt(size, 65000);
    ck_assert(strstr(text, "No room for the details of"));
    ck_assert(strstr(text, "| 60 |"));
    free(text);
    for (int i = 0; i < RUNS; i++)
        report_free(r[i]);
}
END_TEST

static int swollen_piece(void *arg, int32_t id, char *buf, int size)
{
    (void)arg;
    (void)id;
    memset(buf, '@', (size_t)size);
    return size;
}

/* Every text is as long as it can be, and each of its characters takes the most bytes. */
START_TEST(texts_that_swell_when_they_are_escaped_still_fit_a_comment)
{
    static char swollen[4001], arm[251];
    struct toy_run t = plain_run();
    memset(swollen, '@', sizeof swollen - 1);
    memset(arm, '@', sizeof arm - 1);
    for (int k = 0; k < golden->prompts; k++) {
        free(golden->prompt[k].name);
        free(battery->prompt[k].name);
        snprintf(arm, sizeof arm, "%d@%.60s", k, swollen);
        golden->prompt[k].name = strdup(arm);
        battery->prompt[k].name = strdup(arm);
    }
    memset(arm, '@', sizeof arm - 1);
    t.answer = mixed;
    t.arm = arm;
    t.again = swollen;
    struct report *r = gathered(toy_run_store(store, &t), swollen_piece);
    memset(r->why, '@', sizeof r->why - 1);
    for (r->notes = 0; r->notes < 3; r->notes++)
        memset(r->note[r->notes], '@', sizeof r->note[0] - 1);
    char *text = form_text("markdown", r);
    ck_assert_uint_lt(strlen(text), 65000);
    ck_assert(strstr(text, "DIVERGENT") && strstr(text, "Power: "));
    free(text);
    report_free(r);
}
END_TEST

START_TEST(without_the_golden_the_report_says_what_is_not_shown)
{
    struct toy_run t = plain_run();
    t.answer = mixed;
    int64_t run = toy_run_store(store, &t);
    struct store *other = store;
    char command[1200];
    store_close(other);
    snprintf(command, sizeof command,
             "python3 -c \"import sqlite3; d = sqlite3.connect('%s'); d.execute('drop trigger run_sealed'); "
             "d.execute('update run set golden_sha256 = 0'); "
             "d.commit()\"",
             path);
    ck_assert(!system(command));
    ck_assert_msg(!store_open(path, &store, &e), "%s", e.text);
    struct report *r = gathered(run, NULL);
    ck_assert_ptr_null(r->golden);
    ck_assert_int_eq(r->notes, 1);
    char *text = form_text("html", r);
    ck_assert(strstr(text, "is not the one that this run was judged against"));
    free(text);
    write_all(r, "report");
    parse_all("schema");
    report_free(r);
}
END_TEST

START_TEST(a_battery_that_was_replaced_since_is_not_taken_for_the_runs_own)
{
    struct toy_run t = plain_run();
    t.answer = mixed;
    strcpy(battery->sha256, "first");
    int64_t run = toy_run_store(store, &t);
    strcpy(battery->sha256, "second");
    free(battery->prompt[0].name);
    battery->prompt[0].name = strdup("another");
    ck_assert_msg(!store_battery_put(store, battery, &e), "%s", e.text);
    struct report *r = gathered(run, NULL);
    ck_assert_ptr_null(r->battery);
    ck_assert_int_eq(r->prompts, 5);
    ck_assert_str_eq(r->prompt[0].name, "p0");
    ck_assert_int_eq(r->notes, 1);
    report_free(r);
}
END_TEST

START_TEST(counters_power_and_the_command_stand_in_the_page_and_the_comment)
{
    struct toy_run t = plain_run();
    struct report *r = gathered(toy_run_store(store, &t), NULL);
    char *page = form_text("html", r), *comment = form_text("markdown", r);
    ck_assert(strstr(
        page, "dense_gemms</bdi></code><td class=\"n\">12<td class=\"n\">13<td><span class=\"tag far\">differs"));
    ck_assert(strstr(page, "<td class=\"n\">3<td class=\"n\">unknown"));
    ck_assert(strstr(page, "60 tokens judged, 0 independent roots"));
    ck_assert(strstr(page, "<bdi>assay run again</bdi>"));
    ck_assert(strstr(comment, "<code>dense&#95;gemms</code> | 12 | 13 |"));
    ck_assert(strstr(comment, "60 tokens judged"));
    ck_assert(strstr(comment, "assay run again"));
    free(page);
    free(comment);
    report_free(r);
}
END_TEST

START_TEST(a_decision_about_a_default_is_deaf_to_its_texts)
{
    static const char *const forms[] = {"html", "markdown", "junit", "csv", "json"};
    static const char *const never[][6] = {{"<script>w", "<img", "<svg", "\x1b"},
                                           {"<script>w", "<img", "<svg", "](", "@somebody", "\x1b"},
                                           {"<script>w", "<img", "<testcase name=\"inj", "\x1b"},
                                           {"\"=HYPER", "\x1b"},
                                           {"\x1b"}};
    const char *h = hostile[_i];
    json_t *text = text_json(h);
    json_t *row = json_pack("{s:i,s:s,s:s,s:{s:O,s:s,s:s,s:s,s:O,s:O,s:b,s:{s:s},s:[{s:O,s:O,s:O,s:s,s:b,s:i,s:O}]}}",
                            "seq", 7, "at", "now", "sha256", "00", "what", "flag", text, "from", "on", "to", "off",
                            "decision", "refused", "policy", text, "by", text, "applied", 0, "defaults",
                            h[0] == '\x1b' ? "x" : h, "on", "evidence", "check", text, "set", text, "about", text,
                            "outcome", "FAILED", "reused", 1, "run_number", 3, "text", text);
    ck_assert_ptr_nonnull(row);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char *out = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&out, &size);
        ck_assert_msg(f && !flip_write(f, forms[i], row, &e) && !fclose(f), "%s", e.text);
        for (int k = 0; k < 6 && never[i][k]; k++)
            ck_assert_msg(!strstr(out, never[i][k]), "%s: %s came through", forms[i], never[i][k]);
        ck_assert(strstr(out, "FAILED"));
        free(out);
    }
    json_object_del(json_object_get(row, "what"), "evidence");
    ck_assert_int_eq(flip_write(stdout, "html", row, &e), E_INPUT);
    json_decref(row);
    json_decref(text);
}
END_TEST

START_TEST(visible_text_hides_nothing_and_twice_is_as_once)
{
    static const char bytes[] = "a\0\n\x1b\xed\xa0\x80\u202e\\<\u05d0\xff";
    char *once = text_visible(bytes, sizeof bytes - 1, 1), *twice;
    ck_assert_str_eq(once, "a\\x00\\n\\x1b\\xed\\xa0\\x80\\u202e\\\\<\u05d0\\xff");
    twice = text_visible(once, strlen(once), 0);
    ck_assert_str_eq(once, twice);
    ck_assert(text_is_rtl(once) && !text_is_rtl("abc \u00e9 \u4e2d"));
    free(once);
    free(twice);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {every_form_is_written_from_one_run_and_parses,
                                  a_sentence_has_both_sides_gap_and_razor,
                                  roots_cascades_and_ties_are_told_apart,
                                  what_only_the_razor_excuses_passes_in_junit_and_says_so,
                                  a_run_that_never_finished_says_so_in_every_form,
                                  a_long_list_of_differences_still_fits_a_comment,
                                  many_runs_still_fit_a_comment,
                                  without_the_golden_the_report_says_what_is_not_shown,
                                  a_battery_that_was_replaced_since_is_not_taken_for_the_runs_own,
                                  counters_power_and_the_command_stand_in_the_page_and_the_comment,
                                  visible_text_hides_nothing_and_twice_is_as_once};
    const char *one = getenv("ASSAY_TEST_HOSTILE"); /* that text alone */
    int first = one ? atoi(one) : 0, end = one ? first + 1 : hostiles;
    Suite *s = suite_create("forms");
    TCase *t = tcase_create("forms");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        tcase_add_test(t, tests[i]);
    TCase *kept = tcase_create("kept pages");
    tcase_add_checked_fixture(kept, setup, teardown);
    tcase_set_timeout(kept, 60);
    tcase_add_test(kept, a_page_of_hostile_texts_and_one_of_ten_thousand_tokens_are_quick_and_kept);
    suite_add_tcase(s, kept);
    suite_add_tcase(s, t);
    TCase *deaf = tcase_create("hostile");
    tcase_add_checked_fixture(deaf, setup, teardown);
    tcase_set_timeout(deaf, 60);
    tcase_add_test(deaf, texts_that_swell_when_they_are_escaped_still_fit_a_comment);
    tcase_add_loop_test(t, a_decision_about_a_default_is_deaf_to_its_texts, 0, hostiles);
    tcase_add_loop_test(deaf, hostile_texts_neither_break_nor_inject_into_any_form, first, end);
    suite_add_tcase(s, deaf);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
