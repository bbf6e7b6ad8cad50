/* Configurations and weights that the loader must refuse, each with its reason, and what it must accept. */
#include "harness/base/json.h"
#include "harness/models/convert.h"
#include "harness/models/load.h"
#include "harness/models/round.h"
#include "harness/test/help_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct model *opened(const char *name)
{
    struct model *m = NULL;
    struct err e = {0};
    ck_assert_msg(model_open(scratch(name), &m, &e) == OK, "%s", e.text);
    return m;
}

static void quantised(const char *name, enum weight_format f, int group)
{
    struct err e = {0};
    small_model("plain", DT_BF16);
    ck_assert_msg(convert_quantize(scratch("plain"), scratch(name), f, group, NULL, &e) == OK, "%s", e.text);
}

/* config.json of NAME with the JSON members of `edit` set (null removes them). */
static void edit_config(const char *name, const char *edit)
{
    char path[300];
    json_error_t je;
    const char *key;
    json_t *v;
    snprintf(path, sizeof path, "%s/config.json", name);
    json_t *o = json_load_file(scratch(path), 0, &je), *change = json_loads(edit, 0, &je);
    ck_assert_msg(o && change, "%s", je.text);
    json_object_foreach(change, key, v)
    {
        if (json_is_null(v))
            json_object_del(o, key);
        else
            json_object_set(o, key, v);
    }
    ck_assert_int_eq(json_dump_file(o, scratch(path), 0), 0);
    json_decref(o);
    json_decref(change);
}

/* One more space in the header of folder NAME: every tensor now lies at an odd place. */
static void make_odd(const char *name)
{
    struct mapped m;
    char path[300];
    uint64_t header;
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    ck_assert_int_eq(mapped_open(scratch(path), &m, NULL), OK);
    char *file = malloc(m.bytes + 1);
    memcpy(&header, m.data, 8);
    memcpy(file, m.data, 8 + header);
    file[8 + header] = ' ';
    memcpy(file + 9 + header, (const char *)m.data + 8 + header, m.bytes - 8 - header);
    header++;
    memcpy(file, &header, 8);
    scratch_write(path, file, m.bytes + 1);
    free(file);
    mapped_close(&m);
}

START_TEST(weights_at_odd_places_are_the_same_weights)
{
    static const struct {
        enum weight_format format;
        const char *even, *odd;
    } made[] = {{WF_U4B8, "a", "A"}, {WF_NVFP4, "b", "B"}, {WF_MXFP4, "c", "C"}};
    for (int i = 0; i < 3; i++) {
        struct err e = {0};
        quantised(made[i].even, made[i].format, 32);
        make_odd("plain");
        ck_assert_msg(convert_quantize(scratch("plain"), scratch(made[i].odd), made[i].format, 32, NULL, &e) == OK,
                      "%s", e.text);
        make_odd(made[i].odd);
        struct model *a = opened(made[i].even), *b = opened(made[i].odd);
        const struct linear *x = &a->layer[0].down, *y = &b->layer[0].down;
        ck_assert_int_eq((uintptr_t)y->weight.data % 2, 1);
        ck_assert_int_eq(memcmp(x->weight.data, y->weight.data, x->weight.bytes), 0);
        ck_assert_int_eq(memcmp(x->scale.data, y->scale.data, x->scale.bytes), 0);
        ck_assert(x->global_scale == y->global_scale);
        model_close(a);
        model_close(b);
    }
    small_model("f", DT_F32);
    make_odd("f");
    model_close(opened("f"));
}
END_TEST

