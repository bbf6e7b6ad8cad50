#include "harness/models/config.h"

#include "harness/base/mapped.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_LIMIT (1 << 24) /* no dimension of a model is larger; keeps products inside 64 bits */

const struct arch *arch_of_class(const char *hf_class)
{
    for (int i = 0; arch_all[i]; i++)
        if (!strcmp(arch_all[i]->hf_class, hf_class))
            return arch_all[i];
    return NULL;
}

static int find_arch(const json_t *o, const char *where, const struct arch **a, struct err *e)
{
    const json_t *list = json_object_get(o, "architectures");
    const char *name = json_string_value(json_array_get(list, 0));
    char known[256] = "";
    if (json_array_size(list) != 1 || !name)
        return FAIL(e, E_INPUT, "%s: \"architectures\" is not a list of one class name", where);
    if ((*a = arch_of_class(name)))
        return OK;
    for (int i = 0; arch_all[i]; i++) {
        strncat(known, i ? ", " : "", sizeof known - strlen(known) - 1);
        strncat(known, arch_all[i]->hf_class, sizeof known - strlen(known) - 1);
    }
    return FAIL(e, E_UNSUPPORTED, "%s: architecture \"%.64s\" is not built in; there are: %s", where, name, known);
}

/* A member that is absent or null keeps its default. */
static int is_null(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return !v || json_is_null(v);
}

static int get_size(const json_t *o, const char *key, int fallback, int *out, const char *where, struct err *e)
{
    int64_t v = fallback;
    if (fallback && is_null(o, key)) {
        *out = fallback;
        return OK;
    }
    int rc = json_get_int(o, key, 1, SIZE_LIMIT, &v, where, e);
    *out = (int)v;
    return rc;
}

static int get_flag(const json_t *o, const char *key, int fallback, int *out, const char *where, struct err *e)
{
    const json_t *v = json_object_get(o, key);
    *out = is_null(o, key) ? fallback : json_is_true(v);
    if (!is_null(o, key) && !json_is_boolean(v))
        return FAIL(e, E_INPUT, "%s: \"%s\" is not true or false", where, key);
    return OK;
}

/* Rotary settings in both styles; anything but the plain table would change every position silently. */
static int read_rope(const json_t *o, const char *where, struct model_config *m, struct err *e)
{
    const json_t *p = json_object_get(o, "rope_parameters"), *s = json_object_get(o, "rope_scaling"), *v;
    const json_t *holder = json_is_object(p) ? p : o;
    const json_t *typed = json_is_object(p) ? p : s;
    m->rope_theta = 10000; /* what transformers takes when nothing is said */
    if (!is_null(holder, "rope_theta")) {
        int rc = json_get_real(holder, "rope_theta", &m->rope_theta, where, e);
        if (rc)
            return rc;
    }
    if (!isfinite(m->rope_theta) || m->rope_theta <= 0)
        return FAIL(e, E_INPUT, "%s: \"rope_theta\" is %g", where, m->rope_theta);
    if (typed && !json_is_object(typed) && !json_is_null(typed))
        return FAIL(e, E_INPUT, "%s: the rotary scaling is not an object", where);
    if (!(v = json_object_get(typed, "rope_type")))
        v = json_object_get(typed, "type");
    if (v && (!json_is_string(v) || strcmp(json_string_value(v), "default")))
        return FAIL(e, E_UNSUPPORTED, "%s: rotary scaling \"%.32s\" is not built in, only \"default\"", where,
                    json_is_string(v) ? json_string_value(v) : "?");
    if (json_is_object(typed) && !v && typed == s)
        return FAIL(e, E_INPUT, "%s: \"rope_scaling\" names no type", where);
    if (!(v = json_object_get(typed, "partial_rotary_factor")))
        v = json_object_get(o, "partial_rotary_factor");
    if (v && !json_is_null(v) && !(json_number_value(v) == 1))
        return FAIL(e, E_UNSUPPORTED, "%s: a partial rotary factor is not built in", where);
    return OK;
}

