#include "harness/models/fetch.h"

#include "harness/models/safetensors.h"

#include <stdio.h>
#include <string.h>

/* Names of the types as PyTorch has them. */
static const char *torch_name(enum dtype d)
{
    static const char *const name[DT_COUNT] = {[DT_BF16] = "bfloat16",
                                               [DT_F16] = "float16",
                                               [DT_F32] = "float32",
                                               [DT_F64] = "float64",
                                               [DT_F8_E4M3] = "float8_e4m3fn",
                                               [DT_U8] = "uint8",
                                               [DT_I8] = "int8",
                                               [DT_I16] = "int16",
                                               [DT_I32] = "int32",
                                               [DT_I64] = "int64",
                                               [DT_BOOL] = "bool"};
    return name[d];
}

static int same_shape(const struct tensor *t, const json_t *shape)
{
    if (json_array_size(shape) != (size_t)t->rank)
        return 0;
    for (int i = 0; i < t->rank; i++)
        if (json_integer_value(json_array_get(shape, (size_t)i)) != t->shape[i])
            return 0;
    return 1;
}

static int verify_one(const char *path, const struct tensor *t, const json_t *want, struct err *e)
{
    const char *type = json_string_value(json_array_get(want, 0)), *hash = json_string_value(json_array_get(want, 2));
    uint8_t digest[SHA256_BYTES];
    char hex[SHA256_HEX_SIZE];
    if (!want)
        return FAIL(e, E_INPUT, "%s: tensor \"%s\" is not in the recipe", path, t->name);
    if (!type || !hash)
        return FAIL(e, E_INPUT, "%s: tensor \"%s\": the recipe has no type and hash for it", path, t->name);
    if (strcmp(type, torch_name(t->dtype)) || !same_shape(t, json_array_get(want, 1)))
        return FAIL(e, E_INPUT, "%s: tensor \"%s\": type or shape is not the recipe's", path, t->name);
    sha256_of(t->data, t->bytes, digest);
    sha256_hex(digest, hex);
    if (strcmp(hex, hash))
        return FAIL(e, E_INPUT, "%s: tensor \"%s\": SHA-256 is %.16s..., the recipe says %.16s...", path, t->name, hex,
                    hash);
    return OK;
}

int fetch_verify(const char *folder, const json_t *tensors, struct err *e)
{
    struct safetensors s;
    char path[1024];
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    int rc = safetensors_open(path, &s, e);
    if (rc)
        return rc;
    for (int i = 0; i < s.tensors && rc == OK; i++)
        rc = verify_one(path, &s.tensor[i], json_object_get(tensors, s.tensor[i].name), e);
    if (rc == OK && json_object_size(tensors) != (size_t)s.tensors)
        rc = FAIL(e, E_INPUT, "%s: %d tensors, the recipe has %zu", path, s.tensors, json_object_size(tensors));
    safetensors_close(&s);
    return rc;
}
