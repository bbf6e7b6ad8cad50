#include "harness/models/arch.h"

#include <stddef.h>

ARCH(qwen3) = {
    .name = "qwen3",
    .hf_class = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .gguf_name = "qwen3",
    .qk_norm = 1,
    .moe = 0,
    .gguf_permutes_qk = 0,
    .writes_layer_types = 1,
    .embed = "model.embed_tokens",
    .final_norm = "model.norm",
    .head = "lm_head",
    .layers = "model.layers",
    .input_norm = "input_layernorm",
    .post_norm = "post_attention_layernorm",
    .q_norm = "self_attn.q_norm",
    .k_norm = "self_attn.k_norm",
    .q = "self_attn.q_proj",
    .k = "self_attn.k_proj",
    .v = "self_attn.v_proj",
    .o = "self_attn.o_proj",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
};
