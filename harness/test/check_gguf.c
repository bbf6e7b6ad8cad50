/* GGUF: values of every type, hostile files, and a whole conversion whose rows must come back in order. */
#include "harness/models/convert.h"
#include "harness/models/gguf.h"
#include "harness/models/load.h"
#include "harness/models/round.h"
#include "harness/test/help_folder.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file under construction. */
static uint8_t file[1 << 16];
static size_t at;

static void number(uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        file[at++] = (uint8_t)(v >> 8 * i);
}

static void string(const char *text)
{
    number(strlen(text), 8);
    memcpy(file + at, text, strlen(text));
    at += strlen(text);
}

static void key_int(const char *name, uint32_t v)
{
    string(name);
    number(GGUF_U32, 4);
    number(v, 4);
}

static void key_real(const char *name, float v)
{
    string(name);
    number(GGUF_F32, 4);
    number(bits_of_float(v), 4);
}

static void key_text(const char *name, const char *v)
{
    string(name);
    number(GGUF_STRING, 4);
    string(v);
}

static void header(uint64_t tensors, uint64_t keys)
{
    at = 0;
    memcpy(file, "GGUF", 4);
    at = 4;
    number(3, 4);
    number(tensors, 8);
    number(keys, 8);
}

/* cols 0: one dimension. */
static void entry(const char *name, uint64_t rows, uint64_t cols, uint32_t type, uint64_t offset)
{
    string(name);
    number(cols ? 2 : 1, 4);
    if (cols)
        number(cols, 8);
    number(rows, 8);
    number(type, 4);
    number(offset, 8);
}

static void align(void)
{
    while (at % 32)
        file[at++] = 0;
}

static void save(void)
{
    scratch_write("x.gguf", file, at);
}

static void must_refuse(int code, const char *text)
{
    struct gguf g;
    struct err e = {0};
    save();
    int rc = gguf_open(scratch("x.gguf"), &g, &e);
    ck_assert_msg(rc != OK, "accepted, \"%s\" expected", text);
    ck_assert_msg(rc == code, "%s: %s", err_name(rc), e.text);
    CHECK_HOLDS(e, text);
    CHECK_HOLDS(e, scratch("x.gguf"));
}

/* One tensor of one row, decoded. */
static void decode(uint32_t type, const uint8_t *data, size_t bytes, int count, float *out)
{
    struct gguf g;
    struct err e = {0};
    header(1, 0);
    entry("t", (uint64_t)count, 0, type, 0);
    align();
    memcpy(file + at, data, bytes);
    at += bytes;
    save();
    ck_assert_msg(gguf_open(scratch("x.gguf"), &g, &e) == OK, "%s", e.text);
    const struct gguf_tensor *t = gguf_tensor(&g, "t");
    ck_assert(t && t->bytes == bytes && t->shape[0] == count);
    gguf_decode(t, out);
    gguf_close(&g);
}

START_TEST(q4_1_is_scale_times_nibble_plus_minimum)
{
    uint8_t b[20] = {0x00, 0x38, 0x00, 0xbc}; /* 0.5 and -1 */
    float out[32];
    for (int i = 0; i < 16; i++)
        b[4 + i] = (uint8_t)(i | (15 - i) << 4);
    decode(GT_Q4_1, b, sizeof b, 32, out);
    for (int i = 0; i < 16; i++) {
        ck_assert(out[i] == 0.5f * (float)i - 1);
        ck_assert(out[16 + i] == 0.5f * (float)(15 - i) - 1);
    }
}
END_TEST

START_TEST(q8_0_is_scale_times_byte)
{
    uint8_t b[34] = {0x00, 0x34}; /* 0.25 */
    float out[32];
    for (int i = 0; i < 32; i++)
        b[2 + i] = (uint8_t)(i * 8 - 128);
    decode(GT_Q8_0, b, sizeof b, 32, out);
    for (int i = 0; i < 32; i++)
        ck_assert(out[i] == 0.25f * (float)(i * 8 - 128));
}
END_TEST

/* Encodes a known ramp by the layout's own description and reads it back. */
START_TEST(q6_k_puts_its_bits_together)
{
    uint8_t b[210] = {0};
    float out[256];
    for (int i = 0; i < 256; i++) {
        int q = i * 37 % 64, half = i / 128, in_half = i % 128, quarter = in_half / 32, lane = in_half % 32;
        b[64 * half + 32 * (quarter % 2) + lane] |= (uint8_t)((q & 15) << (quarter / 2 * 4));
        b[128 + 32 * half + lane] |= (uint8_t)(q >> 4 << 2 * quarter);
    }
    for (int i = 0; i < 16; i++)
        b[192 + i] = (uint8_t)(i - 8);
    b[208] = 0x00;
    b[209] = 0x40; /* 2 */
    decode(GT_Q6_K, b, sizeof b, 256, out);
    for (int i = 0; i < 256; i++)
        ck_assert(out[i] == 2.0f * (float)(i / 16 - 8) * (float)(i * 37 % 64 - 32));
}
END_TEST

