/* hf_json - JSON text as transformers writes it, and the configuration of a quantised folder */
#ifndef ASSAY_MODELS_HF_JSON_H
#define ASSAY_MODELS_HF_JSON_H

#include "harness/base/json.h"
#include "harness/models/config.h"

/* Keys sorted, two spaces a level, numbers and escapes as Python's json module; no newline at the end. Caller frees;
 * NULL without memory. */
char *hf_json_text(const json_t *v);

/* Writes text (and "\n" when newline) beside PATH and renames. */
int hf_json_write(const char *path, const json_t *v, int newline, struct err *e);

/* config.json as transformers 5.10.1 normalises it: a new object; NULL without memory. */
json_t *hf_config_normalise(const json_t *source, const struct config *c);

/* quantization_config as compressed-tensors 0.17.1 writes it for these weights; NULL without memory. */
json_t *hf_quantization(const struct config *c, enum weight_format format, int group);

#endif
