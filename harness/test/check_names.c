/* The table of names: as many as there are, each at its first place, and none that is not there. Counters added up. */
#include "harness/base/counter.h"
#include "harness/base/names.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MANY 20000

START_TEST(every_name_is_found_at_its_first_place_and_no_other)
{
    static char name[MANY][12];
    struct names t = {0};
    struct err e = {0};
    ck_assert_int_eq(names_get(&t, "p0"), -1);
    for (int i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof name[i], "p%d", i);
        ck_assert_int_eq(names_get(&t, name[i]), -1);
        ck_assert_int_eq(names_put(&t, name[i], i, &e), OK);
        ck_assert_int_eq(names_put(&t, name[i / 2], MANY, &e), OK); /* is there already */
    }
    ck_assert_int_eq(t.n, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(names_get(&t, name[i]), i);
    ck_assert_int_eq(names_get(&t, ""), -1);
    ck_assert_int_eq(names_get(&t, "p20000"), -1);
    names_free(&t);
    ck_assert_int_eq(names_get(&t, "p0"), -1);
}
END_TEST

START_TEST(counters_of_one_name_are_added_and_unknown_stays_unknown)
{
    struct counter sum[3];
    const struct counter a[] = {{"x", 1, 2}, {"y", 3, -1}}, b[] = {{"y", 4, 5}, {"z", 6, 7}, {"w", 8, 9}};
    int n = counters_add(sum, 0, 3, a, 2);
    n = counters_add(sum, n, 3, b, 3);
    ck_assert_int_eq(n, 3); /* no room for w */
    ck_assert(!strcmp(sum[0].name, "x") && sum[0].ran == 1 && sum[0].expected == 2);
    ck_assert(!strcmp(sum[1].name, "y") && sum[1].ran == 7 && sum[1].expected == -1);
    ck_assert(!strcmp(sum[2].name, "z") && sum[2].ran == 6 && sum[2].expected == 7);
}
END_TEST

START_TEST(what_ran_since_is_the_difference_by_name)
{
    struct counter out[3];
    const struct counter before[] = {{"x", 10, 20}, {"y", 3, -1}}, now[] = {{"y", 5, -1}, {"x", 11, 22}, {"new", 4, 4}};
    ck_assert_int_eq(counters_since(now, 3, before, 2, out), 3);
    ck_assert(out[0].ran == 2 && out[0].expected == -1);
    ck_assert(out[1].ran == 1 && out[1].expected == 2);
    ck_assert(out[2].ran == 4 && out[2].expected == 4);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("names");
    TCase *t = tcase_create("names");
    tcase_add_test(t, every_name_is_found_at_its_first_place_and_no_other);
    tcase_add_test(t, counters_of_one_name_are_added_and_unknown_stays_unknown);
    tcase_add_test(t, what_ran_since_is_the_difference_by_name);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
