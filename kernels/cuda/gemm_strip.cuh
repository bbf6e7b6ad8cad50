/* gemm_strip - few rows: a CTA owns whole strips of 16 columns, so that every slice meets in its shared memory
 *
 * shapes    up to 8 * N8 rows of one block; n a multiple of 64; rows of A start on 8 bytes and reach to k
 * units     as gemm_math
 * rounding  as gemm_math
 * order     a warp runs whole chains (slice, warp row) of the plan; then fold, then slices bottom first
 * specials  as gemm_math
 * limits    chains * S * N8 * 512 bytes of shared memory; codes go from memory to registers, each read once. Rows that
 *           do not exist read the first row: columns of the tensor core do not touch each other
 */
#ifndef ASSAY_KERNELS_CUDA_GEMM_STRIP_CUH
#define ASSAY_KERNELS_CUDA_GEMM_STRIP_CUH

#include "kernels/cuda/gemm_math.cuh"

/* S strips a warp, W warp rows, DEPTH k-pairs under way. */
template <int FORMAT, int ACT_, int N8_, int S_, int W_, int DEPTH_> struct strip_shape {
    enum { F = FORMAT, ACT = ACT_, N8 = N8_, S = S_, W = W_, DEPTH = DEPTH_ };
    enum { SCALE_BYTES = FORMAT == KF_MXFP4 ? 16 : 32 };
};

/* What a lane needs for one k-pair. */
template <typename P> struct pair_load {
    uint2 codes[P::S];
    uint32_t scale[P::S];
    uint2 rows[2][P::N8];
};

/* A lane's places in codes, scales and rows, at the next k-tile to load. */
template <typename P> struct strip_lane {
    const uint8_t *codes[P::S], *scales[P::S];
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
__device__ __forceinline__ void load_weights(const gemm_work &w, const strip_lane<P> &l, int tiles, pair_load<P> *x)
{
#pragma unroll
    for (int s = 0; s < P::S; s++) {
        x->codes[s] = load_once(l.codes[s] + tiles * P::W * PAIR_BYTES);
        if (P::F == KF_NVFP4)
            x->scale[s] = __ldg((const uint32_t *)(l.scales[s] + tiles * P::W * 32));
        else if (P::F == KF_MXFP4)
            x->scale[s] = __ldg((const uint16_t *)(l.scales[s] + tiles * P::W * 16));
        else if (P::F == KF_U4B8)
            x->scale[s] = __ldg((const uint32_t *)(l.scales[s] + ((l.pair + tiles * P::W) >> w.group_shift) * 32));
    }
}

template <typename P> __device__ __forceinline__ void load_rows(const strip_lane<P> &l, int tiles, pair_load<P> *x)
{
#pragma unroll
    for (int j = 0; j < P::N8; j++)
#pragma unroll
        for (int h = 0; h < 2; h++)
            x->rows[h][j] = *(const uint2 *)(l.row[j] + tiles * P::W * 32 + h * 16);
}

template <typename P> __device__ __forceinline__ void advance(strip_lane<P> *l, int tiles)
{
#pragma unroll
    for (int s = 0; s < P::S; s++) {
        l->codes[s] += tiles * P::W * PAIR_BYTES;
        if (P::F == KF_NVFP4 || P::F == KF_MXFP4)
            l->scales[s] += tiles * P::W * P::SCALE_BYTES;
    }
#pragma unroll
    for (int j = 0; j < P::N8; j++)
        l->row[j] += tiles * P::W * 32;
    l->pair += tiles * P::W;
}

template <typename P> __device__ __forceinline__ void multiply(const pair_load<P> &x, float acc[P::S][P::N8][4])
{
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int s = 0; s < P::S; s++) {
            uint32_t scale[2], a[4];
            expand<P::F, P::ACT>(x.scale[s], h, scale);
            decode<P::F, P::ACT>(h ? x.codes[s].y : x.codes[s].x, scale, a);
#pragma unroll
            for (int j = 0; j < P::N8; j++)
                step<P::ACT>(acc[s][j], a, x.rows[h][j]);
        }
}

