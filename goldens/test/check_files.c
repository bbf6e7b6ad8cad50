/* Files on their way in and out: nothing is lost silently, nothing is believed because a header says so. */
#include "goldens/exchange.h"
#include "harness/test/help_folder.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define HEADER_WITH(more)                                                                                              \
    "{\"schema\":\"assay-golden/1\",\"model\":\"m\",\"model_files\":{},\"battery\":\"b\",\"arm\":\"a\","               \
    "\"oracle\":{},\"top_k\":2" more "}\n"
#define HEADER      HEADER_WITH("")
#define TAIL(equal) "\"decode_rows_equal_prefill_rows\":" equal "}\n"
#define PROMPT(repeats, batch, decode, tail)                                                                           \
    "{\"prompt\":\"p\",\"prompt_ids\":[1],\"ids\":[5],\"finish\":\"length\",\"repeats\":" repeats ",\"batch\":" batch  \
    ",\"decode\":" decode ",\"prefill\":null," tail
#define ROW(ids, more) "{\"top_ids\":[" ids "],\"top_logits\":[[1.0,0.5]],\"logsumexp\":[0.1]" more "}"

static void parse(const char *text, int want, const char *why)
{
    struct golden *g = NULL;
    struct err e = {0};
    ck_assert_msg(golden_parse(text, strlen(text), "file", &g, &e) == want, "%s: %s", text, e.text);
    ck_assert_msg(!why || strstr(e.text, why), "%s: %s", text, e.text);
    if (!want)
        golden_free(g);
}

START_TEST(what_could_not_be_written_again_is_refused)
{
    parse(HEADER PROMPT("[]", "[]", "null", TAIL("null")), OK, NULL);
    parse(HEADER PROMPT("[]", "[]", "null", "\"note\":1," TAIL("null")), E_INPUT, ":2: unknown key \"note\"");
    parse(HEADER PROMPT("[]", "[]", ROW("[5,6]", ",\"x\":1"), TAIL("1")), E_INPUT, "decode: unknown key \"x\"");
    parse(HEADER PROMPT("[]", "[{\"ids\":null,\"y\":1}]", "null", TAIL("1")), E_INPUT, "unknown key \"y\"");
}
END_TEST

START_TEST(numbers_out_of_their_range_are_refused)
{
    parse(HEADER PROMPT("[]", "[]", ROW("[5,6]", ""), TAIL("1")), OK, NULL);
    parse(HEADER PROMPT("[]", "[]", ROW("[5,5]", ""), TAIL("1")), E_INPUT, "token 5 is listed twice");
    parse(HEADER PROMPT("[]", "[]", ROW("[5,2147483648]", ""), TAIL("1")), E_INPUT, "no token id");
    parse(HEADER PROMPT("[]", "[]", "null", TAIL("2")), E_INPUT, "at most the 1 ids");
    parse(HEADER PROMPT("[]", "[]", "null", TAIL("-7")), E_INPUT, "at most the 1 ids");
    parse(HEADER PROMPT("[]", "[]", "null", TAIL("4294967296")), E_INPUT, "at most the 1 ids");
    parse(HEADER PROMPT("[]", "[]", "{\"top_ids\":[[5]],\"top_logits\":[[Infinity]],\"logsumexp\":[0]}", TAIL("1")),
          E_INPUT, "not JSON");
    parse(HEADER_WITH(",\"battery_sha256\":\"77\"") PROMPT("[]", "[]", "null", TAIL("1")), E_INPUT, "no SHA-256");
}
END_TEST

START_TEST(texts_and_numbers_of_the_header_come_back_byte_for_byte)
{
    const char *text = HEADER_WITH(
        ",\"note\":\"caf\\u00e9 \\ud83d\\ude00 \\u007f\\t\\\"\\\\/\\u0001\",\"t\":[0.1,1e-07,1e+22,"
        "-0.0,123456789012345678,true,null,{}]") PROMPT("[{\"share\":0.3}]", "[]", ROW("[5,6]", ""), TAIL("null"));
    struct golden *g;
    struct err e = {0};
    char *out;
    size_t bytes;
    ck_assert_msg(golden_parse(text, strlen(text), "file", &g, &e) == OK, "%s", e.text);
    ck_assert_int_eq(golden_text(g, &out, &bytes, &e), OK);
    ck_assert_str_eq(out, text);
    free(out);
    golden_free(g);
}
END_TEST

/* --- compressed files --- */

static void refuse_golden(const char *name, const void *data, size_t bytes, const char *why)
{
    struct golden *g;
    struct err e = {0};
    scratch_write(name, data, bytes);
    ck_assert_int_eq(golden_read(scratch(name), &g, &e), E_INPUT);
    ck_assert_msg(strstr(e.text, why) && strstr(e.text, name), "%s", e.text);
}

