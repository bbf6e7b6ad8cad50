/* arch - what a model class of Hugging Face means to the loader: one file harness/models/arch_NAME.c each
 *
 * Tensor names are as in the checkpoint; the loader puts "model.layers.L." before those of a layer, and
 * "EXPERTS.E." before those of an expert.
 */
#ifndef ASSAY_MODELS_ARCH_H
#define ASSAY_MODELS_ARCH_H

struct arch {
    const char *name;       /* qwen3 */
    const char *hf_class;   /* first entry of "architectures" */
    const char *model_type; /* of config.json */
    const char *gguf_name;  /* general.architecture of GGUF; NULL: not converted */
    int qk_norm, moe;       /* flags */
    int gguf_permutes_qk;   /* GGUF holds the rows of q and k in the interleaved order of its rotary kernel */
    int writes_layer_types; /* transformers writes "layer_types" into config.json */
    const char *embed, *final_norm, *head, *layers; /* layers: prefix, "model.layers." */
    const char *input_norm, *post_norm, *q_norm, *k_norm;
    const char *q, *k, *v, *o, *gate, *up, *down; /* without .weight */
    const char *router, *experts, *expert_gate, *expert_up, *expert_down;
};

#define ARCH(NAME) const struct arch arch_##NAME

extern const struct arch *const arch_all[]; /* NULL-terminated, made by the Makefile */

#endif
