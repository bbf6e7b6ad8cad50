#include "harness/models/convert.h"

#include "harness/models/hf_json.h"
#include "harness/models/load.h"
#include "harness/models/quantize.h"
#include "harness/models/stage.h"
#include "harness/models/tensor_list.h"
#include "harness/models/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    const struct model *m;
    enum weight_format format;
    int group;
    struct tensor_list out;
};

/* Name of a part: ".weight" of the layer's name becomes ".SUFFIX". */
static int new_part(struct job *j, const struct linear *l, const char *suffix, enum dtype d, int64_t rows, int64_t cols,
                    void **data, struct err *e)
{
    char name[512];
    snprintf(name, sizeof name, "%.*s.%s", (int)(strlen(l->weight.name) - strlen(".weight")), l->weight.name, suffix);
    return tensor_list_new(&j->out, name, d, rows, cols, data, e);
}

/* A copy when the file's place is odd, so that two-byte reads are aligned. */
static const uint16_t *aligned(const struct tensor *t, void **copy)
{
    *copy = NULL;
    if ((uintptr_t)t->data % sizeof(uint16_t) == 0)
        return t->data;
    if ((*copy = malloc(t->bytes)))
        memcpy(*copy, t->data, t->bytes);
    return *copy;
}

static int quantize_words(struct job *j, const struct linear *l, const uint16_t *w, struct err *e)
{
    void *codes, *scale, *shape;
    int rc;
    if ((rc = new_part(j, l, "weight_packed", DT_I32, l->n, l->k / 8, &codes, e)) ||
        (rc = new_part(j, l, "weight_scale", DT_BF16, l->n, l->k / j->group, &scale, e)) ||
        (rc = new_part(j, l, "weight_shape", DT_I64, 2, 0, &shape, e)))
        return rc;
    ((int64_t *)shape)[0] = l->n;
    ((int64_t *)shape)[1] = l->k;
    quantize_int4(w, l->n, l->k, j->group, codes, scale);
    return OK;
}

static int quantize_bytes(struct job *j, const struct linear *l, const uint16_t *w, float g, struct err *e)
{
    void *codes, *scale, *global;
    enum dtype d = j->format == WF_NVFP4 ? DT_F8_E4M3 : DT_U8;
    int rc;
    if ((rc = new_part(j, l, "weight_packed", DT_U8, l->n, l->k / 2, &codes, e)) ||
        (rc = new_part(j, l, "weight_scale", d, l->n, l->k / j->group, &scale, e)))
        return rc;
    if (j->format == WF_MXFP4) {
        quantize_mxfp4(w, l->n, l->k, codes, scale);
        return OK;
    }
    if ((rc = new_part(j, l, "weight_global_scale", DT_F32, 1, 0, &global, e)))
        return rc;
    *(float *)global = g;
    quantize_nvfp4(w, l->n, l->k, g, codes, scale);
    return OK;
}

static int check_linear(const struct job *j, const struct linear *l, uint16_t *largest, struct err *e)
{
    int64_t bad;
    void *copy;
    if (l->format != WF_PLAIN)
        return FAIL(e, E_USAGE, "%s: \"%s\" is quantised already", j->m->path, l->weight.name);
    if (l->k % j->group || l->k % 8)
        return FAIL(e, E_UNSUPPORTED, "%s: \"%s\" has %d inputs, no multiple of the group %d", j->m->path,
                    l->weight.name, l->k, j->group);
    const uint16_t *w = aligned(&l->weight, &copy);
    if (!w)
        return FAIL(e, E_NOMEM, "%s: out of memory", j->m->path);
    uint16_t a = quantize_largest(w, (int64_t)l->n * l->k, &bad);
    free(copy);
    if (bad >= 0)
        return FAIL(e, E_INPUT, "%s: tensor \"%s\": the weight at [%lld,%lld] is not finite", j->m->path,
                    l->weight.name, (long long)(bad / l->k), (long long)(bad % l->k));
    *largest = a > *largest ? a : *largest;
    return OK;
}

/* Layers that engines merge into one matrix share the divisor. */
static int quantize_merged(struct job *j, const struct linear *const *l, int n, struct err *e)
{
    uint16_t largest = 0;
    int rc = OK;
    for (int i = 0; i < n; i++)
        if ((rc = check_linear(j, l[i], &largest, e)))
            return rc;
    float g = quantize_global(largest);
    if (!isfinite(g))
        return FAIL(e, E_UNSUPPORTED, "%s: \"%s\": the weights are too small for a finite divisor", j->m->path,
                    l[0]->weight.name);
    for (int i = 0; i < n && rc == OK; i++) {
        void *copy;
        const uint16_t *w = aligned(&l[i]->weight, &copy);
        if (!w)
            return FAIL(e, E_NOMEM, "%s: out of memory", j->m->path);
        rc = j->format == WF_U4B8 ? quantize_words(j, l[i], w, e) : quantize_bytes(j, l[i], w, g, e);
        free(copy);
        if (rc == OK && l[i]->bias.name)
            rc = tensor_list_borrow(&j->out, &l[i]->bias, e);
    }
    return rc;
}

static int keep_tensor(struct job *j, const struct tensor *t, struct err *e)
{
    return t->name ? tensor_list_borrow(&j->out, t, e) : OK;
}

static int quantize_mlp(struct job *j, const struct linear *gate, const struct linear *up, const struct linear *down,
                        struct err *e)
{
    int rc = quantize_merged(j, (const struct linear *const[]){gate, up}, 2, e);
    return rc ? rc : quantize_merged(j, &down, 1, e);
}

