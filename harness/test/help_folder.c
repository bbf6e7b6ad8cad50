#include "harness/test/help_folder.h"

#include "harness/models/load.h"
#include "harness/models/round.h"
#include "harness/models/stage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[256];

void scratch_setup(void)
{
    snprintf(folder, sizeof folder, "%s/assay-test-XXXXXX", P_tmpdir);
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

void scratch_teardown(void)
{
    stage_remove(folder);
}

const char *scratch(const char *name)
{
    static char path[8][512];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

void scratch_write(const char *name, const void *data, size_t bytes)
{
    FILE *f = fopen(scratch(name), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}

void scratch_text(const char *name, const char *text)
{
    scratch_write(name, text, strlen(text));
}

static void put(struct tensor_list *l, const char *name, enum dtype d, int64_t rows, int64_t cols)
{
    void *data;
    ck_assert_int_eq(tensor_list_new(l, name, d, rows, cols, &data, NULL), OK);
    int64_t n = rows * (cols ? cols : 1);
    unsigned seed = (unsigned)(strlen(name) * 2654435761u) + (unsigned)name[strlen(name) - 9];
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        float x = (float)((int)(seed >> 8 & 0xffff) - 0x8000) * 0x1p-17f;
        uint16_t half = (uint16_t)(seed >> 10 & 0x83ff) | 0x2c00; /* 2^-4 to 2^-3, both signs */
        if (d == DT_F32)
            ((float *)data)[i] = x;
        else
            ((uint16_t *)data)[i] = d == DT_F16 ? half : bf16_of_float(x);
    }
}

static const char config[] =
    "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", \"hidden_size\": 32, "
    "\"num_hidden_layers\": 1,"
    "\"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 16, \"intermediate_size\": 64,"
    "\"vocab_size\": 16, \"rope_theta\": 10000.0, \"rms_norm_eps\": 1e-06, \"tie_word_embeddings\": true,"
    "\"hidden_act\": \"silu\", \"max_position_embeddings\": 64, \"eos_token_id\": 3}";

void small_model(const char *name, enum dtype d)
{
    struct tensor_list l = {0};
    struct err e = {0};
    char path[300];
    mkdir(scratch(name), 0777);
    snprintf(path, sizeof path, "%s/config.json", name);
    scratch_text(path, config);
    put(&l, "model.embed_tokens.weight", d, 16, 32);
    put(&l, "model.norm.weight", d, 32, 0);
    put(&l, "model.layers.0.input_layernorm.weight", d, 32, 0);
    put(&l, "model.layers.0.post_attention_layernorm.weight", d, 32, 0);
    put(&l, "model.layers.0.self_attn.q_norm.weight", d, 16, 0);
    put(&l, "model.layers.0.self_attn.k_norm.weight", d, 16, 0);
    put(&l, "model.layers.0.self_attn.q_proj.weight", d, 32, 32);
    put(&l, "model.layers.0.self_attn.k_proj.weight", d, 16, 32);
    put(&l, "model.layers.0.self_attn.v_proj.weight", d, 16, 32);
    put(&l, "model.layers.0.self_attn.o_proj.weight", d, 32, 32);
    put(&l, "model.layers.0.mlp.gate_proj.weight", d, 64, 32);
    put(&l, "model.layers.0.mlp.up_proj.weight", d, 64, 32);
    put(&l, "model.layers.0.mlp.down_proj.weight", d, 32, 64);
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    ck_assert_msg(safetensors_write(scratch(path), l.tensor, l.tensors, &e) == OK, "%s", e.text);
    tensor_list_free(&l);
}

void change_weights(const char *name, void (*change)(struct tensor_list *l))
{
    struct safetensors s;
    struct tensor_list l = {0};
    struct err e = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/model.safetensors", name);
    ck_assert_msg(safetensors_open(scratch(path), &s, &e) == OK, "%s", e.text);
    for (int i = 0; i < s.tensors; i++) {
        const struct tensor *t = &s.tensor[i];
        void *data;
        ck_assert_int_eq(
            tensor_list_new(&l, t->name, t->dtype, t->shape[0], t->rank > 1 ? t->shape[1] : 0, &data, NULL), OK);
        memcpy(data, t->data, t->bytes);
    }
    change(&l);
    ck_assert_msg(safetensors_write(scratch(path), l.tensor, l.tensors, &e) == OK, "%s", e.text);
    tensor_list_free(&l);
    safetensors_close(&s);
}

struct tensor *listed(struct tensor_list *l, const char *name)
{
    for (int i = 0; i < l->tensors; i++)
        if (!strcmp(l->tensor[i].name, name))
            return &l->tensor[i];
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

void refused(const char *name, int code, const char *text, const char *more)
{
    struct model *m = NULL;
    struct err e = {0};
    int rc = model_open(scratch(name), &m, &e);
    ck_assert_msg(rc != OK && !m, "%s was accepted, \"%s\" expected", name, text);
    ck_assert_msg(rc == code && e.code == code, "code %s, text %s", err_name(rc), e.text);
    CHECK_HOLDS(e, text);
    CHECK_HOLDS(e, more);
    ck_assert_ptr_null(strchr(e.text, '\n'));
}
