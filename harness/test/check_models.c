#include "harness/base/json.h"
#include "harness/models/load.h"
#include "harness/test/help_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct model *opened(const char *name)
{
    struct err e = {0};
    struct model *m = NULL;
    char folder[512];
    ck_assert_msg(model_find(name, ".", NULL, folder, sizeof folder, &e) == OK, "%s", e.text);
    ck_assert_msg(model_open(folder, &m, &e) == OK, "%s", e.text);
    return m;
}

START_TEST(shipped_models_open_with_their_numbers)
{
    static const struct {
        const char *name, *arch;
        int layers, experts, group;
        enum weight_format format;
        enum weight_packing packing;
    } want[] = {
        {"tiny-dense-nvfp4", "qwen3", 6, 0, 16, WF_NVFP4, PACK_BYTES},
        {"tiny-dense-mxfp4", "qwen3", 6, 0, 32, WF_MXFP4, PACK_BYTES},
        {"tiny-dense-int4g128", "qwen3", 6, 0, 128, WF_U4B8, PACK_WORDS},
        {"tiny-moe-nvfp4", "qwen3_moe", 4, 8, 16, WF_NVFP4, PACK_BYTES},
        {"tiny-moe-mxfp4", "qwen3_moe", 4, 8, 32, WF_MXFP4, PACK_BYTES},
        {"tiny-moe-int4g128", "qwen3_moe", 4, 8, 128, WF_U4B8, PACK_WORDS},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct model *m = opened(want[i].name);
        ck_assert_str_eq(m->name, want[i].name);
        ck_assert_str_eq(m->config.arch, want[i].arch);
        ck_assert_str_eq(m->quant, strrchr(want[i].name, '-') + 1);
        ck_assert_int_eq(m->config.layers, want[i].layers);
        ck_assert_int_eq(m->config.experts, want[i].experts);
        ck_assert_int_eq(m->config.eos_count, 1);
        ck_assert_int_eq(m->config.eos[0], 0);
        ck_assert(m->config.rope_theta == 10000 && m->config.tied && m->config.head_dim == 64);
        ck_assert_ptr_eq(m->head.weight.data, m->embed.data);
        for (int l = 0; l < want[i].layers; l++) {
            const struct linear *q = &m->layer[l].q;
            ck_assert(q->format == want[i].format && q->packing == want[i].packing && q->group == want[i].group);
            ck_assert(q->n == 256 && q->k == 256);
            ck_assert_int_eq(m->layer[l].experts != NULL, want[i].experts > 0);
            ck_assert_int_eq(m->layer[l].gate.n, want[i].experts ? 0 : 768);
        }
        ck_assert_int_eq(m->files, 5);
        ck_assert_str_eq(m->file[2].name, "model.safetensors");
        model_close(m);
    }
}
END_TEST

START_TEST(a_name_is_found_in_order_and_what_there_is_is_listed)
{
    struct err e = {0};
    char folder[512];
    small_model("cached", DT_BF16);
    mkdir(scratch("empty"), 0777);
    ck_assert_int_eq(model_find("cached", ".", scratch(""), folder, sizeof folder, &e), OK);
    ck_assert_int_eq(model_find(scratch("cached"), ".", NULL, folder, sizeof folder, &e), OK);
    ck_assert_int_eq(model_find("empty", ".", scratch(""), folder, sizeof folder, &e), E_MISSING);
    CHECK_HOLDS(e, "\"empty\"");
    CHECK_HOLDS(e, "tiny-moe-nvfp4");
    CHECK_HOLDS(e, "cached");
    e.code = OK;
    ck_assert_int_eq(model_find("recipes", ".", NULL, folder, sizeof folder, &e), E_MISSING);
    e.code = OK;
    ck_assert_int_eq(model_find("", ".", NULL, folder, sizeof folder, &e), E_MISSING);
}
END_TEST

