/* attention - softmax(q k^T * scale) v for one kv head, as FlashAttention 3 orders it on an H200
 *
 * shapes    q[rows][group][64], keys and values of positions 0..first+rows-1
 * units     bf16 in and out; fp32 scores, unrounded P in the denominator, bf16 P in P*V
 * rounding  two tensor-core chains; ex2 and rcp of the hardware; spec native-parity, "Attention"
 * order     blocks of 192 keys (rows*group <= 64) or 128, last block first; four partial denominators; splits, each
 *           normalised by itself, are weighed by their log-sum-exp and added in ascending order
 * specials  masked keys contribute nothing
 * limits    head_dim 64
 */
#include "kernels/bits.h"
#include "kernels/ops.h"

#include <math.h>
#include <string.h>

#define MAX_BLOCK  192
#define MAX_SPLITS 128
#define TILE       64 /* queries at once */

int kv_capacity(int positions)
{
    return (positions + 383) / 384 * 384;
}

size_t kv_bytes(int capacity)
{
    return (size_t)capacity * HEAD_DIM * 2 * sizeof(uint16_t);
}

void kv_init(struct kv_cache *c, void *memory, int capacity)
{
    memset(memory, 0, kv_bytes(capacity));
    c->key = memory;
    c->value = c->key + (size_t)capacity * HEAD_DIM;
    c->capacity = capacity;
    c->n = c->special = 0;
}

void kv_append(struct kv_cache *c, const uint16_t *key, const uint16_t *value)
{
    int at = c->n++, limit = (127 + 26) << 7;
    uint16_t *k = c->key + (size_t)(at / 16) * 1024 + strip_place(at % 16);
    uint16_t *v = c->value + (size_t)(at / 16) * 256 + (size_t)(at % 16) * 16;
    for (int d = 0; d < HEAD_DIM; d++) {
        k[16 * d] = key[d];
        v[(size_t)(d / 16) * (size_t)c->capacity * 16 + (size_t)strip_place(d % 16)] = value[d];
        c->special |= (key[d] & 0x7fff) >= limit || (value[d] & 0x7fff) >= limit;
    }
}

struct space {
    uint16_t raw[TILE * MAX_BLOCK], gathered[TILE * MAX_BLOCK];
    uint32_t key[TILE * MAX_BLOCK];
    uint8_t state[TILE * MAX_BLOCK / 16];
    float value[TILE * MAX_BLOCK];
    float score[TILE * MAX_BLOCK]; /* [query][key] */
    float strip[TILE * STRIP];
    float out[4][TILE * STRIP]; /* O, by strips of 16 dims */
    float most[TILE], part[TILE][4];
    int32_t row[TILE];
    float lse[MAX_SPLITS][TILE];
    float partial[MAX_SPLITS][TILE * HEAD_DIM]; /* normalised O of a split, fp32 */
};

size_t op_attention_scratch(int queries)
{
    (void)queries;
    return sizeof(struct space) + 64;
}

