#include "harness/models/arch.h"

#include <stddef.h>

ARCH(llama) = {
    .name = "llama",
    .hf_class = "LlamaForCausalLM",
    .model_type = "llama",
    .gguf_name = "llama",
    .qk_norm = 0,
    .moe = 0,
    .gguf_permutes_qk = 1,
    .writes_layer_types = 0,
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layers = "model.layers",
    .input_norm = "input_layernorm",
    .post_norm = "post_attention_layernorm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.o_proj",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};