static const struct bad_config {
    const char *edit;
    int code;
    const char *text;
} bad_configs[] = {
    {"{\"architectures\": [\"GPT2LMHeadModel\"]}", E_UNSUPPORTED, "GPT2LMHeadModel"},
    {"{\"architectures\": null}", E_INPUT, "architectures"},
    {"{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8.0}}", E_UNSUPPORTED, "llama3"},
    {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2.0}}", E_UNSUPPORTED, "linear"},
    {"{\"rope_scaling\": {\"factor\": 2.0}}", E_INPUT, "names no type"},
    {"{\"rope_scaling\": 7}", E_INPUT, "not an object"},
    {"{\"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 1e6}}", E_UNSUPPORTED, "yarn"},
    {"{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 1e4, \"partial_rotary_factor\": 0.5}}",
     E_UNSUPPORTED, "partial"},
    {"{\"rope_theta\": -1}", E_INPUT, "rope_theta"},
    {"{\"rope_theta\": \"big\"}", E_INPUT, "rope_theta"},
    {"{\"use_sliding_window\": true}", E_UNSUPPORTED, "sliding"},
    {"{\"layer_types\": [\"sliding_attention\"]}", E_UNSUPPORTED, "sliding_attention"},
    {"{\"hidden_act\": \"gelu\"}", E_UNSUPPORTED, "gelu"},
    {"{\"hidden_size\": null}", E_INPUT, "hidden_size"},
    {"{\"hidden_size\": 0}", E_INPUT, "hidden_size"},
    {"{\"hidden_size\": 99999999999}", E_INPUT, "hidden_size"},
    {"{\"hidden_size\": 32.5}", E_INPUT, "hidden_size"},
    {"{\"num_hidden_layers\": 1000000}", E_INPUT, "absurd"},
    {"{\"num_hidden_layers\": 2}", E_INPUT, "model.layers.1."},
    {"{\"num_key_value_heads\": 3}", E_INPUT, "do not go together"},
    {"{\"head_dim\": 7}", E_INPUT, "do not go together"},
    {"{\"head_dim\": 8}", E_INPUT, "q_proj.weight\" has shape [32,32], config.json wants [16,32]"},
    {"{\"vocab_size\": 17}", E_INPUT, "wants [17,32]"},
    {"{\"intermediate_size\": 63}", E_INPUT, "wants [63,32]"},
    {"{\"rms_norm_eps\": \"tiny\"}", E_INPUT, "rms_norm_eps"},
    {"{\"tie_word_embeddings\": false}", E_INPUT, "lm_head.weight"},
    {"{\"tie_word_embeddings\": 1}", E_INPUT, "tie_word_embeddings"},
    {"{\"eos_token_id\": 16}", E_INPUT, "eos_token_id"},
    {"{\"eos_token_id\": [1, -1]}", E_INPUT, "eos_token_id"},
    {"{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4}}", E_UNSUPPORTED, "awq"},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"sym\": true, "
     "\"desc_act\": "
     "true}}",
     E_UNSUPPORTED, "desc_act"},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 32, \"sym\": false}}",
     E_UNSUPPORTED, "sym"},
    {"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8, \"group_size\": 32, \"sym\": true}}",
     E_UNSUPPORTED, "8 bits"},
    {"{\"quantization_config\": {\"quant_method\": \"compressed-tensors\"}}", E_INPUT, "config_groups"},
};

START_TEST(a_configuration_that_is_wrong_or_not_built_is_refused)
{
    small_model("m", DT_BF16);
    edit_config("m", bad_configs[_i].edit);
    refused("m", bad_configs[_i].code, bad_configs[_i].text, scratch("m"));
}
END_TEST

START_TEST(duplicate_keys_and_damage_in_config_are_refused)
{
    small_model("m", DT_BF16);
    scratch_text("m/config.json", "{\"hidden_size\": 32, \"hidden_size\": 64}");
    refused("m", E_INPUT, "config.json:1", "duplicate");
    scratch_text("m/config.json", "{\"hidden_size\": 32");
    refused("m", E_INPUT, "config.json:1", "not JSON");
    scratch_text("m/config.json", "[]");
    refused("m", E_INPUT, "config.json", "not a JSON object");
    unlink(scratch("m/config.json"));
    refused("m", E_MISSING, "config.json", "");
    refused("absent", E_MISSING, "absent", "");
    small_model("n", DT_BF16);
    unlink(scratch("n/model.safetensors"));
    refused("n", E_MISSING, "neither model.safetensors nor", "");
}
END_TEST

