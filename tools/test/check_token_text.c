#include "tools/token_text.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static const struct tool tool = {.data_dir = "."};
static struct token_text *tok;

static void setup(void)
{
    tok = token_text_open(&tool, "tiny-dense-nvfp4");
    ck_assert_ptr_nonnull(tok);
}

static void teardown(void)
{
    token_text_close(tok);
}

static int some_id_says(const char *want)
{
    char buf[96];
    for (int32_t id = 0; id < 4096; id++)
        if (!strcmp(token_text_quote(tok, id, buf, sizeof buf), want))
            return 1;
    return 0;
}

START_TEST(spaces_and_line_ends_are_turned_back_and_escaped)
{
    char buf[96];
    ck_assert_str_eq(token_text_quote(tok, 341, buf, sizeof buf), "\" is\"");
    ck_assert_str_eq(token_text_quote(tok, 199, buf, sizeof buf), "\"\\n\"");
}
END_TEST

START_TEST(quotes_controls_and_parts_of_a_character_are_escaped)
{
    ck_assert(some_id_says("\"\\\"\""));
    ck_assert(some_id_says("\"\\\\\""));
    ck_assert(some_id_says("\"\\x1b\""));
    ck_assert(some_id_says("\"\\xc3\""));
}
END_TEST

START_TEST(a_long_text_is_cut_and_stays_quoted)
{
    char buf[8];
    for (int32_t id = 0; id < 4096; id++) {
        size_t n = strlen(token_text_quote(tok, id, buf, sizeof buf));
        ck_assert(n >= 2 && n < sizeof buf && buf[0] == '"' && buf[n - 1] == '"');
    }
}
END_TEST

START_TEST(what_is_not_there_has_no_text)
{
    char buf[96];
    ck_assert_str_eq(token_text_quote(tok, -1, buf, sizeof buf), "");
    ck_assert_str_eq(token_text_quote(tok, 1 << 30, buf, sizeof buf), "");
    ck_assert_str_eq(token_text_quote(NULL, 1, buf, sizeof buf), "");
    ck_assert_ptr_null(token_text_open(&tool, "no-such-model"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("token_text");
    TCase *t = tcase_create("token_text");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, spaces_and_line_ends_are_turned_back_and_escaped);
    tcase_add_test(t, quotes_controls_and_parts_of_a_character_are_escaped);
    tcase_add_test(t, a_long_text_is_cut_and_stays_quoted);
    tcase_add_test(t, what_is_not_there_has_no_text);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
