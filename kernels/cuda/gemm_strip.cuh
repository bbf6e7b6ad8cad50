/* gemm_strip - few rows: a cluster of CTAs owns a strip of 16 columns, so that every slice meets in shared memory
 *
 * shapes    up to 8 * N8 rows of one block; n a multiple of 64; rows of A start on 8 bytes and reach to k
 * units     as gemm_math
 * rounding  as gemm_math
 * order     a warp runs whole chains (slice, warp row) of the plan; then fold, then slices bottom first
 * specials  as gemm_math
 * limits    chains * N8 * 512 bytes of shared memory; codes go from memory to registers, each read once. Rows that do
 *           not exist read the first row: columns of the tensor core do not touch each other
 */
#ifndef ASSAY_KERNELS_CUDA_GEMM_STRIP_CUH
#define ASSAY_KERNELS_CUDA_GEMM_STRIP_CUH

#include "kernels/cuda/gemm_math.cuh"

/* W warp rows; DEPTH k-pairs of weights under way, and two of rows, which come from nearer. */
template <int FORMAT, int ACT_, int N8_, int W_, int DEPTH_> struct strip_shape {
    enum { F = FORMAT, ACT = ACT_, N8 = N8_, W = W_, DEPTH = DEPTH_, NEAR = 2 };
    enum { SCALE_BYTES = FORMAT == KF_MXFP4 ? 16 : 32 };
};

/* What a lane needs for one k-pair. */
struct pair_weights {
    uint2 codes;
    uint32_t scale;
};

template <typename P> struct pair_rows {
    uint2 at[2][P::N8];
};

/* A lane's places in codes, scales and rows, at the next k-tile to multiply. */
template <typename P> struct strip_lane {
    const uint8_t *codes, *scales;
    const uint16_t *row[P::N8];
    int pair;
};

__device__ __forceinline__ uint2 load_once(const void *p)
{
    uint2 x;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(p));
    return x;
}

template <typename P>
__device__ __forceinline__ void load_weights(const gemm_work &w, const strip_lane<P> &l, int tiles, pair_weights *x)
{
    x->codes = load_once(l.codes + tiles * P::W * PAIR_BYTES);
    if (P::F == KF_NVFP4)
        x->scale = __ldg((const uint32_t *)(l.scales + tiles * P::W * 32));
    else if (P::F == KF_MXFP4)
        x->scale = __ldg((const uint16_t *)(l.scales + tiles * P::W * 16));
    else if (P::F == KF_U4B8)
        x->scale = __ldg((const uint32_t *)(l.scales + ((l.pair + tiles * P::W) >> w.group_shift) * 32));
}

template <typename P> __device__ __forceinline__ void load_rows(const strip_lane<P> &l, int tiles, pair_rows<P> *x)
{
#pragma unroll
    for (int j = 0; j < P::N8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            x->at[h][j] = *(const uint2 *)(l.row[j] + tiles * P::W * 32 + h * 16);
}

template <typename P> __device__ __forceinline__ void advance(strip_lane<P> *l, int tiles)
{
    l->codes += tiles * P::W * PAIR_BYTES;
    if (P::F == KF_NVFP4 || P::F == KF_MXFP4)
        l->scales += tiles * P::W * P::SCALE_BYTES;
#pragma unroll
    for (int j = 0; j < P::N8; j++)
        l->row[j] += tiles * P::W * 32;
    l->pair += tiles * P::W;
}

template <typename P>
__device__ __forceinline__ void multiply(const pair_weights &x, const pair_rows<P> &rows, float acc[P::N8][4])
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t scale[2], a[4];
        expand<P::F, P::ACT>(x.scale, h, scale);
        decode<P::F, P::ACT>(h ? x.codes.y : x.codes.x, scale, a);
#pragma unroll
        for (int j = 0; j < P::N8; j++)
            step<P::ACT>(acc[j], a, rows.at[h][j]);
    }
}

/* `left` k-tiles of one warp row; the first DEPTH of weights and NEAR of rows are loaded already. */
template <typename P>
__device__ __forceinline__ void run_chain(const gemm_work &w, strip_lane<P> *l, int left, pair_weights x[P::DEPTH],
                                          pair_rows<P> rows[P::NEAR], float acc[P::N8][4])
{
    enum { D = P::DEPTH, NEAR = P::NEAR };
    for (; left >= 2 * D; left -= D) {
#pragma unroll
        for (int d = 0; d < D; d++) {
            multiply<P>(x[d], rows[d % NEAR], acc);
            load_weights(w, *l, d + D, &x[d]);
            load_rows(*l, d + NEAR, &rows[d % NEAR]);
        }
        advance(l, D);
    }
#pragma unroll
    for (int d = 0; d < 2 * D - 1; d++)
        if (d < left) {
            multiply<P>(x[d % D], rows[d % NEAR], acc);
            if (d + D < left)
                load_weights(w, *l, d + D, &x[d % D]);
            if (d + NEAR < left)
                load_rows(*l, d + NEAR, &rows[d % NEAR]);
        }
}

