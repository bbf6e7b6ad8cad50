/* The quantiser against the shipped models: an extract of the bf16 weights that they were made from gives their bytes.
 */
#include "goldens/exchange.h"
#include "harness/models/convert.h"
#include "harness/models/hf_json.h"
#include "harness/models/load.h"
#include "harness/models/quantize.h"
#include "harness/models/round.h"
#include "harness/test/help_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum weight_format format;
    int group;
} formats[] = {{"nvfp4", WF_NVFP4, 16}, {"mxfp4", WF_MXFP4, 32}, {"int4g128", WF_U4B8, 128}};

static struct model *opened(const char *folder)
{
    struct model *m = NULL;
    struct err e = {0};
    ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
    return m;
}

static void open_extract(struct safetensors *s)
{
    struct err e = {0};
    void *data;
    size_t bytes;
    ck_assert_msg(packed_read("harness/test/data/bf16-extract.safetensors.zst", 4 << 20, &data, &bytes, &e) == OK, "%s",
                  e.text);
    scratch_write("extract", data, bytes);
    free(data);
    ck_assert_msg(safetensors_open(scratch("extract"), s, &e) == OK, "%s", e.text);
}

/* A bf16 folder "src" with one layer: the attention of layer 2 of the dense model, and as its MLP the third expert of
 * layer 1 of the other. */
static void one_layer_model(const struct safetensors *x, const struct model *like)
{
    static const char *const prefix[][2] = {{"model.layers.2.", "model.layers.0."},
                                            {"model.layers.1.mlp.experts.3.", "model.layers.0.mlp."}};
    struct tensor_list l = {0};
    char name[256];
    int linears = 0;
    for (int i = 0; i < x->tensors; i++) {
        struct tensor t = x->tensor[i];
        const char *const *p = prefix[strncmp(t.name, prefix[0][0], strlen(prefix[0][0])) != 0];
        void *data;
        snprintf(name, sizeof name, "%s%s", p[1], t.name + strlen(p[0]));
        ck_assert_int_eq(tensor_list_new(&l, name, t.dtype, t.shape[0], t.rank > 1 ? t.shape[1] : 0, &data, NULL), OK);
        memcpy(data, t.data, t.bytes);
        linears += t.rank > 1;
    }
    ck_assert_int_eq(linears, 7);
    ck_assert_int_eq(tensor_list_borrow(&l, &like->embed, NULL), OK);
    ck_assert_int_eq(tensor_list_borrow(&l, &like->final_norm, NULL), OK);
    ck_assert_int_eq(safetensors_write(scratch("src/model.safetensors"), l.tensor, l.tensors, NULL), OK);
    tensor_list_free(&l);
    json_t *o = json_load_file("harness/test/data/tiny-dense-bf16.config.json", 0, NULL);
    json_object_set_new(o, "num_hidden_layers", json_integer(1));
    json_object_set_new(o, "intermediate_size", json_integer(256));
    ck_assert_int_eq(json_dump_file(o, scratch("src/config.json"), 0), 0);
    json_decref(o);
}

static void same_linear(const struct linear *a, const struct linear *b)
{
    ck_assert(a->format == b->format && a->packing == b->packing && a->group == b->group);
    ck_assert(a->weight.bytes == b->weight.bytes && a->scale.bytes == b->scale.bytes);
    ck_assert_int_eq(memcmp(a->weight.data, b->weight.data, a->weight.bytes), 0);
    ck_assert_int_eq(memcmp(a->scale.data, b->scale.data, a->scale.bytes), 0);
    ck_assert_int_eq(memcmp(&a->global_scale, &b->global_scale, sizeof a->global_scale), 0);
}

START_TEST(a_folder_quantises_to_the_shipped_bytes)
{
    char folder[128];
    struct safetensors x;
    struct err e = {0};
    snprintf(folder, sizeof folder, "batteries/models/tiny-dense-%s", formats[_i].name);
    struct model *want = opened(folder);
    snprintf(folder, sizeof folder, "batteries/models/tiny-moe-%s", formats[_i].name);
    struct model *moe = opened(folder);
    open_extract(&x);
    small_model("src", DT_BF16);
    one_layer_model(&x, want);
    ck_assert_msg(convert_quantize(scratch("src"), scratch("dst"), formats[_i].format, formats[_i].group, NULL, &e) ==
                      OK,
                  "%s", e.text);
    struct model *got = opened(scratch("dst"));
    const struct layer *a = &got->layer[0], *b = &want->layer[2];
    ck_assert_str_eq(got->quant, formats[_i].name);
    same_linear(&a->q, &b->q);
    same_linear(&a->k, &b->k);
    same_linear(&a->v, &b->v);
    same_linear(&a->o, &b->o);
    same_linear(&a->gate, &moe->layer[1].experts[3].gate);
    same_linear(&a->up, &moe->layer[1].experts[3].up);
    same_linear(&a->down, &moe->layer[1].experts[3].down);
    ck_assert_int_eq(memcmp(got->embed.data, want->embed.data, want->embed.bytes), 0);
    model_close(got);
    safetensors_close(&x);
    model_close(moe);
    model_close(want);
}
END_TEST

