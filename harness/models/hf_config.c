#include "harness/models/hf_json.h"

#include <string.h>

#define TRANSFORMERS       "5.10.1"
#define COMPRESSED_TENSORS "0.17.1"

static void set_default(json_t *o, const char *key, json_t *v)
{
    if (json_object_get(o, key))
        json_decref(v);
    else
        json_object_set_new(o, key, v);
}

static void rename_key(json_t *o, const char *from, const char *to)
{
    json_t *v = json_object_get(o, from);
    if (!v)
        return;
    json_object_set(o, to, v);
    json_object_del(o, from);
}

json_t *hf_config_normalise(const json_t *source, const struct config *c)
{
    json_t *o = json_deep_copy(source);
    if (!o)
        return NULL;
    json_object_del(o, "torch_dtype");
    json_object_del(o, "quantization_config");
    json_object_set_new(o, "dtype", json_string("bfloat16"));
    json_object_set_new(o, "transformers_version", json_string(TRANSFORMERS));
    set_default(o, "pad_token_id", json_null());
    if (!json_is_object(json_object_get(o, "rope_parameters"))) {
        json_t *theta = json_object_get(o, "rope_theta"), *rope = json_object();
        json_object_set_new(rope, "rope_theta", json_is_number(theta) ? json_incref(theta) : json_real(10000));
        json_object_set_new(rope, "rope_type", json_string("default"));
        json_object_set_new(o, "rope_parameters", rope);
    }
    json_object_del(o, "rope_theta");
    json_object_del(o, "rope_scaling");
    if (c->arch->moe)
        rename_key(o, "num_experts", "num_local_experts");
    if (c->arch->writes_layer_types && !json_object_get(o, "layer_types")) {
        json_t *types = json_array();
        for (int i = 0; i < c->model.layers; i++)
            json_array_append_new(types, json_string("full_attention"));
        json_object_set_new(o, "layer_types", types);
    }
    return o;
}

/* Modules that stay unquantised, in the order in which the model's modules are visited. */
static json_t *ignored(const struct config *c)
{
    json_t *list = json_array();
    for (int l = 0; l < c->model.layers; l++) {
        if (!c->is_moe[l])
            continue;
        for (int x = 0; x < c->model.experts; x++)
            json_array_append_new(list, json_sprintf("%s.%d.%s.%d", c->arch->layers, l, c->arch->experts, x));
        json_array_append_new(list, json_sprintf("%s.%d.%s", c->arch->layers, l, c->arch->router));
    }
    json_array_append_new(list, json_string(c->arch->head));
    return list;
}

json_t *hf_quantization(const struct config *c, enum weight_format format, int group)
{
    static const char *const name[] = {[WF_PLAIN] = "",
                                       [WF_U4B8] = "pack-quantized",
                                       [WF_NVFP4] = "nvfp4-pack-quantized",
                                       [WF_MXFP4] = "mxfp4-pack-quantized"};
    static const char *const scale[] = {
        [WF_PLAIN] = NULL, [WF_U4B8] = NULL, [WF_NVFP4] = "torch.float8_e4m3fn", [WF_MXFP4] = "torch.uint8"};
    json_t *weights =
        json_pack("{s:n,s:n,s:b,s:i,s:i,s:s,s:{},s:s?,s:s,s:b,s:s,s:n}", "actorder", "block_structure", "dynamic", 0,
                  "group_size", group, "num_bits", 4, "observer", "memoryless_minmax", "observer_kwargs", "scale_dtype",
                  scale[format], "strategy", format == WF_NVFP4 ? "tensor_group" : "group", "symmetric", 1, "type",
                  format == WF_U4B8 ? "int" : "float", "zp_dtype");
    json_t *part = json_pack("{s:s,s:n,s:n,s:[s],s:o}", "format", name[format], "input_activations",
                             "output_activations", "targets", "Linear", "weights", weights);
    return json_pack("{s:{s:o},s:s,s:n,s:o,s:n,s:s,s:s,s:{},s:{},s:s}", "config_groups", "group_0", part, "format",
                     name[format], "global_compression_ratio", "ignore", ignored(c), "kv_cache_scheme", "quant_method",
                     "compressed-tensors", "quantization_status", "compressed", "sparsity_config", "transform_config",
                     "version", COMPRESSED_TENSORS);
}
