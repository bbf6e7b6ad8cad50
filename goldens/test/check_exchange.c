/* The exchange format: what ships comes out as it went in, and what is malformed is refused with its place. */
#include "goldens/exchange.h"
#include "goldens/text.h"
#include "harness/test/help_folder.h"
#include "harness/test/help_golden.h"

#include <glob.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#define LIMIT ((size_t)1 << 28)

static glob_t shipped;

START_TEST(a_shipped_golden_is_written_as_it_was_read)
{
    const char *path = shipped.gl_pathv[_i];
    struct err e = {0};
    struct golden *g;
    void *before;
    char *after;
    size_t n, m;
    ck_assert_msg(packed_read(path, LIMIT, &before, &n, &e) == OK, "%s", e.text);
    ck_assert_msg(golden_read(path, &g, &e) == OK, "%s", e.text);
    ck_assert_msg(golden_text(g, &after, &m, &e) == OK, "%s", e.text);
    ck_assert_msg(n == m && !memcmp(before, after, n), "%s: the text changed", path);
    ck_assert_int_gt(g->prompts, 0);
    golden_free(g);
    free(before);
    free(after);
}
END_TEST

START_TEST(a_file_goes_out_and_comes_in_packed_or_plain)
{
    static const char *const name[] = {"g.jsonl", "g.jsonl.zst"};
    struct golden *g = toy_golden(2, 3), *h;
    struct err e = {0};
    char *a, *b;
    size_t n, m;
    g->prompt[1].decode.top_ids[3] = -1; /* a short list */
    ck_assert_int_eq(golden_text(g, &a, &n, &e), OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(golden_write(scratch(name[i]), g, &e) == OK, "%s", e.text);
        ck_assert_msg(golden_read(scratch(name[i]), &h, &e) == OK, "%s", e.text);
        ck_assert_int_eq(golden_text(h, &b, &m, &e), OK);
        ck_assert_uint_eq(n, m);
        ck_assert_mem_eq(a, b, n);
        free(b);
        golden_free(h);
    }
    free(a);
    golden_free(g);
}
END_TEST