START_TEST(both_rotary_styles_and_both_homes_of_eos_are_read)
{
    small_model("m", DT_BF16);
    edit_config("m", "{\"rope_theta\": 5000, \"rope_scaling\": null, \"eos_token_id\": [5, 3]}");
    scratch_text("m/generation_config.json", "{\"eos_token_id\": [3, 7]}");
    struct model *m = opened("m");
    ck_assert(m->config.rope_theta == 5000);
    ck_assert_int_eq(m->config.eos_count, 3);
    ck_assert(m->config.eos[0] == 5 && m->config.eos[1] == 3 && m->config.eos[2] == 7);
    model_close(m);
    edit_config("m", "{\"rope_theta\": null, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 7000}}");
    m = opened("m");
    ck_assert(m->config.rope_theta == 7000);
    model_close(m);
}
END_TEST

START_TEST(fp16_and_fp32_weights_are_rounded_to_bf16)
{
    static const enum dtype types[] = {DT_F16, DT_F32};
    for (int i = 0; i < 2; i++) {
        struct safetensors s;
        small_model("m", types[i]);
        struct model *m = opened("m");
        ck_assert_int_eq(safetensors_open(scratch("m/model.safetensors"), &s, NULL), OK);
        const struct tensor *t = safetensors_find(&s, m->layer[0].down.weight.name);
        const uint16_t *out = m->layer[0].down.weight.data;
        ck_assert_int_eq(m->layer[0].down.weight.dtype, DT_BF16);
        ck_assert_uint_eq(m->layer[0].down.weight.bytes, 32 * 64 * 2);
        for (int k = 0; k < 32 * 64; k++) {
            double x =
                types[i] == DT_F32 ? ((const float *)t->data)[k] : (double)float_of_f16(((const uint16_t *)t->data)[k]);
            double exact = (double)float_of_bf16(out[k]), step = ldexp(1, ilogb(x) - 7);
            ck_assert(x != 0 && fabs(exact - x) <= step / 2);
        }
        safetensors_close(&s);
        model_close(m);
    }
}
END_TEST

START_TEST(every_fp16_value_widens_exactly)
{
    for (unsigned h = 0; h < 65536; h++) {
        int exponent = h >> 10 & 31, mantissa = h & 1023;
        double want = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                     : ldexp(mantissa, -24);
        double got = (double)float_of_f16((uint16_t)h);
        ck_assert((isnan(want) && isnan(got)) || (got == (h >> 15 ? -want : want) && signbit(got) == (int)(h >> 15)));
    }
}
END_TEST

START_TEST(rounding_to_bf16_ties_to_even_and_keeps_nan)
{
    ck_assert_uint_eq(bf16_of_float(float_of_bits(0x3f808000)), 0x3f80);
    ck_assert_uint_eq(bf16_of_float(float_of_bits(0x3f818000)), 0x3f82);
    ck_assert_uint_eq(bf16_of_float(float_of_bits(0x3f808001)), 0x3f81);
    ck_assert_uint_eq(bf16_of_float(float_of_bits(0x7f7fffff)), 0x7f80);
    ck_assert_uint_eq(bf16_of_float(float_of_bits(0xff800001)), 0xffc0);
    for (unsigned b = 0; b < 65536; b++)
        ck_assert(bf16_of_float(float_of_bf16((uint16_t)b)) == b || (b & 0x7fff) > 0x7f80);
}
END_TEST

static void drop_norm(struct tensor_list *l)
{
    listed(l, "model.layers.0.self_attn.q_norm.weight")->name = "model.layers.0.self_attn.q_nrom.weight";
}

static void flatten_projection(struct tensor_list *l)
{
    struct tensor *t = listed(l, "model.layers.0.self_attn.v_proj.weight");
    t->rank = 1;
    t->shape[0] = 512;
}

static void integer_norm(struct tensor_list *l)
{
    listed(l, "model.norm.weight")->dtype = DT_I16;
}

static void zero_size(struct tensor_list *l)
{
    struct tensor *t = listed(l, "model.norm.weight");
    t->shape[0] = 0;
    t->bytes = 0;
}