START_TEST(plain_types_keep_their_bits)
{
    static const uint8_t f32[8] = {0, 0, 0x80, 0x3f, 1, 0, 0, 0x80}, f16[4] = {0x00, 0x3c, 0x01, 0x80},
                         bf16[4] = {0x80, 0x3f, 0x00, 0xc0};
    float out[2];
    decode(GT_F32, f32, 8, 2, out);
    ck_assert(out[0] == 1 && bits_of_float(out[1]) == 0x80000001);
    decode(GT_F16, f16, 4, 2, out);
    ck_assert(out[0] == 1 && out[1] == -0x1p-24f);
    decode(GT_BF16, bf16, 4, 2, out);
    ck_assert(out[0] == 1 && out[1] == -2);
}
END_TEST

START_TEST(a_lying_header_is_refused)
{
    header(1, 0);
    file[0] = 'g';
    must_refuse(E_INPUT, "not a GGUF file");
    header(0, 0);
    file[4] = 1;
    must_refuse(E_UNSUPPORTED, "version 1");
    header((uint64_t)1 << 60, 0);
    must_refuse(E_INPUT, "absurd");
    header(0, UINT64_MAX);
    must_refuse(E_INPUT, "absurd");
    header(0, 1);
    number(UINT64_MAX, 8);
    must_refuse(E_INPUT, "truncated");
    header(0, 1);
    string("");
    key_int("pad", 0);
    must_refuse(E_INPUT, "is empty");
    header(0, 2);
    key_int("twice", 1);
    key_int("twice", 2);
    must_refuse(E_INPUT, "key \"twice\" is there twice");
    header(0, 1);
    string("odd");
    number(77, 4);
    must_refuse(E_INPUT, "value type 77");
    header(0, 1);
    string("nested");
    number(GGUF_ARRAY, 4);
    number(GGUF_ARRAY, 4);
    number(1, 8);
    must_refuse(E_INPUT, "value type 9");
    header(0, 1);
    string("long");
    number(GGUF_ARRAY, 4);
    number(GGUF_F64, 4);
    number((uint64_t)1 << 61, 8);
    must_refuse(E_INPUT, "truncated");
    header(0, 1);
    key_int("general.alignment", 24);
    must_refuse(E_INPUT, "power of two");
    header(0, 1);
    key_int("general.alignment", 0);
    must_refuse(E_INPUT, "general.alignment");
}
END_TEST

static void tensor_refused(uint64_t rows, uint64_t cols, uint32_t type, uint64_t offset, int code, const char *text)
{
    header(1, 0);
    entry("t", rows, cols, type, offset);
    align();
    at += 64;
    must_refuse(code, text);
}

START_TEST(a_lying_tensor_is_refused)
{
    memset(file, 0, sizeof file);
    tensor_refused(16, 0, 99, 0, E_UNSUPPORTED, "type 99 is not read");
    tensor_refused(16, 0, 2, 0, E_UNSUPPORTED, "type 2 is not read");
    tensor_refused(17, 0, GT_F32, 0, E_INPUT, "reach beyond");
    tensor_refused(8, 0, GT_F32, 64, E_INPUT, "reach beyond");
    tensor_refused(8, 0, GT_F32, UINT64_MAX - 31, E_INPUT, "reach beyond");
    tensor_refused(8, 0, GT_F32, 4, E_INPUT, "not aligned");
    tensor_refused(0, 0, GT_F32, 0, E_INPUT, "absurd");
    tensor_refused(UINT64_MAX, 0, GT_F32, 0, E_INPUT, "absurd");
    tensor_refused((uint64_t)1 << 40, (uint64_t)1 << 40, GT_F32, 0, E_INPUT, "absurd");
    tensor_refused(1, 33, GT_Q8_0, 0, E_INPUT, "no multiple of a Q8_0 block");
    header(1, 0);
    string("t");
    number(5, 4);
    at += 128;
    must_refuse(E_INPUT, "5 dimensions");
    header(2, 0);
    entry("t", 8, 0, GT_F32, 0);
    entry("t", 8, 0, GT_F32, 32);
    align();
    at += 64;
    must_refuse(E_INPUT, "\"t\" is there twice");
    header(2, 0);
    entry("t", 16, 0, GT_F32, 0);
    entry("u", 8, 0, GT_F32, 32);
    align();
    at += 64;
    must_refuse(E_INPUT, "overlap");
}
END_TEST

