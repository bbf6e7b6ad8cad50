/* gguf - a GGUF file (versions 2 and 3, little-endian), mapped; every count, length and offset is checked against the
 * file
 */
#ifndef ASSAY_MODELS_GGUF_H
#define ASSAY_MODELS_GGUF_H

#include "harness/base/mapped.h"

#include <stdint.h>

enum gguf_value {
#define VALUE(name, id, bytes) name = id,
#include "harness/models/gguf_value.def"
#undef VALUE
};

enum gguf_type {
#define GGUF_TYPE(name, id, block, bytes, text) name = id,
#include "harness/models/gguf_type.def"
#undef GGUF_TYPE
};

struct gguf_key {
    char *name;
    enum gguf_value type, element; /* element: of an array */
    uint64_t count;                /* of an array; else 1 */
    const uint8_t *data;           /* the value; strings: length (u64) and bytes */
};

struct gguf_tensor {
    char *name;
    enum gguf_type type;
    int rank;
    int64_t shape[4]; /* row-major, as in safetensors: the file's order reversed */
    const uint8_t *data;
    size_t bytes;
};

struct gguf {
    struct mapped map;
    char path[512];
    struct gguf_key *key;
    struct gguf_tensor *tensor;
    int keys, tensors;
};

/* Caller closes. */
int gguf_open(const char *path, struct gguf *g, struct err *e);
void gguf_close(struct gguf *g); /* zeroed is fine */

const struct gguf_key *gguf_key(const struct gguf *g, const char *name);       /* NULL when absent */
const struct gguf_tensor *gguf_tensor(const struct gguf *g, const char *name); /* NULL when absent */

/* Typed access; E_INPUT when absent or of another type. */
int gguf_int(const struct gguf *g, const char *name, int64_t lo, int64_t hi, int64_t *out, struct err *e);
int gguf_real(const struct gguf *g, const char *name, double *out, struct err *e);
int gguf_string(const struct gguf *g, const char *name, const char **text, size_t *bytes, struct err *e);
/* Walks an array of strings: *at starts as key->data and moves on. */
void gguf_next_string(const uint8_t **at, const char **text, size_t *bytes);

/* Values of a tensor as fp32, in row-major order; out holds all elements. */
void gguf_decode(const struct gguf_tensor *t, float *out);

#endif
