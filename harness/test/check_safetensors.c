#include "harness/test/help_folder.h"

#include <stdlib.h>
#include <string.h>

static const float numbers[4] = {1, -2, 0.5f, 3};
static const int64_t shape[2] = {4, 4};

static const struct tensor example[] = {
    {.name = "b.scale", .dtype = DT_U8, .rank = 1, .shape = {3}, .data = "abc", .bytes = 3},
    {.name = "a.weight", .dtype = DT_F32, .rank = 2, .shape = {2, 2}, .data = numbers, .bytes = 16},
    {.name = "a.shape", .dtype = DT_I64, .rank = 1, .shape = {2}, .data = shape, .bytes = 16},
};

static void write_example(void)
{
    struct err e = {0};
    ck_assert_msg(safetensors_write(scratch("x"), example, 3, &e) == OK, "%s", e.text);
}

/* Header text and bytes of data as a file. */
static void write_raw(const char *header, size_t data)
{
    size_t n = strlen(header);
    char *file = calloc(1, 8 + n + data);
    for (int i = 0; i < 8; i++)
        file[i] = (char)((uint64_t)n >> 8 * i & 0xff);
    memcpy(file + 8, header, n);
    scratch_write("x", file, 8 + n + data);
    free(file);
}

static void must_refuse(int code, const char *text)
{
    struct safetensors s;
    struct err e = {0};
    int rc = safetensors_open(scratch("x"), &s, &e);
    ck_assert_msg(rc != OK, "accepted, \"%s\" expected", text);
    ck_assert_msg(rc == code, "%s: %s", err_name(rc), e.text);
    CHECK_HOLDS(e, text);
    CHECK_HOLDS(e, scratch("x"));
    ck_assert(s.tensor == NULL && s.map.data == NULL);
}

START_TEST(a_written_file_reads_back_and_larger_types_come_first)
{
    struct safetensors s;
    struct err e = {0};
    write_example();
    ck_assert_msg(safetensors_open(scratch("x"), &s, &e) == OK, "%s", e.text);
    ck_assert_int_eq(s.tensors, 3);
    for (int i = 0; i < 3; i++) {
        const struct tensor *t = safetensors_find(&s, example[i].name);
        ck_assert_ptr_nonnull(t);
        ck_assert(t->dtype == example[i].dtype && t->rank == example[i].rank && t->bytes == example[i].bytes);
        ck_assert_int_eq(memcmp(t->data, example[i].data, t->bytes), 0);
    }
    ck_assert(safetensors_find(&s, "a.shape")->data < safetensors_find(&s, "a.weight")->data);
    ck_assert(safetensors_find(&s, "a.weight")->data < safetensors_find(&s, "b.scale")->data);
    ck_assert_ptr_null(safetensors_find(&s, "c"));
    safetensors_close(&s);
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    struct mapped m;
    write_example();
    ck_assert_int_eq(mapped_open(scratch("x"), &m, NULL), OK);
    for (size_t n = 0; n < m.bytes; n++) {
        struct safetensors s;
        struct err e = {0};
        scratch_write("cut", m.data, n);
        ck_assert_int_ne(safetensors_open(scratch("cut"), &s, &e), OK);
        ck_assert(e.text[0] != 0);
    }
    mapped_close(&m);
}
END_TEST

START_TEST(a_changed_byte_is_refused_or_stays_inside_the_file)
{
    struct mapped m;
    write_example();
    ck_assert_int_eq(mapped_open(scratch("x"), &m, NULL), OK);
    char *copy = malloc(m.bytes);
    for (size_t i = 0; i < m.bytes - 35; i++)
        for (int k = 0; k < 4; k++) {
            struct safetensors s;
            struct err e = {0};
            memcpy(copy, m.data, m.bytes);
            copy[i] = "\xff\0009\""[k];
            scratch_write("flip", copy, m.bytes);
            if (safetensors_open(scratch("flip"), &s, &e)) {
                ck_assert(e.text[0] != 0);
                continue;
            }
            for (int t = 0; t < s.tensors; t++)
                ck_assert((const char *)s.tensor[t].data + s.tensor[t].bytes <= (const char *)s.map.data + s.map.bytes);
            safetensors_close(&s);
        }
    free(copy);
    mapped_close(&m);
}
END_TEST