START_TEST(the_identity_follows_every_byte_of_every_file)
{
    char before[SHA256_HEX_SIZE], after[SHA256_HEX_SIZE];
    struct model *m;
    small_model("m", DT_BF16);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(model_open(scratch("m"), &m, NULL), OK);
        model_identity(m, after);
        ck_assert_int_eq(m->files, i == 0 ? 2 : 3);
        model_close(m);
        if (i)
            ck_assert_str_ne(before, after);
        strcpy(before, after);
        scratch_text("m/tokenizer.json", i ? "{} " : "{}");
    }
}
END_TEST

/* Splits the weights of m: tensors with an even place go to one shard, the others to another. `lie` changes the index.
 */
static void shard(const char *lie)
{
    struct safetensors s;
    struct tensor part[2][32];
    int n[2] = {0, 0};
    static const char *const file[] = {"one.safetensors", "two.safetensors"};
    json_t *map = json_object();
    char path[64];
    small_model("m", DT_BF16);
    ck_assert_int_eq(safetensors_open(scratch("m/model.safetensors"), &s, NULL), OK);
    for (int i = 0; i < s.tensors; i++) {
        part[i % 2][n[i % 2]++] = s.tensor[i];
        json_object_set_new(map, s.tensor[i].name, json_string(file[i % 2]));
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "m/%s", file[i]);
        ck_assert_int_eq(safetensors_write(scratch(path), part[i], n[i], NULL), OK);
    }
    if (!strcmp(lie, "swapped"))
        json_object_set_new(map, part[0][3].name, json_string(file[1]));
    if (!strcmp(lie, "unlisted"))
        json_object_del(map, part[1][2].name);
    if (!strcmp(lie, "absent"))
        json_object_set_new(map, "model.absent.weight", json_string(file[0]));
    if (!strcmp(lie, "escape"))
        json_object_set_new(map, part[0][0].name, json_string("../m/one.safetensors"));
    if (!strcmp(lie, "number"))
        json_object_set_new(map, part[0][0].name, json_integer(1));
    if (!strcmp(lie, "twice")) {
        part[1][n[1]++] = part[0][0];
        ck_assert_int_eq(safetensors_write(scratch("m/two.safetensors"), part[1], n[1], NULL), OK);
    }
    json_t *index = json_pack("{s:o}", "weight_map", map);
    ck_assert_int_eq(json_dump_file(index, scratch("m/model.safetensors.index.json"), 0), 0);
    json_decref(index);
    safetensors_close(&s);
    unlink(scratch("m/model.safetensors"));
}

START_TEST(a_sharded_checkpoint_opens)
{
    struct model *m = NULL;
    struct err e = {0};
    shard("");
    ck_assert_msg(model_open(scratch("m"), &m, &e) == OK, "%s", e.text);
    ck_assert_int_eq(m->files, 4);
    model_close(m);
}
END_TEST

START_TEST(a_lying_index_or_a_missing_shard_is_refused)
{
    static const struct {
        const char *lie;
        int code;
        const char *text;
    } bad[] = {
        {"swapped", E_INPUT, "is not in two.safetensors"}, {"unlisted", E_INPUT, "is not listed"},
        {"absent", E_INPUT, "is not in one.safetensors"},  {"escape", E_INPUT, "not a plain file name"},
        {"number", E_INPUT, "is not a file name"},         {"twice", E_INPUT, "is in two shards"},
    };
    shard(bad[_i].lie);
    refused("m", bad[_i].code, bad[_i].text, "");
}
END_TEST

START_TEST(a_shard_that_is_not_there_is_missing_evidence)
{
    shard("");
    unlink(scratch("m/two.safetensors"));
    refused("m", E_MISSING, "two.safetensors", "");
    scratch_text("m/model.safetensors.index.json", "{\"weight_map\": [1]}");
    refused("m", E_INPUT, "weight_map", "");
    scratch_text("m/model.safetensors.index.json", "{");
    refused("m", E_INPUT, "index.json", "not JSON");
}
END_TEST