static const uint16_t *weights(const struct safetensors *x, const char *part)
{
    char name[128];
    snprintf(name, sizeof name, "model.layers.1.mlp.experts.3.%s.weight", part);
    const struct tensor *t = safetensors_find(x, name);
    ck_assert_msg(t && t->bytes == 256 * 256 * 2, "%s", name);
    return t->data;
}

static void check_expert(const struct linear *want, const uint16_t *w, float g)
{
    static uint8_t codes[256 * 128], scale[256 * 16];
    static int32_t words[256 * 32];
    static uint16_t half[256 * 2];
    const void *got = codes, *got_scale = scale;
    if (want->format == WF_NVFP4)
        quantize_nvfp4(w, 256, 256, g, codes, scale);
    else if (want->format == WF_MXFP4)
        quantize_mxfp4(w, 256, 256, codes, scale);
    else {
        quantize_int4(w, 256, 256, 128, words, half);
        got = words;
        got_scale = half;
    }
    ck_assert_int_eq(memcmp(want->weight.data, got, want->weight.bytes), 0);
    ck_assert_int_eq(memcmp(want->scale.data, got_scale, want->scale.bytes), 0);
    if (want->format == WF_NVFP4)
        ck_assert(want->global_scale == g);
}

START_TEST(an_expert_quantises_to_the_shipped_bytes)
{
    char folder[128];
    int64_t bad;
    struct safetensors x;
    snprintf(folder, sizeof folder, "batteries/models/tiny-moe-%s", formats[_i].name);
    struct model *m = opened(folder);
    open_extract(&x);
    const uint16_t *gate = weights(&x, "gate_proj"), *up = weights(&x, "up_proj"), *down = weights(&x, "down_proj");
    uint16_t a = quantize_largest(gate, 65536, &bad), b = quantize_largest(up, 65536, &bad);
    float merged = quantize_global(a > b ? a : b), alone = quantize_global(quantize_largest(down, 65536, &bad));
    const struct expert *want = &m->layer[1].experts[3];
    check_expert(&want->gate, gate, merged);
    check_expert(&want->up, up, merged);
    check_expert(&want->down, down, alone);
    safetensors_close(&x);
    model_close(m);
}
END_TEST

START_TEST(the_configuration_is_the_shipped_text)
{
    static const char *const family[] = {"dense", "moe"};
    for (int i = 0; i < 2; i++) {
        char path[256], folder[256];
        struct config c;
        struct err e = {0};
        void *data;
        size_t bytes;
        snprintf(path, sizeof path, "harness/test/data/tiny-%s-bf16.config.json", family[i]);
        snprintf(folder, sizeof folder, "batteries/models/tiny-%s-%s", family[i], formats[_i].name);
        ck_assert_msg(config_read(folder, &c, &e) == OK, "%s", e.text);
        json_t *source = json_read(path, &e), *o = hf_config_normalise(source, &c);
        json_object_set_new(o, "quantization_config", hf_quantization(&c, formats[_i].format, formats[_i].group));
        char *text = hf_json_text(o);
        snprintf(path, sizeof path, "%s/config.json", folder);
        ck_assert_int_eq(packed_read(path, 1 << 20, &data, &bytes, NULL), OK);
        ck_assert_uint_eq(strlen(text), bytes);
        ck_assert_int_eq(memcmp(text, data, bytes), 0);
        free(data);
        free(text);
        json_decref(o);
        json_decref(source);
        config_free(&c);
    }
}
END_TEST

START_TEST(numbers_and_text_are_written_as_python_writes_them)
{
    json_t *o =
        json_loads("{\"b\": [1e-06, 10000.0, 0.02, 1e16, 123456789012345680.0, 9.999999747378752e-06, 0.0, -0.5],"
                   " \"a\": {\"x\": \"caf\\u00e9 \\\"\\n\", \"w\": [], \"v\": {}}}",
                   0, NULL);
    char *text = hf_json_text(o);
    ck_assert_str_eq(text, "{\n  \"a\": {\n    \"v\": {},\n    \"w\": [],\n    \"x\": \"caf\\u00e9 \\\"\\n\"\n  },\n"
                           "  \"b\": [\n    1e-06,\n    10000.0,\n    0.02,\n    1e+16,\n    1.2345678901234568e+17,\n"
                           "    9.999999747378752e-06,\n    0.0,\n    -0.5\n  ]\n}");
    free(text);
    json_decref(o);
}
END_TEST

