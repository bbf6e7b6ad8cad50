/* model - a loaded checkpoint, as every side sees it: configuration and weights as the files hold them
 *
 * Loaded by harness/models; borrowed read-only by engines and oracles until the model is closed. Nothing is merged,
 * decoded or re-encoded here: each side does that with its own arithmetic.
 */
#ifndef ASSAY_BASE_MODEL_H
#define ASSAY_BASE_MODEL_H

#include "harness/base/dtype.h"
#include "harness/base/sha256.h"

#include <stddef.h>
#include <stdint.h>

struct tensor {
    const char *name; /* as in the checkpoint; NULL: absent */
    enum dtype dtype;
    int rank;
    int64_t shape[4];
    const void *data; /* little-endian, row-major, dense; no alignment promised */
    size_t bytes;
};

enum weight_format {
    WF_PLAIN, /* bf16 [n,k]; fp16 and fp32 checkpoints were rounded to bf16 (nearest even) by the loader */
    WF_U4B8,  /* unsigned 4-bit codes, value = (q - 8) * scale */
    WF_NVFP4, /* E2M1, group 16, E4M3 scales, one fp32 divisor */
    WF_MXFP4, /* E2M1, group 32, E8M0 scales */
};

enum weight_packing {
    PACK_NONE,   /* plain */
    PACK_BYTES,  /* u8 [n,k/2], even k in the low nibble */
    PACK_WORDS,  /* i32 [n,k/8], k in bits 4*(k mod 8) */
    PACK_GPTQ_K, /* i32 [k/8,n], k in bits 4*(k mod 8); scales are [k/group,n] */
};

/* One linear layer y[n] = sum_k w[n,k] x[k] (+ bias[n]) as the checkpoint stores it. */
struct linear {
    int n, k;  /* output and input features */
    int group; /* k's that share a scale; 0: one scale a row (channelwise); plain: 0 */
    enum weight_format format;
    enum weight_packing packing;
    struct tensor weight; /* plain: bf16 [n,k]; else the codes */
    struct tensor scale;  /* u4b8: bf16 or f16 [n,k/group]; nvfp4: E4M3 [n,k/16]; mxfp4: U8 [n,k/32] */
    float global_scale;   /* nvfp4: the divisor, w = code * scale / global_scale; else 1 */
    struct tensor bias;   /* bf16 [n] or absent */
};

struct expert {
    struct linear gate, up, down;
};

struct layer {
    struct tensor input_norm, post_norm; /* bf16 [hidden] */
    struct tensor q_norm, k_norm;        /* bf16 [head_dim] or absent */
    struct linear q, k, v, o;
    struct linear gate, up, down; /* dense layers; n = 0 in an MoE layer */
    struct linear router;         /* MoE: plain [experts,hidden]; n = 0 in a dense layer */
    struct expert *experts;       /* config.experts of them, or NULL */
};

struct model_config {
    char arch[64]; /* name of the architecture file: qwen3, qwen3_moe, llama */
    int hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, max_positions;
    int qk_norm, tied;                                 /* flags */
    int experts, topk, expert_intermediate, norm_topk; /* experts 0: dense */
    float norm_eps;
    double rope_theta;
    int32_t eos[8]; /* ids that end a sequence */
    int eos_count;
};

struct model_file {
    char name[128]; /* within the folder */
    char sha256[SHA256_HEX_SIZE];
};

struct model {
    char name[128]; /* last component of the folder */
    char path[512]; /* the folder */
    char quant[32]; /* bf16, nvfp4, mxfp4, int4g128, ... for people */
    struct model_config config;
    struct tensor embed, final_norm; /* bf16 [vocab,hidden], [hidden] */
    struct linear head;              /* plain [vocab,hidden]; shares embed's memory when tied */
    struct layer *layer;             /* config.layers of them */
    struct model_file *file;         /* every regular file of the folder, sorted by name */
    int files;
    void *owner; /* the loader's */
};

#endif