static const struct {
    double value;
    const char *text; /* as Python's repr writes it */
} real[] = {
    {0.0, "0.0"},
    {-0.0, "-0.0"},
    {0.1, "0.1"},
    {-0.1, "-0.1"},
    {1.0, "1.0"},
    {10.0, "10.0"},
    {-17.625, "-17.625"},
    {0.5, "0.5"},
    {0.0001, "0.0001"},
    {0.00012, "0.00012"},
    {1e-05, "1e-05"},
    {1.5e-05, "1.5e-05"},
    {1e-100, "1e-100"},
    {123456.0, "123456.0"},
    {123456789012345.6, "123456789012345.6"},
    {1e15, "1000000000000000.0"},
    {9007199254740993.0, "9007199254740992.0"},
    {1e16, "1e+16"},
    {1.25e16, "1.25e+16"},
    {1e22, "1e+22"},
    {1e100, "1e+100"},
    {5e-324, "5e-324"},
    {2.2250738585072014e-308, "2.2250738585072014e-308"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
    {0.1f, "0.10000000149011612"},
    {1.0 / 3, "0.3333333333333333"},
    {2.0 / 3, "0.6666666666666666"},
    {299792458.0, "299792458.0"},
};

START_TEST(a_real_has_its_shortest_decimal)
{
    struct text t = {0};
    text_real(&t, real[_i].value);
    ck_assert_str_eq(t.data, real[_i].text);
    double back = strtod(t.data, NULL);
    ck_assert_mem_eq(&back, &real[_i].value, sizeof back);
    free(t.data);
}
END_TEST

START_TEST(every_bf16_reads_back_as_itself)
{
    struct text t = {0};
    for (uint32_t i = 0; i < 0x10000; i++) {
        uint32_t bits = i << 16;
        float x, y;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            continue;
        t.bytes = 0;
        text_real(&t, x);
        y = (float)strtod(t.data, NULL);
        ck_assert_msg(!memcmp(&x, &y, sizeof x), "%a was written as %s", x, t.data);
    }
    free(t.data);
}
END_TEST

/* --- hostile text: one good golden of two prompts, one thing changed --- */

#define HEADER                                                                                                         \
    "{\"schema\":\"assay-golden/1\",\"model\":\"m\",\"model_files\":{},\"battery\":\"b\",\"arm\":\"eager\","           \
    "\"top_k\":2,\"oracle\":{\"name\":\"o\"}}\n"
#define VIEW "{\"top_ids\":[[5,6],[7,8]],\"top_logits\":[[2.0,1.0],[2.0,1.0]],\"logsumexp\":[2.5,2.5]}"
#define PROMPT(name)                                                                                                   \
    "{\"prompt\":\"" name "\",\"prompt_ids\":[1,2],\"ids\":[5,7],\"finish\":\"length\",\"repeats\":[],\"batch\":["     \
    "{\"ids\":null,\"top_equal_to_first\":true}],\"decode\":" VIEW ",\"prefill\":" VIEW                                \
    ",\"decode_rows_equal_prefill_rows\":2}\n"
#define GOOD HEADER PROMPT("p1") PROMPT("p2")

/* The first `was` at or after the first `after` becomes `is`. */
static const struct {
    const char *after, *was, *is;
    const char *place, *reason;
} hostile[] = {
    {"", "assay-golden/1", "assay-golden/2", ":1:", "schema \"assay-golden/2\""},
    {"", "\"schema\":\"assay-golden/1\",", "", ":1:", "\"schema\" is missing"},
    {"", ",\"oracle\":{\"name\":\"o\"}", "", ":1:", "\"oracle\""},
    {"", "\"oracle\":{\"name\":\"o\"}", "\"oracle\":\"vllm\"", ":1:", "\"oracle\""},
    {"", "\"model_files\":{}", "\"model_files\":[]", ":1:", "\"model_files\""},
    {"", "\"model\":\"m\"", "\"model\":\"../m\"", ":1:", "\"model\" must be a name"},
    {"", "\"model\":\"m\"", "\"model\":\"\"", ":1:", "\"model\" must be a name"},
    {"", "\"model\":\"m\"", "\"model\":7", ":1:", "\"model\" is not a string"},
    {"", "\"top_k\":2", "\"top_k\":-1", ":1:", "\"top_k\" is -1"},
    {"", "\"top_k\":2", "\"top_k\":99999999", ":1:", "\"top_k\" is 99999999"},
    {"", "\"top_k\":2", "\"top_k\":2.0", ":1:", "\"top_k\" is not an integer"},
    {"", "\"arm\":", "\"model\":\"x\",\"arm\":", ":1:", "duplicate"},
    {"p1", "\"ids\":[5,7]", "\"ids\":[5,7],\"ids\":[5,7]", ":2:", "duplicate"},
    {"p2", "\"finish\":", "\"finish\":\"stop\",\"finish\":", ":3:", "duplicate"},
    {"p2", "2.0", "NaN", ":3:", "not JSON"},
    {"p2", "2.0", "Infinity", ":3:", "not JSON"},
    {"p2", "2.0", "1e999", ":3:", "not JSON"},
    {"p2", "2.0", "1e300", ":3:", "is no fp32 number"},
    {"p2", "2.0", "2.1", ":3:", "is no fp32 number"},
    {"p2", "2.0", "\"2\"", ":3:", "is no fp32 number"},
    {"p1", "[1,2]", "[1,-2]", ":2:", "prompt_ids"},
    {"p1", "[5,7]", "[-5,7]", ":2:", "ids"},
    {"p1", "[5,7]", "[5,2147483648]", ":2:", "ids"},
    {"p1", "[5,7]", "[5,7.0]", ":2:", "ids"},
    {"p1", "[5,7]", "[5,7,9]", ":2:", "decode: top_ids, top_logits and logsumexp must have a row for each of the 3"},
    {"p1", "[5,7]", "5", ":2:", "ids"},
    {"p1", "[[5,6]", "[[5,-1]", ":2:", "decode: row 0: top id 1 is no token id"},
    {"p1", "[[5,6]", "[[5,4294967296]", ":2:", "decode: row 0: top id 1 is no token id"},
    {"p1", "[[5,6]", "[[5,6,7]", ":2:", "decode: row 0: top_ids and top_logits must be arrays of one length"},
    {"p1", "[[5,6]", "[[5]", ":2:", "decode: row 0: top_ids and top_logits must be arrays of one length"},
    {"p1", "[[5,6],", "[", ":2:", "a row for each of the 2 ids"},
    {"p1", "[2.5,2.5]", "[2.5]", ":2:", "a row for each of the 2 ids"},
    {"p1", "[2.5,2.5]", "[2.5,null]", ":2:", "row 1: logsumexp is no number"},
    {"p2", "[2.0,1.0]", "[1.0,2.0]", ":3:", "decode: row 0: values must not increase (place 1)"},
    {"p2", "\"decode\":{", "\"decoded\":{", ":3:", "unknown key \"decoded\""},
    {"p2", "\"decode\":" VIEW ",", "", ":3:", "decode: top_ids, top_logits and logsumexp"},
    {"p2", "[[5,6]", "[[5,5]", ":3:", "decode: row 0: token 5 is listed twice"},
    {"p2", "\"prefill\":{\"top_ids\":[[5,6],", "\"prefill\":{\"top_ids\":[", ":3:", "prefill: "},
    {"p2", "\"finish\":\"length\"", "\"finish\":\"eos\"", ":3:", "finish \"eos\""},
    {"p2", "\"repeats\":[]", "\"repeats\":3", ":3:", "\"repeats\" is not an array"},
    {"p2", "{\"ids\":null,", "{", ":3:", "batch pass 0 has no \"ids\""},
    {"p2", "{\"ids\":null,", "{\"ids\":[-1],", ":3:", "ids"},
    {"p2", "prefill_rows\":2}", "prefill_rows\":3}", ":3:", "decode_rows_equal_prefill_rows"},
    {"p2", "prefill_rows\":2}", "prefill_rows\":-1}", ":3:", "decode_rows_equal_prefill_rows"},
    {"p2", "prefill_rows\":2}", "prefill_rows\":true}", ":3:", "decode_rows_equal_prefill_rows"},
    {"p1", "p2", "p1", ":3:", "prompt \"p1\" appears twice"},
    {"p1", "\"p2\"", "\"\"", ":3:", "must have a name of 1 to 63 bytes"},
    {"p1", "p2", "p2\\u0000x", ":3:", "not JSON"},
    {"p1", "p2", "p2\xff", ":3:", "not JSON"},
    {"p2", "prefill_rows\":2}\n", "prefill_rows\":2}", ":3:", "the file is cut"},
    {"p2", ",\"decode_rows_equal_prefill_rows\":2}\n", "", ":3:", "the file is cut"},
    {"p2", "prefill_rows\":2}\n", "prefill_rows\":2}\n\n", ":4:", "not JSON"},
    {"p2", "prefill_rows\":2}\n", "prefill_rows\":2}\n[]\n", ":4:", "not an object"},
    {"p2", "prefill_rows\":2}\n", "prefill_rows\":2} {}\n", ":3:", "not JSON"},
};

static char *edited(int i)
{
    const char *from = strstr(GOOD, hostile[i].after);
    const char *at = from ? strstr(from, hostile[i].was) : NULL;
    ck_assert_msg(at != NULL, "nothing to change: %s", hostile[i].was);
    const char *tail = at + strlen(hostile[i].was);
    size_t head = (size_t)(at - GOOD), room = strlen(GOOD) + strlen(hostile[i].is) + 1;
    char *out = malloc(room);
    snprintf(out, room, "%.*s%s%s", (int)head, GOOD, hostile[i].is, tail);
    return out;
}

static void golden_refused(const char *name, const char *place, const char *reason)
{
    struct golden *g = NULL;
    struct err e = {0};
    char file_and_line[600];
    int rc = golden_read(scratch(name), &g, &e);
    snprintf(file_and_line, sizeof file_and_line, "%s%s", scratch(name), place);
    ck_assert_msg(rc == E_INPUT, "accepted or another status (%d): %s", rc, reason);
    CHECK_HOLDS(e, file_and_line);
    CHECK_HOLDS(e, reason);
    ck_assert_ptr_null(strchr(e.text, '\n'));
    ck_assert_ptr_null(g);
}

START_TEST(a_malformed_line_is_refused_with_file_line_and_reason)
{
    char *text = edited(_i);
    scratch_text("g.jsonl", text);
    golden_refused("g.jsonl", hostile[_i].place, hostile[_i].reason);
    free(text);
}
END_TEST

START_TEST(the_text_that_the_hostile_ones_start_from_is_good)
{
    struct golden *g;
    struct err e = {0};
    char *text;
    size_t n;
    scratch_text("g.jsonl", GOOD);
    ck_assert_msg(golden_read(scratch("g.jsonl"), &g, &e) == OK, "%s", e.text);
    ck_assert_int_eq(g->prompts, 2);
    ck_assert_int_eq(golden_text(g, &text, &n, &e), OK);
    ck_assert_str_eq(text, GOOD);
    free(text);
    golden_free(g);
}
END_TEST

START_TEST(nothing_or_only_a_header_is_no_golden)
{
    struct golden *g = NULL;
    struct err e = {0};
    scratch_text("g.jsonl", "");
    golden_refused("g.jsonl", "", "empty");
    scratch_text("g.jsonl", HEADER);
    golden_refused("g.jsonl", "", "a header and no prompt");
    scratch_text("g.jsonl", PROMPT("p1") PROMPT("p2"));
    golden_refused("g.jsonl", ":1:", "\"schema\" is missing");
    scratch_text("g.jsonl.zst", "");
    golden_refused("g.jsonl.zst", "", "ends in the middle of a zstd frame");
    ck_assert_int_eq(golden_read(scratch("none.jsonl"), &g, &e), E_MISSING);
    CHECK_HOLDS(e, scratch("none.jsonl"));
}
END_TEST

static size_t packed(const char *text, char *out, size_t room)
{
    size_t n = ZSTD_compress(out, room, text, strlen(text), 3);
    ck_assert(!ZSTD_isError(n));
    return n;
}

/* Without its checksum a flipped bit may give other good text; it must never give a crash or an empty error. */
START_TEST(a_flipped_bit_of_a_zstd_file_is_an_error_or_another_golden)
{
    char out[2000];
    size_t n = packed(GOOD, out, sizeof out);
    for (size_t i = 0; i < n * 8; i += 3) {
        struct golden *g = NULL;
        struct err e = {0};
        out[i / 8] ^= (char)(1 << i % 8);
        scratch_write("g.jsonl.zst", out, n);
        int rc = golden_read(scratch("g.jsonl.zst"), &g, &e);
        ck_assert(rc == OK || (rc == E_INPUT && *e.text && !g));
        golden_free(g);
        out[i / 8] ^= (char)(1 << i % 8);
    }
}
END_TEST

START_TEST(a_decompression_bomb_is_refused_before_it_unfolds)
{
    const size_t big = (size_t)64 << 20, limit = (size_t)1 << 20;
    char *zeros = calloc(1, big), *out = malloc(ZSTD_compressBound(big));
    size_t n = ZSTD_compress(out, ZSTD_compressBound(big), zeros, big, 1), bytes;
    struct err e = {0};
    void *data = NULL;
    ck_assert(!ZSTD_isError(n) && n < 100000);
    scratch_write("bomb.zst", out, n);
    ck_assert_int_eq(packed_read(scratch("bomb.zst"), limit, &data, &bytes, &e), E_INPUT);
    CHECK_HOLDS(e, "bomb.zst: more than 1048576 bytes");
    ck_assert_ptr_null(data);
    e = (struct err){0};
    ck_assert_msg(packed_read(scratch("bomb.zst"), big, &data, &bytes, &e) == OK, "%s", e.text);
    ck_assert_uint_eq(bytes, big);
    ck_assert_mem_eq(data, zeros, big);
    free(data);
    data = NULL;
    ck_assert_int_eq(packed_read(scratch("bomb.zst"), big - 1, &data, &bytes, &e), E_INPUT);
    scratch_write("plain", zeros, limit + 1);
    e = (struct err){0};
    ck_assert_int_eq(packed_read(scratch("plain"), limit, &data, &bytes, &e), E_INPUT);
    CHECK_HOLDS(e, "1048577 bytes");
    free(zeros);
    free(out);
}
END_TEST

/* A child that may write no file above 4 KiB tries to replace one: 0 when it was refused as it should be. */
static int replace_in_child(const char *path, const char *data, size_t bytes)
{
    pid_t child = fork();
    int status;
    if (!child) {
        struct rlimit small = {4096, 4096};
        struct err e = {0};
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
        int rc = packed_write(path, data, bytes, &e);
        _exit(rc == E_IO && strstr(e.text, path) && strstr(e.text, "too large") ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

START_TEST(the_old_file_stays_when_the_new_one_cannot_be_completed)
{
    static const char *const name[] = {"f", "f.zst"};
    static char noise[100000];
    struct err e = {0};
    char part[600];
    void *data;
    size_t bytes;
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(rand() >> 7);
    for (int i = 0; i < 2; i++) {
        ck_assert_msg(packed_write(scratch(name[i]), "old", 3, &e) == OK, "%s", e.text);
        ck_assert_int_eq(replace_in_child(scratch(name[i]), noise, sizeof noise), 0);
        ck_assert_int_eq(packed_read(scratch(name[i]), 100, &data, &bytes, &e), OK);
        ck_assert_uint_eq(bytes, 3);
        ck_assert_mem_eq(data, "old", 3);
        free(data);
        snprintf(part, sizeof part, "%s.part", scratch(name[i]));
        ck_assert_int_ne(access(part, F_OK), 0);
        ck_assert_msg(packed_write(scratch(name[i]), noise, sizeof noise, &e) == OK, "%s", e.text);
        ck_assert_int_eq(packed_read(scratch(name[i]), LIMIT, &data, &bytes, &e), OK);
        ck_assert_uint_eq(bytes, sizeof noise);
        ck_assert_mem_eq(data, noise, bytes);
        free(data);
    }
    ck_assert_int_eq(packed_write(scratch("none/f"), "x", 1, &e), E_IO);
    CHECK_HOLDS(e, "none/f");
}
END_TEST

int main(void)
{
    if (glob("goldens/*.jsonl.zst", 0, NULL, &shipped)) {
        puts("goldens/*.jsonl.zst: none is here");
        return 77;
    }
    const int reals = (int)(sizeof real / sizeof *real), edits = (int)(sizeof hostile / sizeof *hostile);
    Suite *s = suite_create("exchange");
    TCase *t = tcase_create("exchange");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_loop_test(t, a_shipped_golden_is_written_as_it_was_read, 0, (int)shipped.gl_pathc);
    tcase_add_test(t, a_file_goes_out_and_comes_in_packed_or_plain);
    tcase_add_loop_test(t, a_real_has_its_shortest_decimal, 0, reals);
    tcase_add_test(t, every_bf16_reads_back_as_itself);
    tcase_add_test(t, the_text_that_the_hostile_ones_start_from_is_good);
    tcase_add_loop_test(t, a_malformed_line_is_refused_with_file_line_and_reason, 0, edits);
    tcase_add_test(t, nothing_or_only_a_header_is_no_golden);
    tcase_add_test(t, a_flipped_bit_of_a_zstd_file_is_an_error_or_another_golden);
    tcase_add_test(t, a_decompression_bomb_is_refused_before_it_unfolds);
    tcase_add_test(t, the_old_file_stays_when_the_new_one_cannot_be_completed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    globfree(&shipped);
    return failed != 0;
}
