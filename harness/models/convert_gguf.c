#include "harness/models/convert.h"

#include "harness/models/arch.h"
#include "harness/models/gguf_tokenizer.h"
#include "harness/models/hf_json.h"
#include "harness/models/round.h"
#include "harness/models/safetensors.h"
#include "harness/models/tensor_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sizes {
    int64_t hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, positions;
    double eps, theta;
    int tied;
};

struct job {
    struct gguf g;
    const struct arch *arch;
    struct sizes c;
    struct tensor_list out;
    int taken; /* tensors of the file that found a place */
};

static int find_arch(struct job *j, struct err *e)
{
    const char *text;
    size_t n;
    int rc = gguf_string(&j->g, "general.architecture", &text, &n, e);
    if (rc)
        return rc;
    for (int i = 0; arch_all[i]; i++)
        if (arch_all[i]->gguf_name && strlen(arch_all[i]->gguf_name) == n && !memcmp(arch_all[i]->gguf_name, text, n)) {
            j->arch = arch_all[i];
            return OK;
        }
    return FAIL(e, E_UNSUPPORTED, "%s: architecture \"%.*s\" is not converted", j->g.path, (int)(n < 64 ? n : 64),
                text);
}

static const char *full(const struct job *j, const char *key, char out[128])
{
    snprintf(out, 128, "%s.%s", j->arch->gguf_name, key);
    return out;
}

static int get(const struct job *j, const char *key, int64_t fallback, int64_t *out, struct err *e)
{
    char name[128];
    if (fallback && !gguf_key(&j->g, full(j, key, name))) {
        *out = fallback;
        return OK;
    }
    return gguf_int(&j->g, full(j, key, name), 1, 1 << 24, out, e);
}

static int read_sizes(struct job *j, struct err *e)
{
    struct sizes *c = &j->c;
    const struct gguf_tensor *embed = gguf_tensor(&j->g, "token_embd.weight");
    char name[128];
    int64_t rotated;
    int rc;
    if (!embed || embed->rank != 2)
        return FAIL(e, E_INPUT, "%s: tensor \"token_embd.weight\" is missing or no matrix", j->g.path);
    c->vocab = embed->shape[0];
    c->tied = !gguf_tensor(&j->g, "output.weight");
    c->theta = 10000;
    if ((rc = get(j, "embedding_length", 0, &c->hidden, e)) || (rc = get(j, "block_count", 0, &c->layers, e)) ||
        (rc = get(j, "attention.head_count", 0, &c->heads, e)) ||
        (rc = get(j, "attention.head_count_kv", c->heads, &c->kv_heads, e)) ||
        (rc = get(j, "feed_forward_length", 0, &c->intermediate, e)) ||
        (rc = get(j, "context_length", 0, &c->positions, e)) ||
        (rc = get(j, "attention.key_length", c->hidden / c->heads ? c->hidden / c->heads : 1, &c->head_dim, e)) ||
        (rc = get(j, "rope.dimension_count", c->head_dim, &rotated, e)) ||
        (rc = gguf_real(&j->g, full(j, "attention.layer_norm_rms_epsilon", name), &c->eps, e)))
        return rc;
    if (gguf_key(&j->g, full(j, "rope.freq_base", name)) && (rc = gguf_real(&j->g, name, &c->theta, e)))
        return rc;
    if (rotated != c->head_dim || gguf_tensor(&j->g, "rope_freqs.weight") ||
        gguf_key(&j->g, full(j, "rope.scaling.factor", name)))
        return FAIL(e, E_UNSUPPORTED, "%s: rotary scaling is not built in", j->g.path);
    if (c->heads % c->kv_heads || c->head_dim % 2)
        return FAIL(e, E_INPUT, "%s: %lld heads, %lld key-value heads, head size %lld do not go together", j->g.path,
                    (long long)c->heads, (long long)c->kv_heads, (long long)c->head_dim);
    return OK;
}

