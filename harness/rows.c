#include "harness/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 1024 /* stored values of a row */

struct entry {
    uint32_t key; /* float bits mapped so that a larger key is a larger float; total, NaN included */
    int32_t id;
};

static uint32_t ordered(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}

static int larger_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

static int sorted_list(const struct view *v, int row, struct entry *out)
{
    int n = 0;
    for (; n < v->top_k && n < LIST_MAX; n++) {
        size_t at = (size_t)row * (size_t)v->top_k + (size_t)n;
        if (v->top_ids[at] < 0)
            break;
        out[n] = (struct entry){ordered(v->top_values[at]), v->top_ids[at]};
    }
    qsort(out, (size_t)n, sizeof *out, larger_first);
    return n;
}

int row_comparable(const struct view *a, int ra, const struct view *b, int rb)
{
    return ra >= 0 && rb >= 0 && ra < a->rows && rb < b->rows && a->top_k > 0 && b->top_k > 0 && a->kind == b->kind;
}

static int lists_equal(const struct view *a, int ra, const struct view *b, int rb)
{
    struct entry x[LIST_MAX], y[LIST_MAX];
    int nx = sorted_list(a, ra, x), ny = sorted_list(b, rb, y), n = nx < ny ? nx : ny;
    if (n == 0 || (nx != ny && a->top_k == b->top_k))
        return 0;
    for (int i = 0; i < n; i++)
        if (x[i].key != y[i].key)
            return 0;
    for (int i = 0; i < n && x[i].key != x[n - 1].key; i++)
        if (x[i].id != y[i].id)
            return 0;
    return 1;
}

static int sums_equal(double a, double b)
{
    return !memcmp(&a, &b, sizeof a) || fabs(a - b) <= 1e-9;
}

int row_equal(const struct view *a, int ra, const struct view *b, int rb)
{
    if (!row_comparable(a, ra, b, rb) || !lists_equal(a, ra, b, rb) || !sums_equal(a->logsumexp[ra], b->logsumexp[rb]))
        return 0;
    return !a->row_sha256 || !b->row_sha256 ||
           !memcmp(a->row_sha256 + (size_t)ra * SHA256_BYTES, b->row_sha256 + (size_t)rb * SHA256_BYTES, SHA256_BYTES);
}