/* `left` k-tiles of one warp row, the first DEPTH of them loaded already. */
template <typename P>
__device__ __forceinline__ void run_chain(const gemm_work &w, strip_lane<P> *l, int left, pair_load<P> x[P::DEPTH],
                                          float acc[P::S][P::N8][4])
{
    enum { D = P::DEPTH };
    advance(l, D);
    for (; left >= 2 * D; left -= D) {
#pragma unroll
        for (int d = 0; d < D; d++) {
            multiply<P>(x[d], acc);
            load_weights(w, *l, d, &x[d]);
            load_rows(*l, d, &x[d]);
        }
        advance(l, D);
    }
#pragma unroll
    for (int d = 0; d < 2 * D - 1; d++)
        if (d < left) {
            multiply<P>(x[d % D], acc);
            if (d + D < left) {
                load_weights(w, *l, d, &x[d % D]);
                load_rows(*l, d, &x[d % D]);
            }
        }
}

/* Places of this lane at the first k-tile of a chain. */
template <typename P>
__device__ __forceinline__ strip_lane<P> at_chain(const gemm_work &w, int strip, int expert, int pair)
{
    strip_lane<P> l;
    int lane = threadIdx.x % 32, row_bytes = P::F == KF_NVFP4 ? w.pairs * 32 : w.groups * P::SCALE_BYTES;
#pragma unroll
    for (int s = 0; s < P::S; s++) {
        l.codes[s] = w.codes + expert * w.codes_size + ((size_t)(strip + s) * w.pairs + pair) * PAIR_BYTES + lane * 8;
        l.scales[s] =
            w.scales + expert * w.scales_size + (size_t)(strip + s) * row_bytes + lane / 4 * (P::SCALE_BYTES / 8);
        if (P::F == KF_NVFP4 || P::F == KF_MXFP4)
            l.scales[s] += pair * P::SCALE_BYTES;
    }
    l.pair = pair;
    return l;
}

/* Runs one chain and leaves its sums in shared memory. Weights do not depend on the kernel before this one. */
template <typename P>
__device__ __forceinline__ void do_chain(const gemm_work &w, int strip, int expert, range t, int wr, float4 *out)
{
    pair_load<P> x[P::DEPTH];
    float acc[P::S][P::N8][4] = {};
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
    for (int d = 0; d < P::DEPTH; d++)
        if (d < left)
            load_rows(l, d, &x[d]);
    run_chain<P>(w, &l, left, x, acc);
#pragma unroll
    for (int s = 0; s < P::S; s++)
#pragma unroll
        for (int j = 0; j < P::N8; j++)
            out[(s * P::N8 + j) * 32 + lane] = make_float4(acc[s][j][0], acc[s][j][1], acc[s][j][2], acc[s][j][3]);
}

/* Sums of the CTA's strips: element (row, column) of every chain, folded, joined, written. */
template <typename P>
__device__ __forceinline__ void write_strips(const gemm_work &w, const float *part, int strip, int expert, int count)
{
    enum { CELLS = P::S * P::N8 * 128 };
    for (int i = threadIdx.x; i < CELLS; i += blockDim.x) {
        int place = i / (16 * P::S), column = i % (16 * P::S), route = row_of(w, blockIdx.y, place).c;
        if (route < 0 || strip * 16 + column >= w.n_used)
            continue;
        const float *x = part + (column / 16 * P::N8 + place / 8) * 128 + (column % 16 / 2 * 4 + place % 8 / 2) * 4 +
                         column % 2 * 2 + place % 2;
        float run = 0;
#pragma unroll 4
        for (int s = 0; s < count; s++, x += P::W * CELLS)
            run = join<P::ACT>(w, run, fold(P::W, x, CELLS), s, count);
        w.c[(size_t)route * w.ldc + strip * 16 + column] =
            finish<P::F, P::ACT>(w, expert, run, place, strip * 16 + column, route);
    }
}

/* grid (strips / S, row blocks); a warp takes chains in turn */
template <typename P, int THREADS> __global__ void __launch_bounds__(THREADS, 1) strip_kernel(const gemm_work w)
{
    extern __shared__ float4 shared4[];
    let_next_kernel_start();
    if (w.experts)
        wait_for_previous_kernel();
    int strip = blockIdx.x * P::S, expert = expert_of(w, blockIdx.y);
    if (expert < 0)
        return;
    slices s = slices_of(w, (int)blockIdx.y * w.NT + strip * 16 / w.tn);
    for (int chain = threadIdx.x / 32; chain < s.count * P::W; chain += blockDim.x / 32)
        do_chain<P>(w, strip, expert, range_of(w, s, chain / P::W), chain % P::W, shared4 + chain * P::S * P::N8 * 32);
    __syncthreads();
    write_strips<P>(w, (const float *)shared4, strip, expert, s.count);
}

#endif