/* Row of the checkpoint -> row of the file. GGUF interleaves the two halves of each head for its rotary kernel. */
static int64_t file_row(int64_t row, int64_t head_dim, int permuted)
{
    if (!permuted)
        return row;
    int64_t head = row / head_dim, in_head = row % head_dim, half = head_dim / 2;
    return head * head_dim + 2 * (in_head % half) + in_head / half;
}

/* FILE_NAME of the file -> NAME in bf16. cols 0: one dimension. */
static int convert(struct job *j, const char *file_name, const char *name, int64_t rows, int64_t cols, int permuted,
                   struct err *e)
{
    const struct gguf_tensor *t = gguf_tensor(&j->g, file_name);
    int64_t width = cols ? cols : 1;
    void *data;
    if (!t)
        return FAIL(e, E_INPUT, "%s: tensor \"%s\" is missing", j->g.path, file_name);
    if (t->rank != (cols ? 2 : 1) || t->shape[0] != rows || (cols && t->shape[1] != cols))
        return FAIL(e, E_INPUT, "%s: tensor \"%s\" has %d dimensions, [%lld,%lld]; the header wants [%lld,%lld]",
                    j->g.path, file_name, t->rank, (long long)t->shape[0], (long long)t->shape[1], (long long)rows,
                    (long long)cols);
    int rc = tensor_list_new(&j->out, name, DT_BF16, rows, cols, &data, e);
    if (rc)
        return rc;
    float *values = malloc((size_t)(rows * width) * sizeof *values);
    if (!values)
        return FAIL(e, E_NOMEM, "%s: tensor \"%s\": out of memory", j->g.path, file_name);
    gguf_decode(t, values);
    uint16_t *out = data;
    for (int64_t r = 0; r < rows; r++) {
        const float *row = values + file_row(r, j->c.head_dim, permuted) * width;
        for (int64_t i = 0; i < width; i++)
            out[r * width + i] = bf16_of_float(row[i]);
    }
    free(values);
    j->taken++;
    return OK;
}

static int convert_layer(struct job *j, int64_t layer, struct err *e)
{
    const struct sizes *c = &j->c;
    const struct arch *a = j->arch;
    int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const struct {
        const char *file, *name;
        int64_t rows, cols;
        int permuted;
    } part[] = {
        {"attn_norm", a->input_norm, c->hidden, 0, 0},
        {"ffn_norm", a->post_norm, c->hidden, 0, 0},
        {"attn_q", a->q, q, c->hidden, a->gguf_permutes_qk},
        {"attn_k", a->k, kv, c->hidden, a->gguf_permutes_qk},
        {"attn_v", a->v, kv, c->hidden, 0},
        {"attn_output", a->o, c->hidden, q, 0},
        {"ffn_gate", a->gate, c->intermediate, c->hidden, 0},
        {"ffn_up", a->up, c->intermediate, c->hidden, 0},
        {"ffn_down", a->down, c->hidden, c->intermediate, 0},
        {"attn_q_norm", a->q_norm, c->head_dim, 0, 0},
        {"attn_k_norm", a->k_norm, c->head_dim, 0, 0},
    };
    int rc = OK;
    for (size_t i = 0; i < sizeof part / sizeof *part && rc == OK; i++) {
        char file[128], name[256];
        snprintf(file, sizeof file, "blk.%lld.%s.weight", (long long)layer, part[i].file);
        snprintf(name, sizeof name, "%s.%lld.%s.weight", a->layers, (long long)layer, part[i].name);
        if (part[i].name)
            rc = convert(j, file, name, part[i].rows, part[i].cols, part[i].permuted, e);
    }
    return rc;
}

