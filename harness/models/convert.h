/* convert - makes model folders: quantised ones from bf16, bf16 ones from GGUF */
#ifndef ASSAY_MODELS_CONVERT_H
#define ASSAY_MODELS_CONVERT_H

#include "harness/base/model.h"

struct convert_progress {
    void (*step)(void *arg, const char *label, long done, long total); /* NULL: silent */
    void *arg;
};

/* SRC (bf16, fp16, fp32) -> DST with every linear layer of the layers quantised. `group` counts for WF_U4B8 only. DST
 * must not exist; it appears complete or not at all. */
int convert_quantize(const char *src, const char *dst, enum weight_format format, int group,
                     const struct convert_progress *p, struct err *e);

/* GGUF file -> bf16 folder. DST must not exist. */
int convert_gguf(const char *file, const char *dst, const struct convert_progress *p, struct err *e);

#endif
