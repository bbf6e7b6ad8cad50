/* sha256 - hashes as lower-case hexadecimal, by libcrypto */
#ifndef ASSAY_BASE_SHA256_H
#define ASSAY_BASE_SHA256_H

#include "harness/base/err.h"

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES    32
#define SHA256_HEX_SIZE 65 /* with the closing zero */

struct sha256; /* a running hash */

struct sha256 *sha256_new(void); /* NULL without memory; caller frees */
void sha256_add(struct sha256 *s, const void *data, size_t bytes);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]); /* frees s */

void sha256_of(const void *data, size_t bytes, uint8_t out[SHA256_BYTES]);
void sha256_hex(const uint8_t hash[SHA256_BYTES], char out[SHA256_HEX_SIZE]);
/* 0 when text is not 64 hexadecimal digits. */
int sha256_parse(const char *text, uint8_t out[SHA256_BYTES]);
int sha256_file(const char *path, char out[SHA256_HEX_SIZE], struct err *e);

#endif
