#include "harness/base/sha256.h"

#include "harness/base/mapped.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

struct sha256 *sha256_new(void)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    if (ctx && !EVP_DigestInit_ex(ctx, EVP_sha256(), NULL)) {
        EVP_MD_CTX_free(ctx);
        ctx = NULL;
    }
    return (struct sha256 *)ctx;
}

void sha256_add(struct sha256 *s, const void *data, size_t bytes)
{
    EVP_DigestUpdate((EVP_MD_CTX *)s, data, bytes);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    EVP_DigestFinal_ex((EVP_MD_CTX *)s, out, NULL);
    EVP_MD_CTX_free((EVP_MD_CTX *)s);
}

void sha256_of(const void *data, size_t bytes, uint8_t out[SHA256_BYTES])
{
    EVP_Digest(data, bytes, out, NULL, EVP_sha256(), NULL);
}

void sha256_hex(const uint8_t hash[SHA256_BYTES], char out[SHA256_HEX_SIZE])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int sha256_parse(const char *text, uint8_t out[SHA256_BYTES])
{
    if (strlen(text) != 2 * SHA256_BYTES)
        return 0;
    for (int i = 0; i < SHA256_BYTES; i++) {
        int hi = digit(text[2 * i]), lo = digit(text[2 * i + 1]);
        if (hi < 0 || lo < 0)
            return 0;
        out[i] = (uint8_t)(hi << 4 | lo);
    }
    return 1;
}

int sha256_file(const char *path, char out[SHA256_HEX_SIZE], struct err *e)
{
    struct mapped m;
    if (mapped_open(path, &m, e))
        return e->code;
    uint8_t hash[SHA256_BYTES];
    sha256_of(m.data, m.bytes, hash);
    sha256_hex(hash, out);
    mapped_close(&m);
    return OK;
}