START_TEST(a_bomb_is_refused_by_what_it_weighs)
{
    size_t n = 100 << 20, room = ZSTD_compressBound(n);
    void *zeros = calloc(1, n), *packed = malloc(room);
    size_t size = ZSTD_compress(packed, room, zeros, n, 1);
    ck_assert_uint_lt(size, 100 << 10);
    refuse_golden("bomb.jsonl.zst", packed, size, "more than");
    free(zeros);
    free(packed);
}
END_TEST

START_TEST(a_frame_that_lies_about_its_content_is_refused)
{
    char text[1000], packed[2000];
    void *out;
    size_t bytes;
    struct err e = {0};
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i * i % 23);
    size_t n = ZSTD_compress(packed, sizeof packed, text, sizeof text, 3);
    scratch_write("honest.zst", packed, n);
    ck_assert_msg(packed_read(scratch("honest.zst"), 5000, &out, &bytes, &e) == OK, "%s", e.text);
    ck_assert_uint_eq(bytes, sizeof text);
    free(out);
    ck_assert_uint_eq(ZSTD_getFrameContentSize(packed, n), sizeof text);
    packed[5]++; /* the frame now claims a byte more */
    ck_assert_uint_eq(ZSTD_getFrameContentSize(packed, n), sizeof text + 1);
    scratch_write("lie.zst", packed, n);
    ck_assert_int_eq(packed_read(scratch("lie.zst"), 5000, &out, &bytes, &e), E_INPUT);
    packed[5]--;
    for (size_t cut = 0; cut < n; cut++) {
        e = (struct err){0};
        scratch_write("cut.zst", packed, cut);
        ck_assert_msg(packed_read(scratch("cut.zst"), 5000, &out, &bytes, &e) == E_INPUT, "cut at %zu", cut);
    }
    memcpy(packed + n, "tail", 4);
    e = (struct err){0};
    scratch_write("tail.zst", packed, n + 4);
    ck_assert_int_eq(packed_read(scratch("tail.zst"), 5000, &out, &bytes, &e), E_INPUT);
}
END_TEST

/* --- row hashes --- */

#define FULL "goldens/tiny-dense-nvfp4.strict.eager"

static void copy_rows(size_t most)
{
    void *data;
    size_t bytes;
    struct err e = {0};
    ck_assert_int_eq(packed_read(FULL ".decode.rows.sha256.zst", 1 << 20, &data, &bytes, &e), OK);
    scratch_write("g.decode.rows.sha256", data, bytes < most ? bytes : most);
    free(data);
}

START_TEST(row_hashes_come_with_the_golden_they_lie_beside)
{
    struct golden *g;
    struct err e = {0};
    void *data;
    char hex[SHA256_HEX_SIZE];
    size_t bytes, at = 1;
    ck_assert_msg(golden_read(FULL ".jsonl.zst", &g, &e) == OK, "%s", e.text);
    ck_assert_int_eq(packed_read(FULL ".decode.rows.sha256.zst", 1 << 20, &data, &bytes, &e), OK);
    ck_assert_mem_eq(data, "8a600362d8e58dc577c479a6229fc922704c15e6ee4209af86d18d75fed59565\n", SHA256_HEX_SIZE);
    for (int p = 0; p < g->prompts; p++)
        for (int r = 0; r < g->prompt[p].n; r++, at++) {
            sha256_hex(g->prompt[p].decode.row_sha256 + (size_t)r * SHA256_BYTES, hex);
            ck_assert_mem_eq(hex, (char *)data + at * SHA256_HEX_SIZE, 64);
        }
    ck_assert_uint_eq(at, bytes / SHA256_HEX_SIZE);
    free(data);
    golden_free(g);
}
END_TEST

START_TEST(row_hashes_that_do_not_fit_their_golden_are_refused)
{
    static const struct {
        size_t most;
        const char *why;
    } cases[] = {{SHA256_HEX_SIZE * 2048, "fewer"}, {SHA256_HEX_SIZE * 2000 + 9, "cut"}, {0, "cut"}, {1 << 20, NULL}};
    void *data;
    size_t bytes;
    struct err e = {0};
    struct golden *g;
    ck_assert_int_eq(packed_read(FULL ".jsonl.zst", 1 << 24, &data, &bytes, &e), OK);
    scratch_write("g.jsonl", data, bytes);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        e = (struct err){0};
        copy_rows(cases[i].most);
        int rc = golden_read(scratch("g.jsonl"), &g, &e);
        ck_assert_msg(rc == (cases[i].why ? E_INPUT : OK), "case %zu: %s", i, e.text);
        ck_assert_msg(!rc || strstr(e.text, cases[i].why), "%s", e.text);
        if (!rc)
            golden_free(g);
    }
    free(data);
}
END_TEST

/* --- batteries --- */

#define BATTERY(more, prompts)                                                                                         \
    "{\"battery\":\"b\",\"max_new_tokens\":4,\"stop_at_eos\":true" more ",\"prompts\":[" prompts "]}"
