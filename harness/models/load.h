/* load - opens a Hugging Face folder as a struct model */
#ifndef ASSAY_MODELS_LOAD_H
#define ASSAY_MODELS_LOAD_H

#include "harness/base/model.h"

/* `folder` holds config.json and model.safetensors (or an index with shards). Weights stay mapped. E_MISSING when the
 * folder or the weights are not there. Caller closes. */
int model_open(const char *folder, struct model **m, struct err *e);
void model_close(struct model *m); /* NULL is fine */

/* NAME -> folder: NAME itself when it is a model's folder (or a path to any folder), else
 * DATA_DIR/batteries/models/NAME, else CACHE_DIR/NAME (where fetched models lie; may be NULL). E_MISSING lists what
 * there is. */
int model_find(const char *name, const char *data_dir, const char *cache_dir, char *folder, size_t size, struct err *e);

/* Hash over the names and hashes of the files: the model's identity. */
void model_identity(const struct model *m, char out[SHA256_HEX_SIZE]);

#endif
