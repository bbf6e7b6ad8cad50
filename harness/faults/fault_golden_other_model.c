/* The golden is of a model with other weights. */
#include "harness/fault.h"

#include <string.h>

static int golden(struct golden *g)
{
    json_t *files = json_object_get(g->header, "model_files"), *hash;
    const char *name;
    int changed = 0;
    json_object_foreach(files, name, hash)
    {
        if (!strstr(name, "safetensors"))
            continue;
        json_object_set_new(files, name,
                            json_string("0000000000000000000000000000000000000000000000000000000000000000"));
        changed++;
    }
    return changed;
}

FAULT(golden_other_model) = {
    .name = "golden_other_model", .summary = "the golden is of other weights", .where = "golden", .golden = golden};