#define ONE "{\"name\":\"p\",\"ids\":[1,2]}"

START_TEST(a_battery_takes_its_razor_from_itself_or_from_beside_it)
{
    static const struct {
        const char *battery, *side;
        double ulp, cap;
    } cases[] = {
        {BATTERY("", ONE), "{}", 2, 0.5},
        {BATTERY("", ONE), "{\"b\":{\"ulp\":4,\"cap_nats\":0.25}}", 4, 0.25},
        {BATTERY(",\"razor\":{\"ulp\":1,\"cap_nats\":1}", ONE), "{\"b\":{\"ulp\":4,\"cap_nats\":0.25}}", 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct battery *b;
        struct err e = {0};
        scratch_text("b.json", cases[i].battery);
        scratch_text("razor.json", cases[i].side);
        ck_assert_msg(battery_read(scratch("b.json"), &b, &e) == OK, "%s", e.text);
        ck_assert(b->razor_ulp == cases[i].ulp && b->razor_cap_nats == cases[i].cap);
        ck_assert_int_eq(battery_write(scratch("again.json"), b, &e), OK);
        battery_free(b);
        ck_assert_msg(battery_read(scratch("again.json"), &b, &e) == OK, "%s", e.text);
        ck_assert(b->razor_ulp == cases[i].ulp && b->razor_cap_nats == cases[i].cap);
        ck_assert_int_eq(b->prompt[0].ids[1], 2);
        battery_free(b);
    }
}
END_TEST

START_TEST(shipped_batteries_are_those_that_the_goldens_name)
{
    static const struct {
        const char *name, *sha256;
        int prompts;
        double ulp;
    } all[] = {{"smoke", "4cd21f10c609a5b57c037abcaf8e99b0e6353a95bb51d85ac7d1e531063b51f7", 6, 2},
               {"strict", "81ecca41147533586f0dd5f306687f4dba6cfb9a2439892e4c3fe085666897b4", 32, 2},
               {"chat", "e13571f572d59da6f8fe07db824a14f8f4f1b2b6c28b745c834749b46fa3ee83", 32, 4}};
    for (int i = 0; i < 3; i++) {
        char path[64];
        struct battery *b;
        struct err e = {0};
        snprintf(path, sizeof path, "batteries/%s.json", all[i].name);
        ck_assert_msg(battery_read(path, &b, &e) == OK, "%s", e.text);
        ck_assert_str_eq(b->sha256, all[i].sha256);
        ck_assert_int_eq(b->prompts, all[i].prompts);
        ck_assert(b->razor_ulp == all[i].ulp && b->razor_cap_nats == 0.5);
        battery_free(b);
    }
}
END_TEST

START_TEST(a_battery_that_says_too_much_or_too_little_is_refused)
{
    static const char *const bad[][2] = {
        {BATTERY("", ""), "empty battery"},
        {BATTERY(",\"colour\":1", ONE), "unknown key \"colour\""},
        {BATTERY("", ONE "," ONE), "appears twice"},
        {BATTERY("", "{\"name\":\"p\",\"ids\":[-1]}"), "\"ids\"[0]"},
        {BATTERY("", "{\"name\":\"p\",\"ids\":[NaN]}"), "not JSON"},
        {BATTERY(",\"note\":\"a\",\"note\":\"b\"", ONE), "duplicate"},
        {BATTERY(",\"razor\":{\"ulp\":-1,\"cap_nats\":1}", ONE), "ulp must lie"},
        {BATTERY(",\"razor\":{\"ulp\":1}", ONE), "\"cap_nats\" is missing"},
        {"", "not JSON"},
        {"[]", "not an object"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct battery *b;
        struct err e = {0};
        scratch_text("bad.json", bad[i][0]);
        ck_assert_int_eq(battery_read(scratch("bad.json"), &b, &e), E_INPUT);
        ck_assert_msg(strstr(e.text, bad[i][1]) && strstr(e.text, "bad.json"), "%zu: %s", i, e.text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("files");
    TCase *t = tcase_create("files");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_test(t, what_could_not_be_written_again_is_refused);
    tcase_add_test(t, numbers_out_of_their_range_are_refused);
    tcase_add_test(t, texts_and_numbers_of_the_header_come_back_byte_for_byte);
    tcase_add_test(t, a_bomb_is_refused_by_what_it_weighs);
    tcase_add_test(t, a_frame_that_lies_about_its_content_is_refused);
    tcase_add_test(t, row_hashes_come_with_the_golden_they_lie_beside);
    tcase_add_test(t, row_hashes_that_do_not_fit_their_golden_are_refused);
    tcase_add_test(t, a_battery_takes_its_razor_from_itself_or_from_beside_it);
    tcase_add_test(t, shipped_batteries_are_those_that_the_goldens_name);
    tcase_add_test(t, a_battery_that_says_too_much_or_too_little_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