static void add_stranger(struct tensor_list *l)
{
    void *data;
    ck_assert_int_eq(tensor_list_new(l, "model.layers.0.self_attn.sinks", DT_BF16, 2, 0, &data, NULL), OK);
}

static void add_input_scale(struct tensor_list *l)
{
    void *data;
    ck_assert_int_eq(tensor_list_new(l, "model.layers.0.mlp.up_proj.input_global_scale", DT_F32, 1, 0, &data, NULL),
                     OK);
}

static void add_codes(struct tensor_list *l)
{
    void *data;
    ck_assert_int_eq(tensor_list_new(l, "model.layers.0.mlp.up_proj.weight_packed", DT_U8, 64, 16, &data, NULL), OK);
}

START_TEST(weights_that_do_not_fit_the_configuration_are_refused)
{
    static const struct {
        void (*change)(struct tensor_list *l);
        int code;
        const char *name, *text;
    } bad[] = {
        {drop_norm, E_INPUT, "self_attn.q_norm.weight", "missing"},
        {flatten_projection, E_INPUT, "self_attn.v_proj.weight", "has shape [512], config.json wants [16,32]"},
        {integer_norm, E_INPUT, "model.norm.weight", "type I16"},
        {zero_size, E_INPUT, "model.norm.weight", "has shape [0]"},
        {add_stranger, E_UNSUPPORTED, "self_attn.sinks", "has no place"},
        {add_input_scale, E_UNSUPPORTED, "up_proj.input_global_scale", "W4A4"},
        {add_codes, E_INPUT, "mlp.up_proj", "stored twice"},
    };
    small_model("m", DT_BF16);
    change_weights("m", bad[_i].change);
    refused("m", bad[_i].code, bad[_i].text, bad[_i].name);
}
END_TEST

static enum weight_format format;
static uint16_t poison;

static void poison_scale(struct tensor_list *l)
{
    struct tensor *t = listed(l, "model.layers.0.mlp.down_proj.weight_scale");
    uint8_t *p = (uint8_t *)(size_t)t->data;
    int64_t at = 3 * t->shape[1] + 1;
    if (format == WF_U4B8)
        memcpy(p + 2 * at, &poison, 2);
    else
        p[at] = (uint8_t)poison;
}

START_TEST(a_scale_that_is_no_number_is_refused_with_its_place)
{
    static const struct {
        enum weight_format format;
        uint16_t poison;
        const char *text;
    } bad[] = {
        {WF_NVFP4, 0x7f, "not finite"}, {WF_NVFP4, 0xff, "not finite"},  {WF_NVFP4, 0xb0, "negative"},
        {WF_MXFP4, 0xff, "not finite"}, {WF_U4B8, 0x7fc0, "not finite"}, {WF_U4B8, 0xff80, "not finite"},
    };
    format = bad[_i].format;
    poison = bad[_i].poison;
    quantised("m", format, 32);
    model_close(opened("m"));
    change_weights("m", poison_scale);
    refused("m", E_INPUT, "model.layers.0.mlp.down_proj.weight_scale\": the scale at [3,1]", bad[_i].text);
}
END_TEST

static float divisor;

static void poison_divisor(struct tensor_list *l)
{
    struct tensor *t = listed(l, "model.layers.0.mlp.down_proj.weight_global_scale");
    memcpy((void *)(size_t)t->data, &divisor, sizeof divisor);
}

START_TEST(a_divisor_must_be_finite_and_positive)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY, 0, -1};
    quantised("m", WF_NVFP4, 0);
    for (int i = 0; i < 5; i++) {
        divisor = bad[i];
        change_weights("m", poison_divisor);
        refused("m", E_INPUT, "down_proj.weight_global_scale", "finite and positive");
    }
}
END_TEST

static void lie_about_shape(struct tensor_list *l)
{
    ((int64_t *)(size_t)listed(l, "model.layers.0.mlp.down_proj.weight_shape")->data)[1] = 65;
}

