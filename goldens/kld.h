/* kld - base files of llama.cpp's perplexity tool (--kl-divergence-base): a text and the distribution at each position
 *
 * layout    "_logits_", i32 tokens a chunk, i32 vocabulary, i32 chunks, the tokens, then for each chunk n_ctx - 1 -
 *           n_ctx / 2 rows of { f32 scale, f32 least, u16 q[vocabulary, padded to even] }; no version, no padding
 * value     log p = scale * q + least: 16 bits over at most 16 nats, so steps of up to 0.244 milli-nats. Equal values
 *           are closer than that, and no more is known: nothing in such a file is an exact tie
 * target    row r of a chunk speaks about token n_ctx / 2 + r + 1 of it
 */
#ifndef ASSAY_GOLDENS_KLD_H
#define ASSAY_GOLDENS_KLD_H

#include "harness/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct kld {
    int n_ctx, vocab, chunks, rows; /* rows of a chunk */
    const unsigned char *data;      /* the whole file, borrowed */
    size_t row_bytes, first;        /* where row 0 lies */
};

/* Checks every size against the file's. `name` stands for it in messages; data is borrowed. */
int kld_parse(const void *data, size_t bytes, const char *name, struct kld *k, struct err *e);
/* The token that row `row` of a chunk speaks about. */
int32_t kld_target(const struct kld *k, int chunk, int row);
/* log p of every token, vocab values; returns the row's step in nats. */
double kld_row(const struct kld *k, int chunk, int row, float *log_p);
/* The widest step of all rows, in nats. */
double kld_grid(const struct kld *k);

#endif