/* Code of weight (n,k), whichever way it is packed. */
static unsigned code(const struct linear *l, int n, int k)
{
    uint32_t word;
    size_t at = l->packing == PACK_GPTQ_K ? (size_t)(k / 8) * (size_t)l->n + (size_t)n
                                          : (size_t)n * (size_t)(l->k / 8) + (size_t)(k / 8);
    memcpy(&word, (const char *)l->weight.data + 4 * at, 4);
    return word >> 4 * (k % 8) & 15;
}

/* The codes of l as GPTQ stores them: transposed, scales too, with zero points of 8 and the groups in order. */
static void add_gptq(struct tensor_list *out, const struct linear *l)
{
    static const char *const part[] = {"qweight", "scales", "qzeros", "g_idx"};
    int groups = l->group ? l->k / l->group : 1;
    void *data[4];
    char name[256];
    for (int i = 0; i < 4; i++) {
        static const enum dtype type[] = {DT_I32, DT_F16, DT_I32, DT_I32};
        const int64_t rows[] = {l->k / 8, groups, groups, l->k}, cols[] = {l->n, l->n, l->n / 8, 0};
        snprintf(name, sizeof name, "%.*s%s", (int)(strlen(l->weight.name) - strlen("weight_packed")), l->weight.name,
                 part[i]);
        ck_assert_int_eq(tensor_list_new(out, name, type[i], rows[i], cols[i], &data[i], NULL), OK);
    }
    for (int n = 0; n < l->n; n++)
        for (int k = 0; k < l->k; k++)
            ((uint32_t *)data[0])[k / 8 * l->n + n] |= code(l, n, k) << 4 * (k % 8);
    for (int i = 0; i < groups * l->n; i++)
        ((uint16_t *)data[1])[i] = (uint16_t)(0x2000 + i);
    memset(data[2], 0x77, (size_t)groups * (size_t)l->n / 8 * 4);
    for (int k = 0; k < l->k; k++)
        ((int32_t *)data[3])[k] = l->group ? k / l->group : 0;
}

/* A bias for a model that has none: some writers of GPTQ store zeros. */
static uint16_t *add_bias(struct tensor_list *out)
{
    void *data;
    ck_assert_int_eq(tensor_list_new(out, "model.layers.0.mlp.up_proj.bias", DT_F16, 768, 0, &data, NULL), OK);
    return data;
}

static void borrow(struct tensor_list *out, const struct tensor *t)
{
    ck_assert_int_eq(tensor_list_borrow(out, t, NULL), OK);
}

/* tiny-dense-int4g128 as a GPTQ folder "g"; returns the list for further edits. */
static void write_gptq(const struct model *m, const char *config, struct tensor_list *out)
{
    json_t *o = json_load_file("batteries/models/tiny-dense-int4g128/config.json", 0, NULL);
    json_object_set_new(o, "quantization_config", json_loads(config, 0, NULL));
    mkdir(scratch("g"), 0777);
    ck_assert_int_eq(json_dump_file(o, scratch("g/config.json"), 0), 0);
    json_decref(o);
    borrow(out, &m->embed);
    borrow(out, &m->final_norm);
    for (int i = 0; i < m->config.layers; i++) {
        const struct layer *l = &m->layer[i];
        const struct linear *const all[] = {&l->q, &l->k, &l->v, &l->o, &l->gate, &l->up, &l->down};
        borrow(out, &l->input_norm);
        borrow(out, &l->post_norm);
        borrow(out, &l->q_norm);
        borrow(out, &l->k_norm);
        for (int k = 0; k < 7; k++)
            add_gptq(out, all[k]);
    }
    ck_assert_int_eq(safetensors_write(scratch("g/model.safetensors"), out->tensor, out->tensors, NULL), OK);
}

#define GPTQ_CONFIG "{\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": 128, \"sym\": true, \"desc_act\": false}"