#define ENTRY(place) "\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" place "}"

static const struct hostile {
    const char *header;
    size_t data;
    int code;
    const char *text;
} hostile[] = {
    {"", 4, E_INPUT, "not JSON"},
    {"[]", 4, E_INPUT, "not a JSON object"},
    {"{" ENTRY("[0,4]"), 4, E_INPUT, "not JSON"},
    {"{" ENTRY("[0,4]") "} x", 4, E_INPUT, "not JSON"},
    {"{" ENTRY("[0,4]") "," ENTRY("[0,4]") "}", 4, E_INPUT, "duplicate"},
    {"{" ENTRY("[0,4]") "}", 3, E_INPUT, "truncated"},
    {"{" ENTRY("[0,4]") "}", 5, E_INPUT, "1 bytes at the end"},
    {"{" ENTRY("[1,5]") "}", 5, E_INPUT, "belong to no tensor"},
    {"{" ENTRY("[0,3]") "}", 3, E_INPUT, "span 3 bytes"},
    {"{" ENTRY("[4,0]") "}", 4, E_INPUT, "outside"},
    {"{" ENTRY("[-4,0]") "}", 4, E_INPUT, "outside"},
    {"{" ENTRY("[0,9223372036854775807]") "}", 4, E_INPUT, "outside"},
    {"{" ENTRY("[0,4,4]") "}", 4, E_INPUT, "not [begin, end]"},
    {"{" ENTRY("[0,\"4\"]") "}", 4, E_INPUT, "not [begin, end]"},
    {"{" ENTRY("7") "}", 4, E_INPUT, "not [begin, end]"},
    {"{" ENTRY("[0,4]") ",\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6, E_INPUT, "overlap"},
    {"{" ENTRY("[0,4]") ",\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, E_INPUT, "overlap"},
    {"{\"t\":{\"dtype\":\"Q3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, E_UNSUPPORTED, "type \"Q3\" is not known"},
    {"{\"t\":{\"dtype\":7,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, E_INPUT, "\"dtype\" is not a string"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[-4],\"data_offsets\":[0,4]}}", 4, E_INPUT, "is not a size"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[4.0],\"data_offsets\":[0,4]}}", 4, E_INPUT, "is not a size"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":4,\"data_offsets\":[0,4]}}", 4, E_INPUT, "not a list"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,4],\"data_offsets\":[0,4]}}", 4, E_INPUT, "at most 4"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, E_INPUT, "absurd"},
    {"{\"t\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0, E_INPUT, "absurd"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,4]}}", 4, E_INPUT, "span 4 bytes"},
    {"{\"t\":[]}", 0, E_INPUT, "not an object of"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, E_INPUT, "not an object of"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4],\"more\":1}}", 4, E_INPUT, "not an object of"},
    {"{\"__metadata__\":{\"a\":1}}", 0, E_INPUT, "__metadata__"},
    {"{\"__metadata__\":[]}", 0, E_INPUT, "__metadata__"},
    {"{\"t\\u0000u\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, E_INPUT, "not JSON"},
};

START_TEST(a_lying_header_is_refused)
{
    const struct hostile *h = &hostile[_i];
    write_raw(h->header, h->data);
    must_refuse(h->code, h->text);
}
END_TEST

START_TEST(an_absurd_header_length_is_refused)
{
    static const uint64_t length[] = {UINT64_MAX, (uint64_t)1 << 63, 1000, 61, 0};
    struct err e = {0};
    struct safetensors s;
    for (int i = 0; length[i]; i++) {
        char file[68] = "";
        memcpy(file, &length[i], 8);
        scratch_write("x", file, sizeof file);
        must_refuse(E_INPUT, "header length");
    }
    ck_assert_int_eq(safetensors_open(scratch("absent"), &s, &e), E_MISSING);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("safetensors");
    TCase *t = tcase_create("file");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_written_file_reads_back_and_larger_types_come_first);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, a_changed_byte_is_refused_or_stays_inside_the_file);
    tcase_add_loop_test(t, a_lying_header_is_refused, 0, (int)(sizeof hostile / sizeof *hostile));
    tcase_add_test(t, an_absurd_header_length_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