/* Places of this lane at the first k-tile of a chain; rows are set after the kernel before this one has ended. */
template <typename P>
__device__ __forceinline__ strip_lane<P> at_chain(const gemm_work &w, int strip, int expert, int pair)
{
    strip_lane<P> l;
    int lane = threadIdx.x % 32, row_bytes = P::F == KF_NVFP4 ? w.pairs * 32 : w.groups * P::SCALE_BYTES;
    l.codes = w.codes + expert * w.codes_size + ((size_t)strip * w.pairs + pair) * PAIR_BYTES + lane * 8;
    l.scales = w.scales + expert * w.scales_size + (size_t)strip * row_bytes + lane / 4 * (P::SCALE_BYTES / 8);
    if (P::F == KF_NVFP4 || P::F == KF_MXFP4)
        l.scales += pair * P::SCALE_BYTES;
    l.pair = pair;
    return l;
}

/* Runs one chain and leaves its sums at `out`. Weights do not depend on the kernel before this one. */
template <typename P>
__device__ __forceinline__ void do_chain(const gemm_work &w, int strip, int expert, range t, int wr, float4 *out)
{
    pair_weights x[P::DEPTH];
    pair_rows<P> rows[P::NEAR];
    float acc[P::N8][4] = {};
    int lane = threadIdx.x % 32, left = t.t1 - t.t0;
    strip_lane<P> l = at_chain<P>(w, strip, expert, t.t0 * P::W + wr);
#pragma unroll
    for (int d = 0; d < P::DEPTH; d++)
        if (d < left)
            load_weights(w, l, d, &x[d]);
    wait_for_previous_kernel();
#pragma unroll
    for (int j = 0; j < P::N8; j++) {
        int row = row_of(w, blockIdx.y, 8 * j + lane / 4).a;
        l.row[j] = w.a + (size_t)(row < 0 ? 0 : row) * w.lda + (t.t0 * P::W + wr) * 32 + lane % 4 * 4;
    }
#pragma unroll
    for (int d = 0; d < P::NEAR; d++)
        if (d < left)
            load_rows(l, d, &rows[d]);
    run_chain<P>(w, &l, left, x, rows, acc);
#pragma unroll
    for (int j = 0; j < P::N8; j++)
        out[j * 32 + lane] = make_float4(acc[j][0], acc[j][1], acc[j][2], acc[j][3]);
}

/* Sums of the strip: element (row, column) of every chain, folded, joined, written. */
template <typename P>
__device__ __forceinline__ void write_strip(const gemm_work &w, const float *part, int strip, int expert, int count)
{
    enum { CELLS = P::N8 * 128 };
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x) {
        int place = i / 16, column = i % 16, route = row_of(w, blockIdx.y, place).c;
        if (route < 0 || strip * 16 + column >= w.n_used)
            continue;
        const float *x = part + place / 8 * 128 + (column / 2 * 4 + place % 8 / 2) * 4 + column % 2 * 2 + place % 2;
        float run = 0;
#pragma unroll 4
        for (int s = 0; s < count; s++, x += P::W * CELLS)
            run = join<P::ACT>(w, run, fold(P::W, x, CELLS), s, count);
        w.c[(size_t)route * w.ldc + strip * 16 + column] =
            finish<P::F, P::ACT>(w, expert, run, place, strip * 16 + column, route);
    }
}

/* grid (strips * cluster, row blocks); the chains of a strip are dealt out over the cluster's CTAs and their warps, and
 * all leave their sums with its first CTA */
template <typename P>
__global__ void __launch_bounds__(P::N8 == 1 && P::DEPTH <= 6 ? 512 : 256, 2) strip_kernel(const gemm_work w)
{
    extern __shared__ float4 shared4[];
    let_next_kernel_start();
    cluster_meet(w.cluster); /* all have started: their shared memory may be written */
    if (w.experts)
        wait_for_previous_kernel();
    int strip = blockIdx.x / w.cluster, rank = blockIdx.x % w.cluster, expert = expert_of(w, blockIdx.y);
    if (expert < 0)
        return;
    slices s = slices_of(w, (int)blockIdx.y * w.NT + strip * 16 / w.tn);
    float4 *first = of_first_cta(shared4, w.cluster);
    for (int chain = threadIdx.x / 32 * w.cluster + rank; chain < s.count * P::W; chain += blockDim.x / 32 * w.cluster)
        do_chain<P>(w, strip, expert, range_of(w, s, chain / P::W), chain % P::W, first + chain * P::N8 * 32);
    cluster_meet(w.cluster);
    if (!rank)
        write_strip<P>(w, (const float *)shared4, strip, expert, s.count);
}

#endif