static int quantize_layer(struct job *j, const struct layer *l, struct err *e)
{
    const struct linear *const qkv[] = {&l->q, &l->k, &l->v}, *o = &l->o;
    int rc;
    if ((rc = keep_tensor(j, &l->input_norm, e)) || (rc = keep_tensor(j, &l->post_norm, e)) ||
        (rc = keep_tensor(j, &l->q_norm, e)) || (rc = keep_tensor(j, &l->k_norm, e)) ||
        (rc = quantize_merged(j, qkv, 3, e)) || (rc = quantize_merged(j, &o, 1, e)))
        return rc;
    if (!l->experts)
        return quantize_mlp(j, &l->gate, &l->up, &l->down, e);
    if ((rc = keep_tensor(j, &l->router.weight, e)) || (rc = keep_tensor(j, &l->router.bias, e)))
        return rc;
    for (int i = 0; i < j->m->config.experts && rc == OK; i++)
        rc = quantize_mlp(j, &l->experts[i].gate, &l->experts[i].up, &l->experts[i].down, e);
    return rc;
}

static int quantize_weights(struct job *j, const struct convert_progress *p, struct err *e)
{
    const struct model *m = j->m;
    int rc;
    if ((rc = keep_tensor(j, &m->embed, e)) || (rc = keep_tensor(j, &m->final_norm, e)) ||
        (!m->config.tied && (rc = keep_tensor(j, &m->head.weight, e))))
        return rc;
    for (int i = 0; i < m->config.layers && rc == OK; i++) {
        rc = quantize_layer(j, &m->layer[i], e);
        if (p && p->step)
            p->step(p->arg, "layers quantised", i + 1, m->config.layers);
    }
    return rc;
}

/* Tokenizer and whatever else travels unchanged; what this conversion writes itself does not. */
static int copy_others(const struct model *m, const struct stage *s, struct err *e)
{
    static const char *const skip[] = {"config.json", "quantize_config.json", "recipe.yaml",
                                       "model.safetensors.index.json", "tensors.json"};
    int rc = OK;
    for (int i = 0; i < m->files && rc == OK; i++) {
        char path[1024];
        const char *name = m->file[i].name, *dot = strrchr(name, '.');
        int skipped = dot && !strcmp(dot, ".safetensors");
        for (size_t k = 0; k < sizeof skip / sizeof *skip; k++)
            skipped |= !strcmp(name, skip[k]);
        snprintf(path, sizeof path, "%s/%s", m->path, name);
        if (!skipped)
            rc = stage_copy(s, path, name, e);
    }
    return rc;
}

static int has_file(const struct model *m, const char *name)
{
    for (int i = 0; i < m->files; i++)
        if (!strcmp(m->file[i].name, name))
            return 1;
    return 0;
}

static int write_configs(const struct job *j, const struct stage *s, struct err *e)
{
    const struct config *c = &((const struct owner *)j->m->owner)->config;
    char path[1024];
    int rc = OK;
    snprintf(path, sizeof path, "%s/config.json", j->m->path);
    json_t *source = json_read(path, e), *o = source ? hf_config_normalise(source, c) : NULL;
    if (!o || json_object_set_new(o, "quantization_config", hf_quantization(c, j->format, j->group))) {
        rc = FAIL(e, E_NOMEM, "%s: out of memory", path);
        goto out;
    }
    snprintf(path, sizeof path, "%s/config.json", s->path);
    if ((rc = hf_json_write(path, o, 0, e)) || has_file(j->m, "generation_config.json"))
        goto out;
    json_t *generation = json_pack("{s:b,s:s,s:b}", "_from_model_config", 1, "transformers_version",
                                   json_string_value(json_object_get(o, "transformers_version")), "use_cache", 1);
    static const char *const id[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
    for (int i = 0; i < 3; i++)
        if (json_is_integer(json_object_get(o, id[i])) || json_is_array(json_object_get(o, id[i])))
            json_object_set(generation, id[i], json_object_get(o, id[i]));
    snprintf(path, sizeof path, "%s/generation_config.json", s->path);
    rc = hf_json_write(path, generation, 1, e);
    json_decref(generation);
out:
    json_decref(o);
    json_decref(source);
    return rc;
}

int convert_quantize(const char *src, const char *dst, enum weight_format format, int group,
                     const struct convert_progress *p, struct err *e)
{
    struct model *m = NULL;
    struct stage s = {0};
    struct job j = {.format = format, .group = format == WF_NVFP4 ? 16 : format == WF_MXFP4 ? 32 : group};
    char path[1024];
    int rc;
    if (j.group <= 0 || j.group % 8)
        return FAIL(e, E_USAGE, "a group of %d is not built in", group);
    if ((rc = stage_open(dst, &s, e)) || (rc = model_open(src, &m, e)))
        goto out;
    j.m = m;
    if ((rc = quantize_weights(&j, p, e)))
        goto out;
    snprintf(path, sizeof path, "%s/model.safetensors", s.path);
    if ((rc = safetensors_write(path, j.out.tensor, j.out.tensors, e)) || (rc = write_configs(&j, &s, e)) ||
        (rc = copy_others(m, &s, e)))
        goto out;
    rc = stage_commit(&s, e);
out:
    stage_abandon(&s);
    tensor_list_free(&j.out);
    model_close(m);
    return rc;
}