static const int32_t ascending[MAX_BLOCK / 16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

static struct prepared_rows prepared(struct space *s, int k)
{
    return (struct prepared_rows){k, s->raw, s->value, s->key, s->state};
}

static void prepare_row(struct space *s, const uint16_t *x, int row, int k)
{
    size_t at = (size_t)row * (size_t)k;
    panel_prepare_row(ACT_BF16, 0, x, k, k, s->raw + at, s->value + at, s->key + at, s->state + at / 16);
}

static struct chain chain_of(const struct attention *a, const struct kv_cache *c, struct space *s,
                             const struct prepared_rows *r, int queries)
{
    return (struct chain){.rule = tensor_core_rule(a->sm),
                          .special = c->special,
                          .rows = r,
                          .row = s->row,
                          .count = queries,
                          .strips = 1,
                          .block = ascending};
}

/* score[query][key] of the keys [from, from+keys). */
static void scores(const struct attention *a, const struct kv_cache *c, struct space *s, int first_query, int queries,
                   int from, int keys)
{
    struct prepared_rows r = prepared(s, HEAD_DIM);
    for (int i = 0; i < queries; i++) {
        int q = first_query + i;
        prepare_row(s, a->q + (size_t)(q / a->group) * (size_t)a->q_stride + (size_t)(q % a->group) * HEAD_DIM, i,
                    HEAD_DIM);
    }
    struct chain ch = chain_of(a, c, s, &r, queries);
    ch.blocks = HEAD_DIM / 16;
    ch.acc = s->strip;
    for (int k = 0; k < keys; k += STRIP) {
        ch.b = c->key + (size_t)((from + k) / 16) * 1024;
        memset(s->strip, 0, (size_t)queries * STRIP * sizeof(float));
        panel_chain_best(NULL)(&ch);
        for (int i = 0; i < queries; i++)
            memcpy(s->score + i * MAX_BLOCK + k, s->strip + i * STRIP, STRIP * sizeof(float));
    }
}

static float product_sum(float x, float y, float z) /* x*y + z, rounded once */
{
    return fmaf(x, y, z);
}

/* Softmax of one query over the visible keys of a block: P in gathered (bf16), partial sums, O rescaled. A partial sum
 * is rescaled and takes its first key in one rounding. */
static void soften(const struct attention *a, struct space *s, int i, int visible, int keys, float c)
{
    const float *score = s->score + i * MAX_BLOCK;
    float most = s->most[i];
    for (int j = 0; j < visible; j++)
        most = score[j] > most ? score[j] : most;
    float r = 1;
    if (s->most[i] != -INFINITY) {
        r = hw_ex2(a->hw, (s->most[i] - most) * c);
        for (int d = 0; d < HEAD_DIM; d++)
            s->out[d / STRIP][i * STRIP + d % STRIP] *= r;
    }
    s->most[i] = most;
    float shift = -(most * c);
    uint16_t *p16 = s->gathered + i * MAX_BLOCK;
    for (int j = 0; j < visible; j++) {
        float p = hw_ex2(a->hw, product_sum(score[j], c, shift));
        float *l = &s->part[i][j / 2 % 4];
        *l = j < 8 && j % 2 == 0 ? product_sum(*l, r, p) : *l + p;
        p16[j] = bf16_from_f32(p);
    }
    for (int j = (visible + 1) / 2 * 2; j < 8; j += 2) /* masked keys add 0 */
        s->part[i][j / 2] = s->part[i][j / 2] * r;
    memset(p16 + visible, 0, (size_t)(keys - visible) * sizeof *p16);
}

/* O += P V over the block. */
static void add_values(const struct attention *a, const struct kv_cache *c, struct space *s, int queries, int from,
                       int keys)
{
    struct prepared_rows r = prepared(s, keys);
    for (int i = 0; i < queries; i++)
        prepare_row(s, s->gathered + i * MAX_BLOCK, i, keys);
    struct chain ch = chain_of(a, c, s, &r, queries);
    ch.blocks = keys / 16;
    for (int d = 0; d < HEAD_DIM / STRIP; d++) {
        ch.b = c->value + (size_t)d * (size_t)c->capacity * 16 + (size_t)(from / 16) * 256;
        ch.acc = s->out[d];
        panel_chain_best(NULL)(&ch);
    }
}

/* Normalises O of every query into to[query][dim]; lse NULL is fine. A query that saw no key gets 0 and -inf. */
static void normalise(const struct attention *a, const struct space *s, int queries, float scale, float *to, float *lse)
{
    float natural = scale * 0x1.62e43p-1f; /* ln 2 as fp32 */
    for (int i = 0; i < queries; i++) {
        int none = s->most[i] == -INFINITY;
        float l = (s->part[i][0] + s->part[i][2]) + (s->part[i][1] + s->part[i][3]);
        float inverse = none ? 0 : hw_rcp(a->hw, l);
        for (int d = 0; d < HEAD_DIM; d++)
            to[i * HEAD_DIM + d] = s->out[d / STRIP][i * STRIP + d % STRIP] * inverse;
        if (lse)
            lse[i] = none ? -INFINITY : fmaf(s->most[i], natural, hw_lg2(a->hw, l) * 0x1.62e43p-1f);
    }
}

static uint16_t *out_of(const struct attention *a, int q)
{
    return a->out + (size_t)(q / a->group) * (size_t)a->out_stride + (size_t)(q % a->group) * HEAD_DIM;
}

/* Sixteen lanes take the splits in turn, then add across: lane l and l+8, 4, 2, 1. */
static float sum_across(const float *x, int n)
{
    float lane[16] = {0};
    for (int k = 0; k < n; k++)
        lane[k % 16] = lane[k % 16] + x[k];
    for (int offset = 8; offset; offset /= 2)
        for (int l = 0; l < offset; l++)
            lane[l] = lane[l] + lane[l + offset];
    return lane[0];
}

/* Weighs the splits of each query by exp(lse - largest) over their sum. */
static void combine(const struct attention *a, const struct space *s, int first_query, int queries)
{
    for (int i = 0; i < queries; i++) {
        float most = -INFINITY, weight[MAX_SPLITS];
        for (int k = 0; k < a->splits; k++)
            most = s->lse[k][i] > most ? s->lse[k][i] : most;
        for (int k = 0; k < a->splits; k++)
            weight[k] = s->lse[k][i] == -INFINITY ? 0 : hw_ex2(a->hw, (s->lse[k][i] - most) * 0x1.715476p0f);
        float inverse = hw_rcp(a->hw, sum_across(weight, a->splits));
        uint16_t *out = out_of(a, first_query + i);
        for (int d = 0; d < HEAD_DIM; d++) {
            float o = 0;
            for (int k = 0; k < a->splits; k++)
                if (weight[k] > 0)
                    o = fmaf(weight[k] * inverse, s->partial[k][i * HEAD_DIM + d], o);
            out[d] = bf16_from_f32(o);
        }
    }
}

static void clear(struct space *s, int queries)
{
    for (int i = 0; i < queries; i++) {
        s->most[i] = -INFINITY;
        s->row[i] = i;
        memset(s->part[i], 0, sizeof s->part[i]);
    }
    memset(s->out, 0, sizeof s->out);
}

/* Blocks [from_block, to_block), last first, for a tile of queries. */
static void walk(const struct attention *a, const struct kv_cache *c, struct space *s, int first_query, int queries,
                 int from_block, int to_block, float scale)
{
    int last_key = a->first + (first_query + queries - 1) / a->group; /* largest visible position of the tile */
    clear(s, queries);
    for (int b = to_block - 1; b >= from_block; b--) {
        int from = b * a->block, need = last_key + 1 - from;
        int keys = need < a->block ? (need + 15) / 16 * 16 : a->block;
        if (keys <= 0)
            continue;
        scores(a, c, s, first_query, queries, from, keys);
        for (int i = 0; i < queries; i++) {
            int visible = a->first + (first_query + i) / a->group + 1 - from;
            visible = visible < 0 ? 0 : visible > a->block ? a->block : visible;
            if (visible)
                soften(a, s, i, visible, keys, scale);
            else
                memset(s->gathered + i * MAX_BLOCK, 0, (size_t)keys * sizeof(uint16_t));
        }
        add_values(a, c, s, queries, from, keys);
    }
}

/* Blocks up to the last key that a query sees; a query past the end counts as the last. */
static int blocks_of(const struct attention *a, int query)
{
    int row = query / a->group;
    return (a->first + (row < a->rows ? row : a->rows - 1)) / a->block + 1;
}

/* The GPU's tiles are 64 queries high, or 192 where blocks are short; how a tile's blocks are shared out to the splits
 * depends on the tile's last query. */
static void tile(const struct attention *a, const struct kv_cache *c, struct space *s, int first_query, int queries,
                 float scale)
{
    int blocks = blocks_of(a, first_query + queries - 1);
    if (a->splits <= 1) {
        walk(a, c, s, first_query, queries, 0, blocks, scale);
        normalise(a, s, queries, scale, s->partial[0], NULL);
        for (int i = 0; i < queries; i++)
            for (int d = 0; d < HEAD_DIM; d++)
                out_of(a, first_query + i)[d] = bf16_from_f32(s->partial[0][i * HEAD_DIM + d]);
        return;
    }
    int height = a->block == MAX_BLOCK ? TILE : 3 * TILE, last = (first_query / height + 1) * height - 1;
    int each = (blocks_of(a, last) + a->splits - 1) / a->splits;
    for (int k = 0; k < a->splits; k++) {
        int from = k * each, to = from + each < blocks ? from + each : blocks;
        walk(a, c, s, first_query, queries, from < blocks ? from : blocks, to, scale);
        normalise(a, s, queries, scale, s->partial[k], s->lse[k]);
    }
    combine(a, s, first_query, queries);
}

void op_attention(const struct attention *a, const struct kv_cache *c)
{
    struct space *s = (struct space *)((char *)a->scratch + (64 - (uintptr_t)a->scratch % 64) % 64);
    int total = a->rows * a->group;
    float scale = (float)((double)(float)a->scale * 0x1.71547652b82fep0);
    for (int q = 0; q < total; q += TILE)
        tile(a, c, s, q, total - q < TILE ? total - q : TILE, scale);
}
