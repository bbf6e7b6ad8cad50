#include "harness/models/config.h"

#include <string.h>

static int is_null(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return !v || json_is_null(v);
}

/* Absent, null, {} and [] all mean that the feature is not used. */
static int is_unused(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return is_null(o, key) || (json_is_object(v) && !json_object_size(v)) || (json_is_array(v) && !json_array_size(v));
}

static int refuse(const char *where, const char *what, struct err *e)
{
    return FAIL(e, E_UNSUPPORTED, "%s: quantization_config: %s", where, what);
}

static void name_int4(struct scheme *s, const char *prefix)
{
    if (s->group)
        snprintf(s->label, sizeof s->label, "%sint4g%d", prefix, s->group);
    else
        snprintf(s->label, sizeof s->label, "%sint4channel", prefix);
}

/* num_bits, type, strategy, group_size and symmetric decide; the "format" text is only a name. */
static int read_weights(const json_t *w, const char *where, struct scheme *s, struct err *e)
{
    const char *type, *strategy;
    int64_t bits, group = -1;
    int rc;
    if (!json_is_object(w))
        return FAIL(e, E_INPUT, "%s: quantization_config has no \"weights\"", where);
    if ((rc = json_get_int(w, "num_bits", 1, 64, &bits, where, e)) || (rc = json_get_str(w, "type", &type, where, e)) ||
        (rc = json_get_str(w, "strategy", &strategy, where, e)) ||
        (!is_null(w, "group_size") && (rc = json_get_int(w, "group_size", -1, 1 << 20, &group, where, e))))
        return rc;
    const char *order = json_string_value(json_object_get(w, "actorder"));
    if (bits != 4)
        return FAIL(e, E_UNSUPPORTED, "%s: %lld-bit weights are not built in, only 4-bit", where, (long long)bits);
    if (!json_is_true(json_object_get(w, "symmetric")))
        return refuse(where, "asymmetric weights (zero points) are not built in", e);
    if (json_is_true(json_object_get(w, "dynamic")))
        return refuse(where, "dynamic weights are not built in", e);
    if (order && strcmp(order, "weight") && strcmp(order, "static"))
        return refuse(where, "activation ordering by group is not built in", e);
    int grouped = !strcmp(strategy, "group"), is_float = !strcmp(type, "float");
    if (is_float && !strcmp(strategy, "tensor_group") && group == 16) {
        *s = (struct scheme){SCHEME_COMPRESSED, WF_NVFP4, 16, "nvfp4"};
        return OK;
    }
    if (is_float && grouped && group == 32) {
        *s = (struct scheme){SCHEME_COMPRESSED, WF_MXFP4, 32, "mxfp4"};
        return OK;
    }
    if (!strcmp(type, "int") && ((grouped && group > 0) || !strcmp(strategy, "channel"))) {
        *s = (struct scheme){SCHEME_COMPRESSED, WF_U4B8, grouped ? (int)group : 0, ""};
        name_int4(s, "");
        return OK;
    }
    return FAIL(e, E_UNSUPPORTED, "%s: weights of type \"%.16s\", strategy \"%.16s\", group %lld are not built in",
                where, type, strategy, (long long)group);
}

static int read_compressed(const json_t *q, const char *where, struct scheme *s, struct err *e)
{
    json_t *groups = json_object_get(q, "config_groups"), *group;
    const char *status = json_string_value(json_object_get(q, "quantization_status"));
    const char *sparsity = json_string_value(json_object_get(json_object_get(q, "sparsity_config"), "format"));
    if (!json_is_object(groups) || !json_object_size(groups))
        return FAIL(e, E_INPUT, "%s: quantization_config has no \"config_groups\"", where);
    if (json_object_size(groups) != 1)
        return refuse(where, "several groups of layers with their own formats are not built in", e);
    group = json_object_iter_value(json_object_iter(groups));
    if (!is_unused(group, "input_activations"))
        return refuse(where, "activations are quantised too (\"input_activations\"); only weights may be", e);
    if (!is_unused(group, "output_activations"))
        return refuse(where, "outputs are quantised too (\"output_activations\"); only weights may be", e);
    if (!is_unused(q, "kv_cache_scheme"))
        return refuse(where, "a quantised KV cache is not built in", e);
    if (!is_unused(q, "transform_config"))
        return refuse(where, "transforms are not built in", e);
    if (sparsity && strcmp(sparsity, "dense"))
        return refuse(where, "sparse weights are not built in", e);
    if (status && strcmp(status, "compressed"))
        return refuse(where, "quantization_status is not \"compressed\"", e);
    return read_weights(json_object_get(group, "weights"), where, s, e);
}

static int read_gptq(const json_t *q, const char *where, struct scheme *s, struct err *e)
{
    int64_t bits, group;
    int rc;
    if ((rc = json_get_int(q, "bits", 1, 64, &bits, where, e)) ||
        (rc = json_get_int(q, "group_size", -1, 1 << 20, &group, where, e)))
        return rc;
    if (bits != 4)
        return FAIL(e, E_UNSUPPORTED, "%s: GPTQ with %lld bits is not built in, only 4", where, (long long)bits);
    if (!group)
        return FAIL(e, E_INPUT, "%s: GPTQ group_size is 0", where);
    /* with one group over all of k the order changes nothing */
    if (json_is_true(json_object_get(q, "desc_act")) && group != -1)
        return refuse(where, "GPTQ with desc_act (activation order) is not built in", e);
    if (!json_is_true(json_object_get(q, "sym")))
        return refuse(where, "GPTQ with zero points (\"sym\" is not true) is not built in", e);
    if (json_is_true(json_object_get(q, "lm_head")))
        return refuse(where, "a quantised lm_head is not built in", e);
    if (!is_unused(q, "dynamic"))
        return refuse(where, "GPTQ with rules for single modules (\"dynamic\") is not built in", e);
    *s = (struct scheme){SCHEME_GPTQ, WF_U4B8, group > 0 ? (int)group : 0, ""};
    name_int4(s, "gptq-");
    return OK;
}

int scheme_read(const json_t *q, const char *where, struct scheme *s, struct err *e)
{
    const char *method;
    *s = (struct scheme){SCHEME_PLAIN, WF_PLAIN, 0, "bf16"};
    if (!q || json_is_null(q))
        return OK;
    int rc = json_get_str(q, "quant_method", &method, where, e);
    if (rc)
        return rc;
    if (!strcmp(method, "compressed-tensors"))
        return read_compressed(q, where, s, e);
    if (!strcmp(method, "gptq"))
        return read_gptq(q, where, s, e);
    return FAIL(e, E_UNSUPPORTED, "%s: quantisation method \"%.40s\" is not built in", where, method);
}
