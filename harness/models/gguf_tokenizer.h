/* gguf_tokenizer - the tokenizer inside a GGUF file -> tokenizer.json, tokenizer_config.json, chat_template.jinja */
#ifndef ASSAY_MODELS_GGUF_TOKENIZER_H
#define ASSAY_MODELS_GGUF_TOKENIZER_H

#include "harness/models/gguf.h"
#include "harness/models/stage.h"

/* Byte-level BPE ("gpt2") with a pre-tokenizer of the list in the .c file. Another kind is left out: the model runs on
 * token ids all the same. *written tells which it was. */
int gguf_tokenizer_write(const struct gguf *g, const struct stage *s, int *written, struct err *e);

#endif
