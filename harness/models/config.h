/* config - config.json of a Hugging Face folder: the architecture's numbers and how its weights are quantised */
#ifndef ASSAY_MODELS_CONFIG_H
#define ASSAY_MODELS_CONFIG_H

#include "harness/base/json.h"
#include "harness/base/model.h"
#include "harness/models/arch.h"

enum scheme_kind {
    SCHEME_PLAIN,      /* bf16, fp16, fp32 */
    SCHEME_COMPRESSED, /* compressed-tensors */
    SCHEME_GPTQ,
};

struct scheme {
    enum scheme_kind kind;
    enum weight_format format;
    int group;      /* 0: one scale a row */
    char label[32]; /* bf16, nvfp4, int4g128, ... */
};

struct config {
    const struct arch *arch;
    struct model_config model;
    struct scheme scheme;
    uint8_t *is_moe; /* [layers] */
};

/* Reads config.json, generation_config.json and quantize_config.json of the folder. What would change the arithmetic
 * and is not built (rotary scaling, sliding windows, quantised activations, ...) is E_UNSUPPORTED. Caller frees. */
int config_read(const char *folder, struct config *c, struct err *e);
void config_free(struct config *c); /* zeroed is fine */

/* The architecture of a class name; NULL when there is none. */
const struct arch *arch_of_class(const char *hf_class);

/* quantization_config -> scheme; NULL or null is SCHEME_PLAIN. `where` is the file. */
int scheme_read(const json_t *q, const char *where, struct scheme *s, struct err *e);

#endif