/* Settings that would need another forward pass. */
static int refuse_variants(const json_t *o, const char *where, struct err *e)
{
    const json_t *types = json_object_get(o, "layer_types"), *act = json_object_get(o, "hidden_act");
    int sliding, rc = get_flag(o, "use_sliding_window", 0, &sliding, where, e);
    if (rc)
        return rc;
    if (sliding)
        return FAIL(e, E_UNSUPPORTED, "%s: sliding windows are not built in", where);
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *t = json_string_value(json_array_get(types, i));
        if (!t || strcmp(t, "full_attention"))
            return FAIL(e, E_UNSUPPORTED, "%s: layer_types[%zu] is \"%.40s\", only full_attention is built in", where,
                        i, t ? t : "?");
    }
    if (act && (!json_is_string(act) || strcmp(json_string_value(act), "silu")))
        return FAIL(e, E_UNSUPPORTED, "%s: hidden_act \"%.40s\" is not built in, only silu", where,
                    json_is_string(act) ? json_string_value(act) : "?");
    if (!is_null(o, "logit_scale") && !(json_number_value(json_object_get(o, "logit_scale")) == 1))
        return FAIL(e, E_UNSUPPORTED, "%s: a logit scale is not built in", where);
    return OK;
}

static int read_experts(const json_t *o, const char *where, struct config *c, struct err *e)
{
    struct model_config *m = &c->model;
    const json_t *dense = json_object_get(o, "mlp_only_layers");
    int step, rc;
    memset(c->is_moe, 0, (size_t)m->layers);
    if (!c->arch->moe)
        return OK;
    const char *count = is_null(o, "num_experts") ? "num_local_experts" : "num_experts";
    if ((rc = get_size(o, count, 0, &m->experts, where, e)) ||
        (rc = get_size(o, "num_experts_per_tok", 0, &m->topk, where, e)) ||
        (rc = get_size(o, "moe_intermediate_size", 0, &m->expert_intermediate, where, e)) ||
        (rc = get_flag(o, "norm_topk_prob", 0, &m->norm_topk, where, e)) ||
        (rc = get_size(o, "decoder_sparse_step", 1, &step, where, e)))
        return rc;
    if (m->topk > m->experts || m->experts > 1 << 16)
        return FAIL(e, E_INPUT, "%s: %d experts, %d of them per token", where, m->experts, m->topk);
    for (int i = 0; i < m->layers; i++)
        c->is_moe[i] = (i + 1) % step == 0;
    for (size_t i = 0; i < json_array_size(dense); i++) {
        const json_t *v = json_array_get(dense, i);
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= m->layers)
            return FAIL(e, E_INPUT, "%s: mlp_only_layers[%zu] is no layer", where, i);
        c->is_moe[json_integer_value(v)] = 0;
    }
    return OK;
}

static int read_sizes(const json_t *o, const char *where, struct config *c, struct err *e)
{
    struct model_config *m = &c->model;
    double eps = 0;
    int rc;
    if ((rc = get_size(o, "hidden_size", 0, &m->hidden, where, e)) ||
        (rc = get_size(o, "num_hidden_layers", 0, &m->layers, where, e)) ||
        (rc = get_size(o, "num_attention_heads", 0, &m->heads, where, e)) ||
        (rc = get_size(o, "num_key_value_heads", m->heads, &m->kv_heads, where, e)) ||
        (rc = get_size(o, "intermediate_size", 0, &m->intermediate, where, e)) ||
        (rc = get_size(o, "vocab_size", 0, &m->vocab, where, e)) ||
        (rc = get_size(o, "max_position_embeddings", 0, &m->max_positions, where, e)) ||
        (rc = json_get_real(o, "rms_norm_eps", &eps, where, e)) ||
        (rc = get_flag(o, "tie_word_embeddings", 0, &m->tied, where, e)) ||
        (rc = get_size(o, "head_dim", m->hidden / m->heads ? m->hidden / m->heads : 1, &m->head_dim, where, e)))
        return rc;
    if (is_null(o, "head_dim") && m->hidden % m->heads)
        return FAIL(e, E_INPUT, "%s: hidden_size %d is no multiple of %d heads", where, m->hidden, m->heads);
    if (m->heads % m->kv_heads || m->head_dim % 2 || (int64_t)m->heads * m->head_dim > SIZE_LIMIT)
        return FAIL(e, E_INPUT, "%s: %d heads, %d key-value heads, head_dim %d do not go together", where, m->heads,
                    m->kv_heads, m->head_dim);
    if (m->layers > 1 << 12)
        return FAIL(e, E_INPUT, "%s: %d layers are absurd", where, m->layers);
    m->norm_eps = (float)eps;
    if (!isfinite(m->norm_eps) || m->norm_eps < 0)
        return FAIL(e, E_INPUT, "%s: rms_norm_eps is %g", where, eps);
    c->is_moe = malloc((size_t)m->layers);
    return c->is_moe ? read_experts(o, where, c, e) : FAIL(e, E_NOMEM, "%s: out of memory", where);
}

