/* Full logits: nothing is lost, what is as foretold weighs nothing, and every damage is named by its row. */
#include "goldens/logits.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 40, VOCAB = 1003 };

static uint16_t row[ROWS * VOCAB], told[ROWS * VOCAB], back[ROWS * VOCAB];
static void *packed;
static size_t bytes;
static struct err e;

/* Every third row is foretold but for one value, every fifth not at all. */
static void fill(void)
{
    unsigned x = 7;
    e = (struct err){0};
    for (int i = 0; i < ROWS * VOCAB; i++)
        row[i] = told[i] = (uint16_t)((x = x * 1664525u + 1013904223u) >> 16);
    for (int r = 0; r < ROWS; r++) {
        if (r % 3 == 0)
            told[r * VOCAB + r] ^= 1;
        for (int i = 0; r % 5 == 0 && i < VOCAB; i++)
            told[r * VOCAB + i] = (uint16_t)(i * r);
    }
    memset(back, 0x5a, sizeof back);
}

static void pack(const uint16_t *foretold)
{
    fill();
    ck_assert_msg(logits_pack(row, foretold, ROWS, VOCAB, &packed, &bytes, &e) == OK, "%s", e.text);
}

START_TEST(what_went_in_comes_out)
{
    const uint16_t *foretold[] = {told, row, NULL};
    for (int i = 0; i < 3; i++) {
        pack(foretold[i]);
        ck_assert_msg(logits_unpack(packed, bytes, foretold[i], ROWS, VOCAB, "x", back, &e) == OK, "%s", e.text);
        ck_assert(!memcmp(back, row, sizeof row));
        free(packed);
    }
    pack(told); /* in place of what was foretold */
    ck_assert_int_eq(logits_unpack(packed, bytes, told, ROWS, VOCAB, "x", told, &e), OK);
    ck_assert(!memcmp(told, row, sizeof row));
    free(packed);
}
END_TEST

START_TEST(a_row_that_was_foretold_weighs_33_bytes)
{
    pack(row);
    ck_assert_uint_eq(bytes, 16 + ROWS * 33);
    free(packed);
}
END_TEST

START_TEST(any_byte_that_changes_is_found)
{
    pack(told);
    for (size_t at = 0; at < bytes; at += at < 16 + ROWS * 33 ? 1 : 97) {
        unsigned char *p = packed;
        struct err own = {0};
        p[at] ^= 0x10;
        ck_assert_msg(logits_unpack(packed, bytes, told, ROWS, VOCAB, "x", back, &own) == E_STORE, "byte %zu", at);
        ck_assert(strstr(own.text, "x: ") == own.text);
        p[at] ^= 0x10;
    }
    free(packed);
}
END_TEST

START_TEST(another_foretelling_is_named_by_its_row)
{
    pack(told);
    told[4 * VOCAB + 9] ^= 1;
    ck_assert_int_eq(logits_unpack(packed, bytes, told, ROWS, VOCAB, "x", back, &e), E_STORE);
    ck_assert_msg(strstr(e.text, "row 4 is not what was stored"), "%s", e.text);
    struct err none = {0};
    ck_assert_int_eq(logits_unpack(packed, bytes, NULL, ROWS, VOCAB, "x", back, &none), E_STORE);
    free(packed);
}
END_TEST

START_TEST(a_cut_block_is_refused)
{
    pack(told);
    for (size_t n = 0; n < bytes; n += n < 2000 ? 1 : 311) {
        struct err own = {0};
        ck_assert_int_eq(logits_unpack(packed, n, told, ROWS, VOCAB, "x", back, &own), E_STORE);
    }
    free(packed);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("logits");
    TCase *t = tcase_create("packed");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_went_in_comes_out);
    tcase_add_test(t, a_row_that_was_foretold_weighs_33_bytes);
    tcase_add_test(t, any_byte_that_changes_is_found);
    tcase_add_test(t, another_foretelling_is_named_by_its_row);
    tcase_add_test(t, a_cut_block_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
