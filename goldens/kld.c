#include "goldens/kld.h"

#include <math.h>
#include <string.h>

static int32_t word(const unsigned char *at)
{
    return (int32_t)((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
}

static float real(const unsigned char *at)
{
    int32_t bits = word(at);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const unsigned char *row_at(const struct kld *k, int chunk, int row)
{
    return k->data + k->first + ((size_t)chunk * (size_t)k->rows + (size_t)row) * k->row_bytes;
}

static int check_tokens(const struct kld *k, const char *name, struct err *e)
{
    for (int64_t i = 0; i < (int64_t)k->chunks * k->n_ctx; i++) {
        int32_t id = word(k->data + 20 + 4 * i);
        if (id < 0 || id >= k->vocab)
            return FAIL(e, E_INPUT, "%s: token %lld is %d, outside the vocabulary of %d", name, (long long)i, id,
                        k->vocab);
    }
    return OK;
}

static int check_rows(const struct kld *k, const char *name, struct err *e)
{
    for (int c = 0; c < k->chunks; c++)
        for (int r = 0; r < k->rows; r++) {
            float scale = real(row_at(k, c, r)), least = real(row_at(k, c, r) + 4);
            if (!(scale >= 0 && scale <= 1) || !(isfinite(least) && least <= 0))
                return FAIL(e, E_INPUT, "%s: chunk %d row %d: scale %g, least log-probability %g make no distribution",
                            name, c, r, (double)scale, (double)least);
        }
    return OK;
}

int kld_parse(const void *data, size_t bytes, const char *name, struct kld *k, struct err *e)
{
    const unsigned char *p = data;
    if (bytes < 20 || memcmp(p, "_logits_", 8))
        return FAIL(e, E_INPUT, "%s: no KLD base file: it does not start with _logits_ and three sizes", name);
    *k = (struct kld){.n_ctx = word(p + 8), .vocab = word(p + 12), .chunks = word(p + 16), .data = p};
    if (k->n_ctx < 4 || k->n_ctx > 1 << 24 || k->vocab < 2 || k->vocab > 1 << 24 || k->chunks < 1 ||
        k->chunks > 1 << 24)
        return FAIL(e, E_INPUT, "%s: %d tokens a chunk, %d in the vocabulary, %d chunks: out of range", name, k->n_ctx,
                    k->vocab, k->chunks);
    k->rows = k->n_ctx - 1 - k->n_ctx / 2;
    k->row_bytes = 2 * (2 * (((size_t)k->vocab + 1) / 2) + 4);
    k->first = 20 + 4 * (size_t)k->chunks * (size_t)k->n_ctx;
    size_t want = k->first + (size_t)k->chunks * (size_t)k->rows * k->row_bytes;
    if (bytes != want)
        return FAIL(e, E_INPUT,
                    "%s: %zu bytes, but %d chunks of %d tokens over a vocabulary of %d take %zu: cut off or not such a "
                    "file",
                    name, bytes, k->chunks, k->n_ctx, k->vocab, want);
    return check_tokens(k, name, e) || check_rows(k, name, e) ? e->code : OK;
}

int32_t kld_target(const struct kld *k, int chunk, int row)
{
    return word(k->data + 20 + 4 * ((size_t)chunk * (size_t)k->n_ctx + (size_t)(k->n_ctx / 2 + row + 1)));
}

double kld_row(const struct kld *k, int chunk, int row, float *log_p)
{
    const unsigned char *at = row_at(k, chunk, row);
    float scale = real(at), least = real(at + 4);
    for (int i = 0; i < k->vocab; i++)
        log_p[i] = scale * (float)(at[8 + 2 * i] | at[9 + 2 * i] << 8) + least;
    return (double)scale;
}

double kld_grid(const struct kld *k)
{
    double widest = 0;
    for (int c = 0; c < k->chunks; c++)
        for (int r = 0; r < k->rows; r++)
            widest = fmax(widest, (double)real(row_at(k, c, r)));
    return widest;
}
