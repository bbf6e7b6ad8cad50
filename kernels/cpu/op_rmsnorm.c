/* rmsnorm - y[r,c] = x[r,c] / sqrt(mean_c(x[r,c]^2) + eps) * w[c], plain and fused with the residual add
 *
 * shapes    x[rows,h] w[h] y[rows,h]; h a multiple of 8
 * units     bf16 in and out; eps added after the mean
 * rounding  fp32, nearest even; residual sum rounded to bf16 first; (x*rstd)*w rounded to bf16 once
 * order     thread t of the block sums vectors of 8 at t, t+block, ...; shift-down tree in a warp; warps ascending
 * specials  none; rsqrt is the hardware's
 * limits    the block is 256 threads instead of 1024 from 256 rows on
 */
#include "kernels/bits.h"
#include "kernels/ops.h"

#define MAX_THREADS 1024

/* Lane l adds lane l+offset where that lane exists; lane 0 holds the sum. */
static float warp_sum(float *lane, int live)
{
    for (int offset = 1; offset < 32; offset *= 2)
        for (int l = 0; l + offset < live; l++)
            lane[l] = lane[l] + lane[l + offset];
    return lane[0];
}

static float block_sum(float *thread, int threads)
{
    float sum = 0;
    for (int w = 0; w < threads; w += 32) {
        float s = warp_sum(thread + w, threads - w < 32 ? threads - w : 32);
        sum = w ? sum + s : s;
    }
    return sum;
}

static int block_size(int unit, int rows)
{
    int most = rows < 256 ? 1024 : 256;
    return unit < most ? unit : most;
}

static float plain_thread(const uint16_t *x, int h, int t, int threads)
{
    float s = 0;
    for (int v = t; v < h / 8; v += threads)
        for (int i = 0; i < 8; i++) {
            float e = bf16_to_f32(x[8 * v + i]);
            s = s + e * e;
        }
    return s;
}

static float paired_thread(const uint16_t *x, int h, int t, int threads)
{
    float s = 0;
    for (int v = t; v < h / 8; v += threads) {
        float a = 0;
        for (int i = 0; i < 8; i += 2) {
            float e = bf16_to_f32(x[8 * v + i]), o = bf16_to_f32(x[8 * v + i + 1]);
            a = a + (e * e + o * o);
        }
        s = s + a;
    }
    return s;
}

static void scale_row(const struct hw_tables *hw, float sum, int h, float eps, const uint16_t *x, const uint16_t *w,
                      uint16_t *y)
{
    float rstd = hw_rsqrt(hw, sum / (float)h + eps);
    for (int i = 0; i < h; i++)
        y[i] = bf16_from_f32(bf16_to_f32(x[i]) * rstd * bf16_to_f32(w[i]));
}

void op_rmsnorm(const struct hw_tables *hw, int rows, int h, const uint16_t *x, int x_stride, const uint16_t *w,
                float eps, uint16_t *y, int y_stride)
{
    float thread[MAX_THREADS];
    int threads = block_size(h / 8, rows);
    for (int r = 0; r < rows; r++) {
        const uint16_t *row = x + (size_t)r * (size_t)x_stride;
        for (int t = 0; t < threads; t++)
            thread[t] = plain_thread(row, h, t, threads);
        scale_row(hw, block_sum(thread, threads), h, eps, row, w, y + (size_t)r * (size_t)y_stride);
    }
}

void op_add_rmsnorm(const struct hw_tables *hw, int rows, int h, const uint16_t *x, uint16_t *residual,
                    const uint16_t *w, float eps, uint16_t *y)
{
    float thread[MAX_THREADS];
    int threads = block_size(h, rows);
    for (int r = 0; r < rows; r++) {
        uint16_t *res = residual + (size_t)r * (size_t)h;
        const uint16_t *row = x + (size_t)r * (size_t)h;
        for (int i = 0; i < h; i++)
            res[i] = bf16_from_f32(bf16_to_f32(row[i]) + bf16_to_f32(res[i]));
        for (int t = 0; t < threads; t++)
            thread[t] = paired_thread(res, h, t, threads);
        scale_row(hw, block_sum(thread, threads), h, eps, res, w, y + (size_t)r * (size_t)h);
    }
}