/* llama: hidden 32, 2 heads of 16, one key-value head, one layer; every weight is its place in the checkpoint. */
#define HEADS 2
#define HEAD  16

static float value_of(int tensor, int row, int col)
{
    return (float)((tensor + row + (col & 3) * 64) % 256); /* exact in bf16 */
}

/* Rows of q and k as llama.cpp's converter permutes them: [2, half] of a head becomes [half, 2]. */
static void matrix(int tensor, int rows, int cols, int permuted)
{
    align();
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < cols; c++) {
            int head = r / HEAD, pair = r % HEAD / 2, side = r % 2;
            int from = permuted ? head * HEAD + side * (HEAD / 2) + pair : r;
            number(bits_of_float(value_of(tensor, from, c)), 4);
        }
}

static const struct {
    const char *name;
    int rows, cols, permuted;
} parts[] = {
    {"token_embd.weight", 5, 32, 0},     {"output_norm.weight", 32, 0, 0},        {"blk.0.attn_norm.weight", 32, 0, 0},
    {"blk.0.ffn_norm.weight", 32, 0, 0}, {"blk.0.attn_q.weight", 32, 32, 1},      {"blk.0.attn_k.weight", 16, 32, 1},
    {"blk.0.attn_v.weight", 16, 32, 0},  {"blk.0.attn_output.weight", 32, 32, 0}, {"blk.0.ffn_gate.weight", 64, 32, 0},
    {"blk.0.ffn_up.weight", 64, 32, 0},  {"blk.0.ffn_down.weight", 32, 64, 0},
};
#define PARTS (int)(sizeof parts / sizeof *parts)

static void texts(const char *name, int n, const char *const *text)
{
    string(name);
    number(GGUF_ARRAY, 4);
    number(GGUF_STRING, 4);
    number((uint64_t)n, 8);
    for (int i = 0; i < n; i++)
        string(text[i]);
}

/* `extra`: one more tensor at the end; `skip`: a part that is left out, -1 none. */
static void build_llama(int skip, const char *extra, const char *architecture, const char *token)
{
    const char *const tokens[] = {"<end>", "a", "b", "ab", token}, *const merges[] = {"a b"};
    uint64_t offset = 0;
    memset(file, 0, sizeof file);
    header((uint64_t)(PARTS - (skip >= 0) + (extra != NULL)), 15);
    key_text("general.architecture", architecture);
    key_int("llama.embedding_length", 32);
    key_int("llama.block_count", 1);
    key_int("llama.attention.head_count", HEADS);
    key_int("llama.attention.head_count_kv", 1);
    key_int("llama.feed_forward_length", 64);
    key_int("llama.context_length", 128);
    key_real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    key_real("llama.rope.freq_base", 5000);
    key_text("tokenizer.ggml.model", "gpt2");
    key_text("tokenizer.ggml.pre", "smollm");
    texts("tokenizer.ggml.tokens", 5, tokens);
    texts("tokenizer.ggml.merges", 1, merges);
    key_int("tokenizer.ggml.eos_token_id", 2);
    key_int("tokenizer.ggml.bos_token_id", 1);
    for (int i = 0; i < PARTS; i++) {
        if (i != skip)
            entry(parts[i].name, (uint64_t)parts[i].rows, (uint64_t)parts[i].cols, GT_F32, offset);
        offset += (uint64_t)(parts[i].rows * (parts[i].cols ? parts[i].cols : 1) * 4);
    }
    if (extra)
        entry(extra, 8, 0, GT_F32, offset);
    for (int i = 0; i < PARTS; i++)
        matrix(i, parts[i].rows, parts[i].cols ? parts[i].cols : 1, parts[i].permuted);
    at += 64;
    save();
}

static void check_rows(const struct tensor *t, int tensor)
{
    const uint16_t *p = t->data;
    int cols = t->rank > 1 ? (int)t->shape[1] : 1;
    for (int r = 0; r < t->shape[0]; r++)
        for (int c = 0; c < cols; c++)
            ck_assert_msg(float_of_bf16(p[r * cols + c]) == value_of(tensor, r, c), "%s [%d,%d]", t->name, r, c);
}