static int convert_weights(struct job *j, const struct convert_progress *p, struct err *e)
{
    const struct sizes *c = &j->c;
    char name[256];
    snprintf(name, sizeof name, "%s.weight", j->arch->embed);
    int rc = convert(j, "token_embd.weight", name, c->vocab, c->hidden, 0, e);
    snprintf(name, sizeof name, "%s.weight", j->arch->final_norm);
    if (rc || (rc = convert(j, "output_norm.weight", name, c->hidden, 0, 0, e)))
        return rc;
    snprintf(name, sizeof name, "%s.weight", j->arch->head);
    if (!c->tied && (rc = convert(j, "output.weight", name, c->vocab, c->hidden, 0, e)))
        return rc;
    for (int64_t i = 0; i < c->layers && rc == OK; i++) {
        rc = convert_layer(j, i, e);
        if (p && p->step)
            p->step(p->arg, "layers converted", (long)i + 1, (long)c->layers);
    }
    if (rc == OK && j->taken != j->g.tensors)
        rc = FAIL(e, E_UNSUPPORTED, "%s: %d of %d tensors have no place in architecture %s", j->g.path,
                  j->g.tensors - j->taken, j->g.tensors, j->arch->name);
    return rc;
}

static void set_ids(const struct job *j, json_t *o)
{
    static const char *const id[][2] = {{"bos_token_id", "tokenizer.ggml.bos_token_id"},
                                        {"eos_token_id", "tokenizer.ggml.eos_token_id"},
                                        {"pad_token_id", "tokenizer.ggml.padding_token_id"},
                                        {"unk_token_id", "tokenizer.ggml.unknown_token_id"}};
    for (size_t i = 0; i < sizeof id / sizeof *id; i++) {
        int64_t v;
        if (gguf_int(&j->g, id[i][1], 0, j->c.vocab - 1, &v, NULL) == OK)
            json_object_set_new(o, id[i][0], json_integer(v));
    }
}

static int write_config(const struct job *j, const struct stage *s, struct err *e)
{
    const struct sizes *c = &j->c;
    char path[1024];
    json_t *o = json_pack(
        "{s:[s],s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:{s:f,s:s},s:b,s:s,s:b,s:f}", "architectures",
        j->arch->hf_class, "model_type", j->arch->model_type, "dtype", "bfloat16", "hidden_size", (json_int_t)c->hidden,
        "num_hidden_layers", (json_int_t)c->layers, "num_attention_heads", (json_int_t)c->heads, "num_key_value_heads",
        (json_int_t)c->kv_heads, "head_dim", (json_int_t)c->head_dim, "intermediate_size", (json_int_t)c->intermediate,
        "vocab_size", (json_int_t)c->vocab, "max_position_embeddings", (json_int_t)c->positions, "rms_norm_eps", c->eps,
        "rope_parameters", "rope_theta", c->theta, "rope_type", "default", "tie_word_embeddings", c->tied, "hidden_act",
        "silu", "attention_bias", 0, "attention_dropout", 0.0);
    if (!o)
        return FAIL(e, E_INPUT, "%s: the header's numbers are not finite", j->g.path);
    set_ids(j, o);
    snprintf(path, sizeof path, "%s/config.json", s->path);
    int rc = hf_json_write(path, o, 1, e);
    json_decref(o);
    return rc;
}

int convert_gguf(const char *file, const char *dst, const struct convert_progress *p, struct err *e)
{
    struct stage s = {0};
    struct job j = {0};
    char path[1024];
    int rc, has_tokenizer;
    if ((rc = gguf_open(file, &j.g, e)) || (rc = stage_open(dst, &s, e)) || (rc = find_arch(&j, e)) ||
        (rc = read_sizes(&j, e)) || (rc = convert_weights(&j, p, e)) || (rc = write_config(&j, &s, e)))
        goto out;
    snprintf(path, sizeof path, "%s/model.safetensors", s.path);
    if ((rc = safetensors_write(path, j.out.tensor, j.out.tensors, e)) ||
        (rc = gguf_tokenizer_write(&j.g, &s, &has_tokenizer, e)))
        goto out;
    rc = stage_commit(&s, e);
out:
    stage_abandon(&s);
    tensor_list_free(&j.out);
    gguf_close(&j.g);
    return rc;
}
