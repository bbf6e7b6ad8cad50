/* folder - the files of a model folder and their hashes */
#ifndef ASSAY_MODELS_FOLDER_H
#define ASSAY_MODELS_FOLDER_H

#include "harness/base/model.h"

/* Every regular file, sorted by name, hashed. Caller frees *file. */
int folder_hash(const char *folder, struct model_file **file, int *files, struct err *e);

/* 1 when the folder holds config.json and weights. */
int folder_is_model(const char *folder);

/* Names of the models in DIR (folders that hold one), sorted; caller frees with folder_free_names. A DIR that is not
 * there has none. */
int folder_models(const char *dir, char ***names, int *n, struct err *e);
void folder_free_names(char **names, int n);

#endif