static int add_eos(const json_t *v, const char *where, struct model_config *m, struct err *e)
{
    int64_t id = json_integer_value(v);
    if (!json_is_integer(v) || id < 0 || id >= m->vocab)
        return FAIL(e, E_INPUT, "%s: \"eos_token_id\" is no id of the vocabulary of %d", where, m->vocab);
    for (int i = 0; i < m->eos_count; i++)
        if (m->eos[i] == id)
            return OK;
    if (m->eos_count == (int)(sizeof m->eos / sizeof *m->eos))
        return FAIL(e, E_UNSUPPORTED, "%s: more than %d ends of sequence", where, m->eos_count);
    m->eos[m->eos_count++] = (int32_t)id;
    return OK;
}

static int read_eos(const json_t *o, const char *where, struct model_config *m, struct err *e)
{
    const json_t *v = json_object_get(o, "eos_token_id");
    int rc = OK;
    if (is_null(o, "eos_token_id"))
        return OK;
    if (!json_is_array(v))
        return add_eos(v, where, m, e);
    for (size_t i = 0; i < json_array_size(v) && rc == OK; i++)
        rc = add_eos(json_array_get(v, i), where, m, e);
    return rc;
}

/* NULL without an error when there is no such file. */
static int read_optional(const char *folder, const char *name, char *path, size_t size, json_t **o, struct err *e)
{
    snprintf(path, size, "%s/%s", folder, name);
    *o = NULL;
    if (access(path, F_OK))
        return OK;
    if (!(*o = json_read(path, e)))
        return e ? e->code : E_INPUT;
    return json_is_object(*o) ? OK : FAIL(e, E_INPUT, "%s: not a JSON object", path);
}

static int read_main(const char *where, const json_t *o, struct config *c, struct err *e)
{
    int rc;
    if ((rc = find_arch(o, where, &c->arch, e)))
        return rc;
    snprintf(c->model.arch, sizeof c->model.arch, "%s", c->arch->name);
    c->model.qk_norm = c->arch->qk_norm;
    if ((rc = read_sizes(o, where, c, e)) || (rc = read_rope(o, where, &c->model, e)) ||
        (rc = refuse_variants(o, where, e)))
        return rc;
    return read_eos(o, where, &c->model, e);
}

int config_read(const char *folder, struct config *c, struct err *e)
{
    struct err local = {0};
    char path[1024], other[1024];
    json_t *o = NULL, *generation = NULL, *quantize = NULL;
    int rc;
    e = e ? e : &local;
    memset(c, 0, sizeof *c);
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (!(o = json_read(path, e)))
        return e->code;
    if (!json_is_object(o))
        rc = FAIL(e, E_INPUT, "%s: not a JSON object", path);
    else
        rc = read_main(path, o, c, e);
    if (rc || (rc = read_optional(folder, "generation_config.json", other, sizeof other, &generation, e)) ||
        (rc = read_eos(generation, other, &c->model, e)))
        goto out;
    const json_t *q = json_object_get(o, "quantization_config");
    if (is_null(o, "quantization_config")) {
        if ((rc = read_optional(folder, "quantize_config.json", path, sizeof path, &quantize, e)))
            goto out;
        /* a file of that name is GPTQ's, and older writers leave the method out */
        if (quantize && is_null(quantize, "quant_method"))
            json_object_set_new(quantize, "quant_method", json_string("gptq"));
        q = quantize;
    }
    rc = scheme_read(q, path, &c->scheme, e);
out:
    json_decref(o);
    json_decref(generation);
    json_decref(quantize);
    if (rc)
        config_free(c);
    return rc;
}

void config_free(struct config *c)
{
    free(c->is_moe);
    memset(c, 0, sizeof *c);
}