START_TEST(a_llama_file_becomes_a_folder_with_its_rows_in_order)
{
    struct err e = {0};
    struct model *m;
    build_llama(-1, NULL, "llama", "caf\xc3\xa9");
    ck_assert_msg(convert_gguf(scratch("x.gguf"), scratch("out"), NULL, &e) == OK, "%s", e.text);
    ck_assert_msg(model_open(scratch("out"), &m, &e) == OK, "%s", e.text);
    ck_assert_str_eq(m->config.arch, "llama");
    ck_assert(m->config.tied && m->config.rope_theta == 5000 && m->config.norm_eps == 1e-5f);
    ck_assert(m->config.vocab == 5 && m->config.max_positions == 128 && m->config.head_dim == 16);
    ck_assert(m->config.eos_count == 1 && m->config.eos[0] == 2);
    const struct layer *l = &m->layer[0];
    const struct tensor *const got[] = {&m->embed,       &m->final_norm, &l->input_norm, &l->post_norm,
                                        &l->q.weight,    &l->k.weight,   &l->v.weight,   &l->o.weight,
                                        &l->gate.weight, &l->up.weight,  &l->down.weight};
    for (int i = 0; i < PARTS; i++)
        check_rows(got[i], i);
    model_close(m);
    json_t *o = json_load_file(scratch("out/tokenizer.json"), 0, NULL), *b = json_object_get(o, "model");
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(b, "vocab"), "caf\xc3\xa9")), 4);
    ck_assert_str_eq(json_string_value(json_array_get(json_array_get(json_object_get(b, "merges"), 0), 1)), "b");
    json_decref(o);
}
END_TEST

static void conversion_refused(int code, const char *text)
{
    struct err e = {0};
    struct model *m;
    int rc = convert_gguf(scratch("x.gguf"), scratch("out"), NULL, &e);
    ck_assert_msg(rc == code, "%s: %s", err_name(rc), e.text);
    CHECK_HOLDS(e, text);
    ck_assert_int_eq(model_open(scratch("out"), &m, NULL), E_MISSING);
}

START_TEST(a_file_that_is_no_whole_model_is_not_converted)
{
    build_llama(-1, NULL, "mamba", "c");
    conversion_refused(E_UNSUPPORTED, "\"mamba\" is not converted");
    build_llama(9, NULL, "llama", "c");
    conversion_refused(E_INPUT, "tensor \"blk.0.ffn_up.weight\" is missing");
    build_llama(-1, "rope_freqs.weight", "llama", "c");
    conversion_refused(E_UNSUPPORTED, "rotary scaling");
    build_llama(-1, "blk.0.attn_sinks", "llama", "c");
    conversion_refused(E_UNSUPPORTED, "1 of 12 tensors have no place");
    build_llama(-1, NULL, "llama", "\xff");
    conversion_refused(E_INPUT, "token 4 is not UTF-8");
    build_llama(-1, NULL, "llama", "ab");
    conversion_refused(E_INPUT, "token 4 is there twice");
}
END_TEST

START_TEST(every_truncation_of_the_header_is_refused)
{
    build_llama(-1, NULL, "llama", "c");
    for (size_t n = 0; n < 2200 && n < at; n++) {
        struct gguf g;
        struct err e = {0};
        scratch_write("cut", file, n);
        ck_assert_int_ne(gguf_open(scratch("cut"), &g, &e), OK);
        ck_assert(e.text[0] != 0);
    }
}
END_TEST

START_TEST(a_changed_byte_is_refused_or_stays_inside_the_file)
{
    build_llama(-1, NULL, "llama", "c");
    for (size_t i = 0; i < 1900; i++) {
        struct gguf g;
        struct err e = {0};
        uint8_t kept = file[i];
        file[i] = (uint8_t)(i % 2 ? 0xff : kept ^ 1);
        scratch_write("flip", file, at);
        file[i] = kept;
        if (gguf_open(scratch("flip"), &g, &e))
            continue;
        for (int t = 0; t < g.tensors; t++)
            ck_assert(g.tensor[t].data + g.tensor[t].bytes <= (const uint8_t *)g.map.data + g.map.bytes);
        gguf_close(&g);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gguf");
    TCase *t = tcase_create("file");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, q4_1_is_scale_times_nibble_plus_minimum);
    tcase_add_test(t, q8_0_is_scale_times_byte);
    tcase_add_test(t, q6_k_puts_its_bits_together);
    tcase_add_test(t, plain_types_keep_their_bits);
    tcase_add_test(t, a_lying_header_is_refused);
    tcase_add_test(t, a_lying_tensor_is_refused);
    tcase_add_test(t, a_llama_file_becomes_a_folder_with_its_rows_in_order);
    tcase_add_test(t, a_file_that_is_no_whole_model_is_not_converted);
    tcase_add_test(t, every_truncation_of_the_header_is_refused);
    tcase_add_test(t, a_changed_byte_is_refused_or_stays_inside_the_file);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
