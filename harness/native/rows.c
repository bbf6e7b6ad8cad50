/* Rows of bf16 logits, and what is kept of them. */
#include "harness/native/answer.h"

#include <math.h>
#include <string.h>

static float wide(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float x;
    memcpy(&x, &u, 4);
    return x;
}

int row_argmax(const uint16_t *row, int vocab)
{
    int best = 0;
    for (int i = 1; i < vocab; i++)
        if (wide(row[i]) > wide(row[best]))
            best = i;
    return best;
}

static void top_list(const uint16_t *row, int vocab, int k, int32_t *ids, float *values)
{
    int n = 0;
    for (int i = 0; i < vocab; i++) {
        float x = wide(row[i]);
        if (n == k && !(x > values[k - 1]))
            continue;
        int at = n < k ? n++ : k - 1;
        for (; at > 0 && x > values[at - 1]; at--)
            values[at] = values[at - 1], ids[at] = ids[at - 1];
        values[at] = x;
        ids[at] = i;
    }
    for (; n < k; n++)
        ids[n] = -1, values[n] = -INFINITY;
}

static double log_sum_exp(const uint16_t *row, int vocab, float most)
{
    double sum = 0;
    for (int i = 0; i < vocab; i++)
        sum += exp((double)wide(row[i]) - (double)most);
    return (double)most + log(sum);
}

void keep_row(const struct engine_request *q, struct view *v, int at, const uint16_t *row, int vocab)
{
    size_t k = (size_t)q->top_k, first = (size_t)at * k;
    if (!k)
        return;
    top_list(row, vocab, q->top_k, v->top_ids + first, v->top_values + first);
    v->logsumexp[at] = log_sum_exp(row, vocab, v->top_values[first]);
    if (v->row_sha256)
        sha256_of(row, (size_t)vocab * 2, v->row_sha256 + (size_t)at * SHA256_BYTES);
}
