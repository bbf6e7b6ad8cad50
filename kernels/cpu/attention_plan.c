/* attention_plan - how FlashAttention 3 cuts the keys of a call; spec model-numerics 7.2 and 7.3 */
#include "kernels/ops.h"

static int ceil_div(int a, int b)
{
    return (a + b - 1) / b;
}

/* The smallest count of splits whose waves fill the multiprocessors to 85 % of the best count's. */
static int split_bound(int tiles, int blocks, int sms)
{
    if (tiles >= 0.8f * (float)sms || blocks <= 4)
        return 1;
    int most = blocks < sms ? blocks : sms;
    most = most < 128 ? most : 128;
    float best = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int n = 1; n <= most; n++) {
            float waves = (float)(tiles * n) / (float)sms, whole = (float)(int)waves;
            float fill = waves / (whole < waves ? whole + 1 : whole);
            if (pass && fill >= 0.85f * best)
                return n;
            best = fill > best ? fill : best;
        }
    return 1;
}

struct attention_plan attention_plan(int sms, int kv_heads, int group, const int *rows, const int *keys, int n,
                                     int length_bound)
{
    int longest = 0;
    struct attention_plan p = {.sms = sms, .kv_heads = kv_heads};
    for (int i = 0; i < n; i++)
        longest = rows[i] > longest ? rows[i] : longest;
    int tile = longest * group <= 64 ? 64 : 192;
    p.block = tile == 64 ? 192 : 128;
    for (int i = 0; i < n; i++)
        p.work += ceil_div(rows[i] * group, tile) * ceil_div(keys[i], p.block);
    /* as if there were one sequence: the longest */
    p.bound = split_bound(kv_heads * ceil_div(longest * group, tile), ceil_div(length_bound, p.block), sms);
    return p;
}

int attention_splits(const struct attention_plan *p, int keys)
{
    int blocks = ceil_div(keys, p->block);
    if (p->bound <= 1)
        return 1;
    float load = 1.1f * (float)(p->kv_heads * p->work) / (float)p->sms;
    int each = (int)load < load ? (int)load + 1 : (int)load, splits = ceil_div(blocks, each > 0 ? each : 1);
    return splits < 1 ? 1 : splits > p->bound ? p->bound : splits;
}