START_TEST(gptq_holds_the_same_codes_transposed)
{
    struct model *m = opened("tiny-dense-int4g128"), *g = NULL;
    struct tensor_list out = {0};
    struct err e = {0};
    write_gptq(m, GPTQ_CONFIG, &out);
    ck_assert_msg(model_open(scratch("g"), &g, &e) == OK, "%s", e.text);
    ck_assert_str_eq(g->quant, "gptq-int4g128");
    for (int i = 0; i < m->config.layers; i++) {
        const struct linear *a = &m->layer[i].down, *b = &g->layer[i].down;
        ck_assert(b->packing == PACK_GPTQ_K && b->group == 128 && b->n == 256 && b->k == 768);
        ck_assert(b->scale.dtype == DT_F16 && b->scale.shape[0] == 6 && b->scale.shape[1] == 256);
        int different = 0;
        for (int n = 0; n < a->n; n++)
            for (int k = 0; k < a->k; k++)
                different += code(a, n, k) != code(b, n, k);
        ck_assert_int_eq(different, 0);
    }
    model_close(g);
    tensor_list_free(&out);
    model_close(m);
}
END_TEST

START_TEST(gptq_with_groups_out_of_order_is_refused)
{
    struct model *m = opened("tiny-dense-int4g128");
    struct tensor_list out = {0};
    write_gptq(m, GPTQ_CONFIG, &out);
    int32_t *index = (int32_t *)(size_t)listed(&out, "model.layers.3.mlp.up_proj.g_idx")->data;
    index[77] = 1;
    ck_assert_int_eq(safetensors_write(scratch("g/model.safetensors"), out.tensor, out.tensors, NULL), OK);
    refused("g", E_UNSUPPORTED, "model.layers.3.mlp.up_proj.g_idx", "input 77 is in group 1");
    index[77] = 0;
    ((uint16_t *)(size_t)listed(&out, "model.layers.2.mlp.up_proj.scales")->data)[300] = 0x7e00;
    ck_assert_int_eq(safetensors_write(scratch("g/model.safetensors"), out.tensor, out.tensors, NULL), OK);
    refused("g", E_INPUT, "model.layers.2.mlp.up_proj.scales", "not finite");
    tensor_list_free(&out);
    model_close(m);
}
END_TEST

START_TEST(a_bias_of_zeros_in_gptq_is_none)
{
    struct model *m = opened("tiny-dense-int4g128"), *g;
    struct tensor_list out = {0};
    uint16_t *bias = add_bias(&out);
    write_gptq(m, GPTQ_CONFIG, &out);
    ck_assert_int_eq(model_open(scratch("g"), &g, NULL), OK);
    ck_assert_ptr_null(g->layer[0].up.bias.name);
    model_close(g);
    bias[5] = 0x3c00;
    ck_assert_int_eq(safetensors_write(scratch("g/model.safetensors"), out.tensor, out.tensors, NULL), OK);
    ck_assert_int_eq(model_open(scratch("g"), &g, NULL), OK);
    ck_assert_ptr_nonnull(g->layer[0].up.bias.name);
    ck_assert_int_eq(g->layer[0].up.bias.dtype, DT_BF16);
    ck_assert_uint_eq(((const uint16_t *)g->layer[0].up.bias.data)[5], 0x3f80);
    model_close(g);
    tensor_list_free(&out);
    model_close(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("models");
    TCase *t = tcase_create("open");
    tcase_add_checked_fixture(t, scratch_setup, scratch_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, shipped_models_open_with_their_numbers);
    tcase_add_test(t, a_name_is_found_in_order_and_what_there_is_is_listed);
    tcase_add_test(t, the_identity_follows_every_byte_of_every_file);
    tcase_add_test(t, a_sharded_checkpoint_opens);
    tcase_add_loop_test(t, a_lying_index_or_a_missing_shard_is_refused, 0, 6);
    tcase_add_test(t, a_shard_that_is_not_there_is_missing_evidence);
    tcase_add_test(t, gptq_holds_the_same_codes_transposed);
    tcase_add_test(t, a_bias_of_zeros_in_gptq_is_none);
    tcase_add_test(t, gptq_with_groups_out_of_order_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
