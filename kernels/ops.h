/* ops - every operation of the native engine that is no GEMM, with its one order and rounding
 *
 * All in bf16 bits unless said; rows are dense, row-major. Formulas: spec native-parity, measured against vLLM's eager
 * kernels on an H200.
 */
#ifndef ASSAY_KERNELS_OPS_H
#define ASSAY_KERNELS_OPS_H

#include "kernels/hw.h"
#include "kernels/panel.h"

#include <stddef.h>
#include <stdint.h>

/* y[r,h] = rmsnorm(x[r,h]) * w[h]; x and y may be the same rows. stride: elements from row to row. */
void op_rmsnorm(const struct hw_tables *hw, int rows, int h, const uint16_t *x, int x_stride, const uint16_t *w,
                float eps, uint16_t *y, int y_stride);

/* residual = bf(x + residual), then y = rmsnorm of it; y may be x. */
void op_add_rmsnorm(const struct hw_tables *hw, int rows, int h, const uint16_t *x, uint16_t *residual,
                    const uint16_t *w, float eps, uint16_t *y);

/* Rotates heads of d in place; table[position]: d/2 cosines, d/2 sines. */
void op_rope(int rows, int heads, int d, uint16_t *x, int stride, const int32_t *position, const uint16_t *table);

/* y[r,i] = bf(bf(silu(gate)) * up), x[r,2i] = gate | up. table: op_silu_table's 65536 entries. */
void op_silu_mul(int rows, int i, const uint16_t *x, uint16_t *y, const uint16_t *table);
void op_silu_table(uint16_t *table);

/* Router: logits[t,experts] bf16 -> topk ids and fp32 weights a row, slots in descending probability. */
void op_route(const struct hw_tables *hw, int rows, int experts, int topk, int renormalise, const uint16_t *logits,
              int32_t *ids, float *weights);

/* Sorts routes t*topk+slot into blocks of block_rows an expert. sorted[] and block_experts[] must hold
 * align_capacity entries. Returns the number of blocks. deterministic = 0 where the GPU takes places by atomics. */
int op_align(int routes, int experts, int block_rows, const int32_t *ids, int32_t *sorted, int32_t *block_experts,
             int *deterministic);
int op_align_capacity(int routes, int experts, int block_rows); /* blocks at most */

/* y[t,h] = bf(sum over slots of x[t*topk+slot,h]), fp32, slot order. */
void op_slot_sum(int rows, int topk, int h, const uint16_t *x, uint16_t *y);

/* --- attention with head_dim 64 --- */

#define HEAD_DIM 64

/* Keys and values of one sequence and kv head, laid out as operands: keys as columns (dims along k), values as rows
 * (keys along k). Room for `capacity` keys, a multiple of 192 and of 128 (see kv_capacity). */
struct kv_cache {
    uint16_t *key;   /* [capacity/16 strips][4 blocks][16 dims][16 places] */
    uint16_t *value; /* [4 strips][capacity/16 blocks][16 keys][16 places] */
    int capacity, n, special;
};

int kv_capacity(int positions);
size_t kv_bytes(int capacity);                                                  /* of key plus value */
void kv_init(struct kv_cache *c, void *memory, int capacity);                   /* memory 64-byte aligned */
void kv_append(struct kv_cache *c, const uint16_t *key, const uint16_t *value); /* HEAD_DIM elements each */

/* How one call of FlashAttention 3 over some sequences cuts the keys. */
struct attention_plan {
    int block; /* keys of a block: 192 for few query rows, else 128 */
    int bound; /* most splits of a sequence */
    int work;  /* query tiles times key blocks, summed over the sequences */
    int sms, kv_heads;
};

/* rows[i] queries that see keys[i] keys at most, i < n. length_bound: the key count that the scheduler is told: in
 * eager mode the longest of keys (recorded prompts of 399 and 463 tokens say so). Spec model-numerics 7.3. */
struct attention_plan attention_plan(int sms, int kv_heads, int group, const int *rows, const int *keys, int n,
                                     int length_bound);
int attention_splits(const struct attention_plan *p, int keys);

struct attention {
    const struct hw_tables *hw;
    int sm;
    int rows, group;   /* query rows of this sequence; query heads a kv head */
    const uint16_t *q; /* [rows][group][HEAD_DIM], row stride q_stride */
    int q_stride;
    uint16_t *out; /* same shape, row stride out_stride */
    int out_stride;
    int first;     /* position of row 0: row r sees first + r + 1 keys */
    int block;     /* keys of a block */
    int splits;    /* the blocks of a row are shared out to that many partial results; 1: none */
    double scale;  /* HEAD_DIM^-0.5 */
    void *scratch; /* op_attention_scratch(rows*group) bytes, 64-byte aligned */
};

size_t op_attention_scratch(int queries);
/* One kv head of one sequence; the cache holds all first + rows keys. */
void op_attention(const struct attention *a, const struct kv_cache *c);

#endif