/* Group 0 of 16 holds one value times each sixteenth; the codes are those of the written thresholds. */
START_TEST(ties_go_to_the_even_code_and_zero_keeps_its_sign)
{
    static const float y[16] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f, 6.0f,
                                0.2f,  0.8f,  1.3f,  1.7f,  2.6f, 3.4f, 5.2f, 0.0f};
    static const unsigned want[16] = {0, 2, 2, 4, 4, 6, 6, 7, 0, 2, 3, 3, 5, 5, 7, 0};
    uint16_t w[32] = {0};
    uint8_t codes[16], scale;
    for (int i = 0; i < 16; i++) {
        w[i] = bf16_of_float(y[i]);
        w[16 + i] = w[i] | 0x8000;
    }
    quantize_mxfp4(w, 1, 32, codes, &scale);
    ck_assert_uint_eq(scale, 127);
    for (int i = 0; i < 32; i++)
        ck_assert_uint_eq(codes[i / 2] >> 4 * (i % 2) & 15, want[i % 16] | (i >= 16 ? 8u : 0u));
}
END_TEST

static double e4m3(int code)
{
    return code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
}

/* The scale of a group whose largest weight is 6 * s, with divisor 1. */
static uint8_t scale_of(double s)
{
    uint16_t w[16] = {bf16_of_float((float)(6 * s))};
    uint8_t codes[8], scale;
    ck_assert((double)float_of_bf16(w[0]) == 6 * s);
    quantize_nvfp4(w, 1, 16, 1, codes, &scale);
    return scale;
}

START_TEST(every_e4m3_scale_and_every_tie_between_two_is_right)
{
    for (int code = 0; code < 0x7e; code++) {
        ck_assert_uint_eq(scale_of(e4m3(code)), (unsigned)code);
        ck_assert_uint_eq(scale_of((e4m3(code) + e4m3(code + 1)) / 2), (unsigned)(code + code % 2));
    }
    ck_assert_uint_eq(scale_of(448), 0x7e);
    ck_assert_uint_eq(scale_of(472), 0x7e);
    ck_assert_uint_eq(scale_of(4096), 0x7e);
}
END_TEST

START_TEST(a_group_of_zeros_gives_finite_scales)
{
    uint16_t w[128] = {0}, half = 0xffff;
    uint8_t codes[64], scale[8];
    int32_t words[16];
    quantize_nvfp4(w, 1, 128, quantize_global(0), codes, scale);
    ck_assert(scale[0] == 0 && codes[0] == 0);
    quantize_mxfp4(w, 1, 128, codes, scale);
    ck_assert(scale[0] == 0 && codes[63] == 0);
    quantize_int4(w, 1, 128, 128, words, &half);
    ck_assert(half == 0x3c00 && words[15] == (int32_t)0x88888888);
}
END_TEST

static uint16_t bad_weight;

static void plant(struct tensor_list *l)
{
    ((uint16_t *)(size_t)listed(l, "model.layers.0.mlp.up_proj.weight")->data)[5 * 32 + 7] = bad_weight;
}

START_TEST(weights_that_are_not_finite_are_refused_and_nothing_is_left)
{
    static const uint16_t bad[] = {0x7fc0, 0x7f80, 0xff80};
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        struct model *m;
        small_model("src", DT_BF16);
        bad_weight = bad[i];
        change_weights("src", plant);
        ck_assert_int_eq(convert_quantize(scratch("src"), scratch("dst"), WF_U4B8, 32, NULL, &e), E_INPUT);
        CHECK_HOLDS(e, "model.layers.0.mlp.up_proj.weight\": the weight at [5,7] is not finite");
        ck_assert_int_eq(model_open(scratch("dst"), &m, NULL), E_MISSING);
    }
}
END_TEST

START_TEST(what_cannot_be_quantised_is_said)
{
    struct err e = {0};
    small_model("src", DT_BF16);
    ck_assert_int_eq(convert_quantize(scratch("src"), scratch("a"), WF_U4B8, 128, NULL, &e), E_UNSUPPORTED);
    CHECK_HOLDS(e, "no multiple of the group 128");
    e.code = OK;
    ck_assert_int_eq(convert_quantize(scratch("src"), scratch("b"), WF_NVFP4, 0, NULL, &e), OK);
    ck_assert_int_eq(convert_quantize(scratch("b"), scratch("c"), WF_NVFP4, 0, NULL, &e), E_USAGE);
    CHECK_HOLDS(e, "quantised already");
    e.code = OK;
    ck_assert_int_eq(convert_quantize(scratch("src"), scratch("b"), WF_MXFP4, 0, NULL, &e), E_USAGE);
    CHECK_HOLDS(e, "exists already");
    model_close(opened(scratch("b")));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("quantize");
    TCase *t = tcase_create("weights");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_folder_quantises_to_the_shipped_bytes, 0, 3);
    tcase_add_loop_test(t, an_expert_quantises_to_the_shipped_bytes, 0, 3);
    tcase_add_loop_test(t, the_configuration_is_the_shipped_text, 0, 3);
    tcase_add_test(t, numbers_and_text_are_written_as_python_writes_them);
    tcase_add_test(t, ties_go_to_the_even_code_and_zero_keeps_its_sign);
    tcase_add_test(t, every_e4m3_scale_and_every_tie_between_two_is_right);
    tcase_add_test(t, a_group_of_zeros_gives_finite_scales);
    tcase_add_test(t, weights_that_are_not_finite_are_refused_and_nothing_is_left);
    tcase_add_test(t, what_cannot_be_quantised_is_said);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
