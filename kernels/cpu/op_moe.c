/* moe - router softmax and top-k, alignment of routes into expert blocks, sum over slots
 *
 * shapes    logits[rows,experts]; ids, weights[rows,topk]; x[rows*topk,h] y[rows,h]
 * units     bf16 logits and rows, fp32 probabilities
 * rounding  fp32, nearest even; exp is CUDA's expf; the slot sum to bf16 once
 * order     sums over experts ascending and over slots ascending; equal probabilities: lower expert first
 * specials  none
 * limits    experts <= 512; the order inside an expert is the GPU's up to 1023 routes and 64 experts
 */
#include "kernels/bits.h"
#include "kernels/ops.h"

#define MAX_EXPERTS 512

static void choose(const float *p, int experts, int topk, int32_t *ids, float *weights)
{
    uint8_t taken[MAX_EXPERTS] = {0};
    for (int slot = 0; slot < topk; slot++) {
        int best = -1;
        for (int i = 0; i < experts; i++)
            if (!taken[i] && (best < 0 || p[i] > p[best]))
                best = i;
        taken[best] = 1;
        ids[slot] = best;
        weights[slot] = p[best];
    }
}

void op_route(const struct hw_tables *hw, int rows, int experts, int topk, int renormalise, const uint16_t *logits,
              int32_t *ids, float *weights)
{
    float p[MAX_EXPERTS];
    for (int r = 0; r < rows; r++) {
        const uint16_t *x = logits + (size_t)r * (size_t)experts;
        float *w = weights + (size_t)r * (size_t)topk;
        float most = bf16_to_f32(x[0]), sum = 0, chosen = 0;
        for (int i = 1; i < experts; i++)
            most = bf16_to_f32(x[i]) > most ? bf16_to_f32(x[i]) : most;
        for (int i = 0; i < experts; i++) {
            p[i] = hw_expf(hw, bf16_to_f32(x[i]) - most);
            sum = sum + p[i];
        }
        float inverse = 1.0f / sum;
        for (int i = 0; i < experts; i++)
            p[i] = p[i] * inverse;
        choose(p, experts, topk, ids + (size_t)r * (size_t)topk, w);
        for (int i = 0; i < topk; i++)
            chosen = chosen + w[i];
        for (int i = 0; renormalise && i < topk; i++)
            w[i] = w[i] / (chosen > 0 ? chosen : 1);
    }
}

int op_align_capacity(int routes, int experts, int block_rows)
{
    int filled = routes < experts ? routes : experts;
    return (routes + filled * (block_rows - 1)) / block_rows + 1;
}

int op_align(int routes, int experts, int block_rows, const int32_t *ids, int32_t *sorted, int32_t *block_experts,
             int *deterministic)
{
    int lanes = experts > 32 ? experts : 32, blocks = 0;
    *deterministic = routes < 1024 && experts <= 64;
    for (int x = 0; x < experts; x++) {
        int n = 0;
        int32_t *at = sorted + blocks * block_rows;
        if (*deterministic) {
            for (int lane = 0; lane < lanes; lane++)
                for (int r = lane; r < routes; r += lanes)
                    if (ids[r] == x)
                        at[n++] = r;
        } else {
            for (int r = 0; r < routes; r++)
                if (ids[r] == x)
                    at[n++] = r;
        }
        int own = (n + block_rows - 1) / block_rows;
        for (int i = n; i < own * block_rows; i++)
            at[i] = routes;
        for (int i = 0; i < own; i++)
            block_experts[blocks++] = x;
    }
    return blocks;
}

void op_slot_sum(int rows, int topk, int h, const uint16_t *x, uint16_t *y)
{
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < h; i++) {
            float sum = 0;
            for (int slot = 0; slot < topk; slot++)
                sum = sum + bf16_to_f32(x[((size_t)r * (size_t)topk + (size_t)slot) * (size_t)h + (size_t)i]);
            y[(size_t)r * (size_t)h + (size_t)i] = bf16_from_f32(sum);
        }
}
