/* json - Jansson with this house's strictness: duplicate keys, trailing text and NUL bytes are errors with a place */
#ifndef ASSAY_BASE_JSON_H
#define ASSAY_BASE_JSON_H

#include "harness/base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Parses one JSON value of `bytes` bytes; `name` is the file, `line` its line in that file (0: the whole file).
 * Returns a new reference, or NULL with e set (E_INPUT). */
json_t *json_parse(const char *text, size_t bytes, const char *name, int line, struct err *e);

/* Reads a whole file. E_MISSING when it is not there. */
json_t *json_read(const char *path, struct err *e);

/* Typed access to a member; `where` names the object in the message. All return OK or set e (E_INPUT). */
int json_get_str(const json_t *o, const char *key, const char **out, const char *where, struct err *e);
int json_get_int(const json_t *o, const char *key, int64_t lo, int64_t hi, int64_t *out, const char *where,
                 struct err *e);
int json_get_real(const json_t *o, const char *key, double *out, const char *where, struct err *e);
/* Array of integers in [lo,hi] -> malloc'ed ids (caller frees; non-NULL also when empty). */
int json_get_ids(const json_t *o, const char *key, int64_t lo, int64_t hi, int32_t **ids, int *n, const char *where,
                 struct err *e);

#endif
