/* Two rows of real base files of llama.cpp (SmolLM2-135M Q4_1, and the same with an 8-bit KV cache): read, compared,
 * and refused when anything about their sizes is wrong. */
#include "goldens/exchange.h"
#include "harness/kld_compare.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BASE "goldens/test/data/kld/base.kld.zst"
#define TEST "goldens/test/data/kld/kvq8.kld.zst"

static unsigned char *file(const char *path, size_t *bytes)
{
    void *data;
    struct err e = {0};
    ck_assert_msg(packed_read(path, 1 << 24, &data, bytes, &e) == OK, "%s", e.text);
    return data;
}

static double num(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void near(double x, double want)
{
    /* The figures were summed in another order and in double precision throughout; a float step of log p is 1e-6. */
    ck_assert_msg(fabs(x - want) <= 2e-6 * fmax(1, fabs(want)), "%.10g, not %.10g", x, want);
}

START_TEST(two_real_files_give_the_figures_of_a_recount)
{
    size_t na, nb;
    unsigned char *a = file(BASE, &na), *b = file(TEST, &nb);
    struct kld base, test;
    struct err e = {0};
    json_t *r;
    ck_assert_int_eq(kld_parse(a, na, BASE, &base, &e), OK);
    ck_assert_int_eq(kld_parse(b, nb, TEST, &test, &e), OK);
    ck_assert_int_eq(base.vocab, 49152);
    ck_assert_int_eq(kld_compare(&base, &test, &r, &e), OK);
    const json_t *first = json_array_get(json_object_get(r, "chunks"), 0),
                 *last = json_array_get(json_object_get(r, "chunks"), 1);
    near(num(first, "kl"), 2.3080930697077534e-05);
    near(num(last, "kl"), 0.000532045461580874);
    near(num(last, "kl_error"), 0.0005089645308837964);
    near(num(last, "ppl"), 4.011543388025458);
    near(num(last, "base_ppl"), 3.9611180537238018);
    near(num(last, "rms_dp_percent"), 0.11376469179149441);
    ck_assert(num(last, "same_top_percent") == 100);
    ck_assert(num(r, "grid_mnats") > 0.2440 && num(r, "grid_mnats") < 0.2442);
    ck_assert(json_is_null(json_object_get(r, "exact_ties")));
    json_decref(r);
    ck_assert_int_eq(kld_compare(&base, &base, &r, &e), OK);
    last = json_array_get(json_object_get(r, "chunks"), 1);
    ck_assert(num(last, "kl") == 0 && num(last, "rms_dp_percent") == 0 && num(last, "same_top_percent") == 100);
    json_decref(r);
    free(a);
    free(b);
}
END_TEST

static void put(unsigned char *at, int32_t x)
{
    memcpy(at, &x, sizeof x);
}

static void not_a_scale(unsigned char *p, size_t *bytes)
{
    (void)bytes;
    put(p + 20 + 4 * 4 * 2, 0x7fc00000);
}

static void magic(unsigned char *p, size_t *bytes)
{
    (void)bytes;
    p[0] = '-';
}

static void shorter(unsigned char *p, size_t *bytes)
{
    (void)p;
    --*bytes;
}

static void header_only(unsigned char *p, size_t *bytes)
{
    (void)p;
    *bytes = 19;
}

static void more_chunks(unsigned char *p, size_t *bytes)
{
    (void)bytes;
    put(p + 16, 3);
}

static void larger_vocabulary(unsigned char *p, size_t *bytes)
{
    (void)bytes;
    put(p + 12, 49154);
}

static void no_context(unsigned char *p, size_t *bytes)
{
    (void)bytes;
    put(p + 8, -1);
}

static void token_outside(unsigned char *p, size_t *bytes)
{
    (void)bytes;
    put(p + 20 + 4 * 5, 49152);
}

static const struct {
    void (*spoil)(unsigned char *, size_t *);
    const char *named;
} faults[] = {
    {magic, "no KLD base file"},         {header_only, "no KLD base file"},          {shorter, "cut off"},
    {more_chunks, "take 295004"},        {larger_vocabulary, "vocabulary of 49154"}, {no_context, "out of range"},
    {token_outside, "token 5 is 49152"}, {not_a_scale, "chunk 0 row 0: scale nan"},
};

START_TEST(every_size_is_checked)
{
    size_t n;
    unsigned char *a = file(BASE, &n);
    struct kld k;
    struct err e = {0};
    faults[_i].spoil(a, &n);
    ck_assert_int_eq(kld_parse(a, n, "x.kld", &k, &e), E_INPUT);
    ck_assert_msg(strstr(e.text, "x.kld: ") == e.text && strstr(e.text, faults[_i].named), "%s", e.text);
    free(a);
}
END_TEST

START_TEST(files_of_two_texts_are_not_compared)
{
    size_t na, nb;
    unsigned char *a = file(BASE, &na), *b = file(TEST, &nb);
    struct kld base, test;
    struct err e = {0};
    json_t *r;
    put(b + 20 + 4 * 6, 7);
    ck_assert(!kld_parse(a, na, BASE, &base, &e) && !kld_parse(b, nb, TEST, &test, &e));
    ck_assert_int_eq(kld_compare(&base, &test, &r, &e), E_INPUT);
    ck_assert_msg(strstr(e.text, "token 6 differs"), "%s", e.text);
    free(a);
    free(b);
}
END_TEST

/* What the grid cannot tell apart is counted, and is no exact tie. */
START_TEST(equal_values_are_ties_within_the_grid_only)
{
    size_t n;
    unsigned char *a = file(BASE, &n);
    struct kld k;
    struct err e = {0};
    json_t *r;
    ck_assert_int_eq(kld_parse(a, n, BASE, &k, &e), OK);
    uint16_t *q = (uint16_t *)(void *)(a + k.first + 8);
    int best = 0;
    for (int i = 1; i < k.vocab; i++)
        best = q[i] > q[best] ? i : best;
    q[best ? best - 1 : 1] = q[best];
    ck_assert_int_eq(kld_describe(&k, &r, &e), OK);
    ck_assert_int_eq(json_integer_value(json_object_get(r, "tied_tops")), 1);
    ck_assert(json_is_null(json_object_get(r, "exact_ties")));
    json_decref(r);
    free(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kld");
    TCase *t = tcase_create("files");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, two_real_files_give_the_figures_of_a_recount);
    tcase_add_loop_test(t, every_size_is_checked, 0, (int)(sizeof faults / sizeof *faults));
    tcase_add_test(t, files_of_two_texts_are_not_compared);
    tcase_add_test(t, equal_values_are_ties_within_the_grid_only);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