static void add_zero_points(struct tensor_list *l)
{
    void *data;
    ck_assert_int_eq(tensor_list_new(l, "model.layers.0.mlp.down_proj.weight_zero_point", DT_I32, 4, 2, &data, NULL),
                     OK);
}

START_TEST(int4_that_lies_or_is_asymmetric_is_refused)
{
    quantised("m", WF_U4B8, 32);
    change_weights("m", lie_about_shape);
    refused("m", E_INPUT, "down_proj.weight_shape", "says [32,65]");
    quantised("n", WF_U4B8, 32);
    change_weights("n", add_zero_points);
    refused("n", E_UNSUPPORTED, "weight_zero_point", "zero points");
}
END_TEST

/* Sets a member of quantization_config.config_groups.group_0 (or of its weights). */
static void edit_group(const char *name, int weights, const char *key, json_t *v)
{
    char path[300];
    snprintf(path, sizeof path, "%s/config.json", name);
    json_t *o = json_load_file(scratch(path), 0, NULL);
    json_t *g = json_object_get(json_object_get(json_object_get(o, "quantization_config"), "config_groups"), "group_0");
    ck_assert_ptr_nonnull(g);
    json_object_set_new(weights ? json_object_get(g, "weights") : g, key, v);
    ck_assert_int_eq(json_dump_file(o, scratch(path), 0), 0);
    json_decref(o);
}

START_TEST(schemes_that_are_not_built_are_refused)
{
    quantised("m", WF_U4B8, 32);
    edit_group("m", 0, "input_activations", json_pack("{s:i}", "num_bits", 4));
    refused("m", E_UNSUPPORTED, "activations are quantised", "input_activations");
    edit_group("m", 0, "input_activations", json_null());
    model_close(opened("m"));
    edit_group("m", 1, "num_bits", json_integer(8));
    refused("m", E_UNSUPPORTED, "8-bit", "config.json");
    edit_group("m", 1, "num_bits", json_integer(4));
    edit_group("m", 1, "symmetric", json_false());
    refused("m", E_UNSUPPORTED, "asymmetric", "config.json");
    edit_group("m", 1, "symmetric", json_true());
    edit_group("m", 1, "actorder", json_string("group"));
    refused("m", E_UNSUPPORTED, "ordering", "config.json");
    edit_group("m", 1, "actorder", json_string("weight"));
    model_close(opened("m"));
    edit_group("m", 1, "group_size", json_integer(16));
    refused("m", E_INPUT, "weight_scale", "wants [32,2]");
}
END_TEST

START_TEST(codes_without_a_scheme_are_refused)
{
    quantised("m", WF_NVFP4, 0);
    edit_config("m", "{\"quantization_config\": null}");
    refused("m", E_INPUT, "no quantization_config", "q_proj");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loader");
    TCase *t = tcase_create("folder");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_add_loop_test(t, a_configuration_that_is_wrong_or_not_built_is_refused, 0,
                        (int)(sizeof bad_configs / sizeof *bad_configs));
    tcase_add_test(t, duplicate_keys_and_damage_in_config_are_refused);
    tcase_add_test(t, both_rotary_styles_and_both_homes_of_eos_are_read);
    tcase_add_test(t, weights_at_odd_places_are_the_same_weights);
    tcase_add_test(t, fp16_and_fp32_weights_are_rounded_to_bf16);
    tcase_add_test(t, every_fp16_value_widens_exactly);
    tcase_add_test(t, rounding_to_bf16_ties_to_even_and_keeps_nan);
    tcase_add_loop_test(t, weights_that_do_not_fit_the_configuration_are_refused, 0, 7);
    tcase_add_loop_test(t, a_scale_that_is_no_number_is_refused_with_its_place, 0, 6);
    tcase_add_test(t, a_divisor_must_be_finite_and_positive);
    tcase_add_test(t, int4_that_lies_or_is_asymmetric_is_refused);
    tcase_add_test(t, schemes_that_are_not_built_are_refused);
    tcase_add_test(t, codes_without_a_scheme_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
