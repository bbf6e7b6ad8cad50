#include "goldens/logits.h"

#include "goldens/db.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC "assaylg1"
#define HEAD  16
#define LEVEL 3

static int32_t word(const unsigned char *at)
{
    int32_t x;
    memcpy(&x, at, sizeof x);
    return x;
}

/* Row i's residual into two planes. */
static void split(const uint16_t *row, const uint16_t *foretold, int vocab, unsigned char *plane)
{
    for (int i = 0; i < vocab; i++) {
        unsigned x = (unsigned)row[i] ^ (foretold ? foretold[i] : 0u);
        plane[i] = (unsigned char)(x >> 8);
        plane[vocab + i] = (unsigned char)x;
    }
}

static void join(const unsigned char *plane, const uint16_t *foretold, int vocab, uint16_t *row)
{
    for (int i = 0; i < vocab; i++)
        row[i] = (uint16_t)((unsigned)(plane[i] << 8 | plane[vocab + i]) ^ (foretold ? foretold[i] : 0u));
}

int logits_pack(const uint16_t *row, const uint16_t *foretold, int rows, int vocab, void **out, size_t *bytes,
                struct err *e)
{
    size_t wide = (size_t)vocab * 2, head = HEAD + (size_t)rows * (SHA256_BYTES + 1), left = 0, packed = 0;
    unsigned char *residual = malloc((size_t)rows * wide + 1), *own = malloc(head);
    void *tail = NULL;
    if (!residual || !own) {
        FAIL(e, E_NOMEM, "out of memory for %d rows of logits", rows);
        goto out;
    }
    memcpy(own, MAGIC, 8);
    memcpy(own + 8, &rows, 4);
    memcpy(own + 12, &vocab, 4);
    for (int i = 0; i < rows; i++) {
        const uint16_t *r = row + (size_t)i * (size_t)vocab,
                       *f = foretold ? foretold + (size_t)i * (size_t)vocab : NULL;
        int differs = !f || memcmp(r, f, wide) != 0;
        sha256_of(r, wide, own + HEAD + (size_t)i * SHA256_BYTES);
        own[HEAD + (size_t)rows * SHA256_BYTES + (size_t)i] = (unsigned char)differs;
        if (differs)
            split(r, f, vocab, residual + left++ * wide);
    }
    if (left && db_pack(residual, left * wide, LEVEL, &tail, &packed, e))
        goto out;
    unsigned char *all = realloc(own, head + packed);
    if (!all) {
        FAIL(e, E_NOMEM, "out of memory for %d rows of logits", rows);
        goto out;
    }
    if (packed)
        memcpy(all + head, tail, packed);
    *out = all;
    *bytes = head + packed;
    own = NULL;
out:
    free(own);
    free(residual);
    free(tail);
    return e->code;
}

int logits_sizes(const void *data, size_t bytes, const char *name, int *rows, int *vocab, struct err *e)
{
    const unsigned char *p = data;
    if (bytes < HEAD || memcmp(p, MAGIC, 8))
        return FAIL(e, E_STORE, "%s: no packed logits", name);
    *rows = word(p + 8);
    *vocab = word(p + 12);
    if (*rows < 0 || *vocab < 1 || *vocab > 1 << 24 || bytes < HEAD + (size_t)*rows * (SHA256_BYTES + 1))
        return FAIL(e, E_STORE, "%s: %zu bytes are not %d rows of %d logits", name, bytes, *rows, *vocab);
    return OK;
}

static int unpack_rows(const unsigned char *p, const unsigned char *residual, const uint16_t *foretold, int rows,
                       int vocab, const char *name, uint16_t *row, struct err *e)
{
    size_t wide = (size_t)vocab * 2, left = 0;
    for (int i = 0; i < rows; i++) {
        uint8_t hash[SHA256_BYTES];
        uint16_t *r = row + (size_t)i * (size_t)vocab;
        const uint16_t *f = foretold ? foretold + (size_t)i * (size_t)vocab : NULL;
        if (p[HEAD + (size_t)rows * SHA256_BYTES + (size_t)i])
            join(residual + left++ * wide, f, vocab, r);
        else if (f && f != r)
            memcpy(r, f, wide);
        else if (!f)
            return FAIL(e, E_STORE, "%s: row %d is as foretold, and nothing foretells it here", name, i);
        sha256_of(r, wide, hash);
        if (memcmp(hash, p + HEAD + (size_t)i * SHA256_BYTES, SHA256_BYTES))
            return FAIL(e, E_STORE, "%s: row %d is not what was stored: damaged, or foretold otherwise", name, i);
    }
    return OK;
}

int logits_unpack(const void *data, size_t bytes, const uint16_t *foretold, int rows, int vocab, const char *name,
                  uint16_t *row, struct err *e)
{
    const unsigned char *p = data;
    size_t head = HEAD + (size_t)rows * (SHA256_BYTES + 1), left = 0;
    char *residual = NULL;
    int n, v;
    if (logits_sizes(data, bytes, name, &n, &v, e))
        return e->code;
    if (n != rows || v != vocab)
        return FAIL(e, E_STORE, "%s: %d rows of %d logits, not %d of %d", name, n, v, rows, vocab);
    const unsigned char *flag = p + HEAD + (size_t)rows * SHA256_BYTES;
    for (int i = 0; i < rows; left += flag[i++])
        if (flag[i] > 1)
            return FAIL(e, E_STORE, "%s: row %d is neither as foretold nor not", name, i);
    if (left ? db_unpack(p + head, bytes - head, left * (size_t)vocab * 2, name, &residual, e) != OK : bytes != head)
        return e->code ? e->code : FAIL(e, E_STORE, "%s: bytes behind its end", name);
    int rc = unpack_rows(p, (unsigned char *)residual, foretold, rows, vocab, name, row, e);
    free(residual);
    return rc;
}
