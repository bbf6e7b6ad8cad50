/* checkpoint - the tensors of a folder by name, from one safetensors file or from shards with an index */
#ifndef ASSAY_MODELS_CHECKPOINT_H
#define ASSAY_MODELS_CHECKPOINT_H

#include "harness/models/safetensors.h"

struct checkpoint {
    char folder[512];
    struct safetensors *shard;
    int shards;
    struct entry {
        const struct tensor *tensor;
        int used; /* somebody took it */
    } * entry;    /* sorted by name */
    int entries;
};

/* model.safetensors, else model.safetensors.index.json with its shards; E_MISSING when the folder holds neither or a
 * shard is not there. The index and the shards must name the same tensors. Caller closes. */
int checkpoint_open(const char *folder, struct checkpoint *c, struct err *e);
void checkpoint_close(struct checkpoint *c); /* zeroed is fine */

/* Takes a tensor: NULL when there is none. It counts as used from now on. */
const struct tensor *checkpoint_take(struct checkpoint *c, const char *name);
int checkpoint_has(const struct checkpoint *c, const char *name);

#endif
