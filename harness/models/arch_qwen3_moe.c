#include "harness/models/arch.h"

#include <stddef.h>

ARCH(qwen3_moe) = {
    .name = "qwen3_moe",
    .hf_class = "Qwen3MoeForCausalLM",
    .model_type = "qwen3_moe",
    .gguf_name = NULL,
    .qk_norm = 1,
    .moe = 1,
    .gguf_permutes_qk = 0,
    .writes_layer_types = 0,
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
    .router = "mlp.gate",
    .experts = "mlp.experts",
    .expert_gate = "gate_proj",
    .expert_up = "up_proj",
    .expert_down = "down_proj",
};
