/* gemm_tile - a CTA runs slices of a tile of 64 columns a warp column, warp rows as the plan splits k
 *
 * shapes    8 * N8 rows of one block by 64 * wc columns
 * units     as gemm_math
 * rounding  as gemm_math
 * order     chains, fold and slices as the plan says; two ways of meeting between CTAs, the same sums in the same
 * order: serial (a slice waits for the one below it) and one-shot (the last to arrive adds all, bottom first) specials
 * as gemm_math limits    4 stages of shared memory; rows of A start on 16 bytes; slots and counters as gemm_launch lays
 * them
 */
#ifndef ASSAY_KERNELS_CUDA_GEMM_TILE_CUH
#define ASSAY_KERNELS_CUDA_GEMM_TILE_CUH

#include "kernels/cuda/gemm_math.cuh"

enum {
    STAGES = 4,
    TILE_HEAD = 512,                   /* where rows start */
    WARP_STAGE = 4 * PAIR_BYTES + 128, /* codes and scales of 4 strips, one k-pair */
    ROW_PAD = 32,                      /* bytes: four rows cover all banks */
};

/* Where this thread stands: fixed for a kernel, then for a piece. */
template <int F, int ACT, int N8> struct tile_cta {
    const gemm_work &w;
    uint8_t *shared;
    const uint16_t **row_at; /* [8*N8] where rows of A start, in shared memory; those that do not exist start at the
                                first: columns of the tensor core do not touch each other */
    int warp, lane, wr, wc, row_bytes, a_stage;
    int expert, block, first_strip;
    const uint8_t *codes, *scales; /* of this warp's four strips, at this lane's copies and the warp row's first pair */

    __device__ __forceinline__ tile_cta(const gemm_work &work, uint8_t *sh) : w(work)
    {
        row_at = (const uint16_t **)sh;
        shared = sh + TILE_HEAD;
        warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        wr = warp & (w.W - 1), wc = warp >> (w.W == 4 ? 2 : 1);
        row_bytes = w.W * 64 + ROW_PAD;
        a_stage = N8 * 8 * row_bytes;
    }
    __device__ __forceinline__ uint8_t *a_at(int stage) const
    {
        return shared + stage * a_stage;
    }
    __device__ __forceinline__ uint8_t *b_at(int stage) const
    {
        return shared + STAGES * a_stage + (stage * (w.W * w.wc) + warp) * WARP_STAGE;
    }
};

__device__ __forceinline__ void copy16(void *shared, const void *global)
{
    uint32_t to = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

template <int F> struct tile_scales {
    enum { BYTES = F == KF_MXFP4 ? 16 : 32, CHUNKS = F == KF_CHANNEL ? 0 : 4 * BYTES / 16 };
};

/* Chooses tile and CTA's part of it. */
template <int F, int ACT, int N8> __device__ __forceinline__ void enter_tile(tile_cta<F, ACT, N8> &t, int tile, int sub)
{
    enum { BYTES = tile_scales<F>::BYTES };
    const gemm_work &w = t.w;
    t.block = tile / w.NT;
    t.expert = expert_of(w, t.block);
    t.first_strip = (tile % w.NT) * (w.tn / 16) + (sub * w.wc + t.wc) * 4;
    __syncthreads();
    for (int i = threadIdx.x; i < 8 * N8; i += blockDim.x) {
        int row = row_of(w, t.block, i).a;
        t.row_at[i] = w.a + (row < 0 ? 0 : row * w.lda);
    }
    int strip = t.first_strip + t.lane * 16 / BYTES, rows = F == KF_NVFP4 ? w.pairs : w.groups;
    t.codes = w.codes + t.expert * w.codes_size + t.lane % 16 * 16 +
              ((size_t)(t.first_strip + t.lane / 16) * w.pairs + t.wr) * PAIR_BYTES;
    t.scales = w.scales + t.expert * w.scales_size + (size_t)strip * rows * BYTES + t.lane * 16 % BYTES;
    __syncthreads();
}

/* All threads, a row apart by 8 a warp column: rows of 8 or 16 chunks of 8 k's. */
template <int F, int ACT, int N8>
__device__ __forceinline__ void load_rows(const tile_cta<F, ACT, N8> &t, int stage, int kt)
{
    const gemm_work &w = t.w;
    int shift = w.W == 4 ? 4 : 3, chunk = threadIdx.x & ((1 << shift) - 1), first = threadIdx.x >> shift;
    int k = kt * w.W * 32 + chunk * 8;
    uint8_t *to = t.a_at(stage) + chunk * 16 + first * t.row_bytes;
#pragma unroll 1
    for (int row = first; row < 8 * N8; row += 8 * w.wc, to += 8 * w.wc * t.row_bytes)
        copy16(to, t.row_at[row] + k);
}

/* Starts the copies of k-tile kt; one commit a call, also past the end, so that waits count alike. */
template <int F, int ACT, int N8>
__device__ __forceinline__ void load_stage(const tile_cta<F, ACT, N8> &t, int stage, int kt, int end)
{
    const gemm_work &w = t.w;
    if (kt < end) {
        const uint8_t *codes = t.codes + (size_t)kt * w.W * PAIR_BYTES;
        uint8_t *to = t.b_at(stage) + t.lane * 16;
        load_rows(t, stage, kt);
        copy16(to, codes);
        copy16(to + 32 * 16, codes + (size_t)2 * w.pairs * PAIR_BYTES);
        int pair = kt * w.W + t.wr, row = F == KF_NVFP4 ? pair : pair >> w.group_shift;
        if (t.lane < tile_scales<F>::CHUNKS)
            copy16(to + 4 * PAIR_BYTES, t.scales + row * tile_scales<F>::BYTES);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int F> __device__ __forceinline__ uint32_t scale_word(const uint8_t *scales, int strip, int lane)
{
    if (F == KF_MXFP4)
        return ((const uint16_t *)(scales + strip * 16))[lane / 4];
    return F == KF_CHANNEL ? 0 : ((const uint32_t *)(scales + strip * 32))[lane / 4];
}

/* What a lane multiplies in one stage: its words of four strips, and rows of one of the two blocks. */
template <int N8> struct tile_words {
    uint2 codes[4];
    uint32_t scale[4];
};

template <int F, int ACT, int N8>
__device__ __forceinline__ void read_words(const tile_cta<F, ACT, N8> &t, int stage, tile_words<N8> *x)
{
    const uint8_t *b = t.b_at(stage);
#pragma unroll
    for (int s = 0; s < 4; s++) {
        x->codes[s] = ((const uint2 *)(b + s * PAIR_BYTES))[t.lane];
        x->scale[s] = scale_word<F>(b + 4 * PAIR_BYTES, s, t.lane);
    }
}

template <int F, int ACT, int N8>
__device__ __forceinline__ void read_rows(const tile_cta<F, ACT, N8> &t, int stage, int h, uint2 x[N8])
{
    const uint8_t *rows = t.a_at(stage) + t.lane / 4 * t.row_bytes + t.wr * 64 + t.lane % 4 * 8 + h * 32;
#pragma unroll
    for (int j = 0; j < N8; j++)
        x[j] = *(const uint2 *)(rows + j * 8 * t.row_bytes);
}

template <int F, int ACT, int N8>
__device__ __forceinline__ void multiply_block(const tile_words<N8> &x, int h, const uint2 rows[N8],
                                               float acc[4][N8][4])
{
#pragma unroll
    for (int s = 0; s < 4; s++) {
        uint32_t two[2], a[4];
        expand<F, ACT>(x.scale[s], h, two);
        decode<F, ACT>(h ? x.codes[s].y : x.codes[s].x, two, a);
#pragma unroll
        for (int j = 0; j < N8; j++)
            step<ACT>(acc[s][j], a, rows[j]);
    }
}

/* The chains of k-tiles [t0,t1), then every warp's accumulators in shared memory: [wc][wr][4 strips][N8][lane]. What
 * the next stage needs first is read while this one multiplies. */
template <int F, int ACT, int N8> __device__ __forceinline__ float4 *run_slice(const tile_cta<F, ACT, N8> &t, range r)
{
    float acc[4][N8][4] = {};
    tile_words<N8> now, next;
    uint2 first[N8], second[N8];
    for (int s = 0; s < STAGES - 1; s++)
        load_stage(t, s, r.t0 + s, r.t1);
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    __syncthreads();
    read_words(t, 0, &now);
    read_rows(t, 0, 0, first);
    for (int kt = r.t0, stage = 0; kt < r.t1; kt++) {
        int after = stage + 1 == STAGES ? 0 : stage + 1, before = stage ? stage - 1 : STAGES - 1;
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 3) : "memory");
        __syncthreads();
        read_rows(t, stage, 1, second);
        load_stage(t, before, kt + STAGES - 1, r.t1);
        multiply_block<F, ACT, N8>(now, 0, first, acc);
        read_words(t, after, &next);
        read_rows(t, after, 0, first);
        multiply_block<F, ACT, N8>(now, 1, second, acc);
        now = next;
        stage = after;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    float4 *out = (float4 *)t.shared;
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
        for (int j = 0; j < N8; j++)
            out[((t.warp * 4 + s) * N8 + j) * 32 + t.lane] =
                make_float4(acc[s][j][0], acc[s][j][1], acc[s][j][2], acc[s][j][3]);
    __syncthreads();
    return out;
}

/* Folded sum of this lane's four outputs of (strip, row group); warps lie [wc][wr]. */
template <int F, int ACT, int N8>
__device__ __forceinline__ float4 folded(const tile_cta<F, ACT, N8> &t, const float4 *acc, int strip, int j)
{
    const float *x = (const float *)(acc + ((t.wc * t.w.W * 4 + strip) * N8 + j) * 32 + t.lane);
    int stride = 4 * N8 * 32 * 4;
    return make_float4(fold(t.w.W, x, stride), fold(t.w.W, x + 1, stride), fold(t.w.W, x + 2, stride),
                       fold(t.w.W, x + 3, stride));
}

template <int ACT> __device__ __forceinline__ float4 join4(const gemm_work &w, float4 run, float4 v, int i, int count)
{
    return make_float4(join<ACT>(w, run.x, v.x, i, count), join<ACT>(w, run.y, v.y, i, count),
                       join<ACT>(w, run.z, v.z, i, count), join<ACT>(w, run.w, v.w, i, count));
}

template <int ACT> __device__ __forceinline__ void add_pair(uint16_t *to, uint32_t pair)
{
    typedef typename half_of<ACT>::two two;
    atomicAdd((two *)to, bits_as<two>(pair));
}

enum store_how { STORE_PLAIN, STORE_ADD, STORE_ADD_BIASED };

/* Outputs (columns 2g, 2g+1) of one row. */
template <int F, int ACT, int N8>
__device__ __forceinline__ void store_pair(const tile_cta<F, ACT, N8> &t, float x, float y, int column, int place,
                                           store_how how)
{
    const gemm_work &w = t.w;
    int route = row_of(w, t.block, place).c;
    if (route < 0 || column >= w.n_used)
        return;
    bool bias = how != STORE_ADD, both = column + 1 < w.n_used;
    uint32_t lo = finish<F, ACT>(w, t.expert, x, place, column, route, bias);
    uint32_t hi = both ? finish<F, ACT>(w, t.expert, y, place, column + 1, route, bias) : 0;
    uint16_t *to = w.c + (size_t)route * w.ldc + column;
    if (how != STORE_PLAIN) {
        add_pair<ACT>(to, lo | hi << 16);
    } else if (w.c_pairs && both) {
        *(uint32_t *)to = lo | hi << 16;
    } else {
        to[0] = (uint16_t)lo;
        if (both)
            to[1] = (uint16_t)hi;
    }
}

template <int F, int ACT, int N8>
__device__ __forceinline__ void store4(const tile_cta<F, ACT, N8> &t, float4 v, int strip, int j,
                                       store_how how = STORE_PLAIN)
{
    int column = (t.first_strip + strip) * 16 + t.lane / 4 * 2, place = 8 * j + t.lane % 4 * 2;
    store_pair(t, v.x, v.z, column, place, how);
    store_pair(t, v.y, v.w, column, place + 1, how);
}

/* Every (strip, row group) of this warp: strips are dealt out over the warp rows. */
#define EACH_PART(t, strip, j)                                                                                         \
    for (int strip = (t).wr; strip < 4; strip += (t).w.W)                                                              \
        for (int j = 0; j < N8; j++)

/* Bottom slice first: waits until `i` slices have joined, adds, passes on or writes. */
template <int F, int ACT, int N8>
__device__ __forceinline__ void meet_serially(const tile_cta<F, ACT, N8> &t, const float4 *acc, int tile, int i,
                                              int count)
{
    const gemm_work &w = t.w;
    unsigned *counter = w.counters + tile;
    float4 *slot = (float4 *)w.slots + (size_t)tile * w.wc * 4 * N8 * 32;
    if (i) {
        if (threadIdx.x == 0)
            while (*(volatile unsigned *)counter != (unsigned)i) {
            }
        __syncthreads();
        __threadfence();
    }
    EACH_PART(t, strip, j)
    {
        float4 *at = slot + ((t.wc * 4 + strip) * N8 + j) * 32 + t.lane;
        float4 run = join4<ACT>(w, i ? __ldcg(at) : float4{}, folded(t, acc, strip, j), i, count);
        if (i + 1 == count)
            store4(t, run, strip, j);
        else
            __stcg(at, run);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile unsigned *)counter = i + 1 == count ? 0 : (unsigned)i + 1;
}

/* Adds `count` slots, bottom first, and writes. All of a lane's outputs advance together: many loads are under way. */
template <int F, int ACT, int N8>
__device__ __forceinline__ void add_slots(const tile_cta<F, ACT, N8> &t, const float4 *slot, size_t size, int count)
{
    enum { STRIPS = N8 > 4 ? 1 : 2 }; /* of this warp's, at once */
    for (int part = 0; part < 4 / t.w.W; part += STRIPS) {
        float4 run[STRIPS][N8] = {};
        const float4 *from = slot + (t.wc * 4 + t.wr + part * t.w.W) * N8 * 32 + t.lane;
#pragma unroll 4
        for (int s = 0; s < count; s++, from += size)
#pragma unroll
            for (int p = 0; p < STRIPS; p++)
#pragma unroll
                for (int j = 0; j < N8; j++)
                    if (part + p < 4 / t.w.W)
                        run[p][j] = join4<ACT>(t.w, run[p][j], __ldcg(from + (p * t.w.W * N8 + j) * 32), s, count);
#pragma unroll
        for (int p = 0; p < STRIPS; p++)
#pragma unroll
            for (int j = 0; j < N8; j++)
                if (part + p < 4 / t.w.W)
                    store4(t, run[p][j], t.wr + (part + p) * t.w.W, j);
    }
}

/* Every slice leaves its sum in a slot of its own; the last CTA adds them, bottom first, and clears the counter. */
template <int F, int ACT, int N8>
__device__ __forceinline__ void meet_at_once(const tile_cta<F, ACT, N8> &t, const float4 *acc, int place, int i,
                                             int count)
{
    __shared__ int last;
    const gemm_work &w = t.w;
    size_t size = (size_t)w.wc * 4 * N8 * 32;
    float4 *slot = (float4 *)w.slots + (size_t)place * w.most * size;
    EACH_PART(t, strip, j)
    __stcg(slot + i * size + ((t.wc * 4 + strip) * N8 + j) * 32 + t.lane, folded(t, acc, strip, j));
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(w.counters + place, 1) == (unsigned)count - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    add_slots(t, slot, size, count);
    if (threadIdx.x == 0)
        w.counters[place] = 0;
}

/* Part `sub` of slice i of a tile. */
struct piece {
    int tile, sub, i;
};

/* The next piece of this CTA; cursor starts at 0. Stripes are the plan's own walk: whole tiles in passes, then a run of
 * k-tiles. Later CTAs hold smaller k, so that none waits for one that starts after it. Else a CTA has one piece: first
 * the whole tiles, then the slices of the striped ones. */
__device__ __forceinline__ bool next_piece(const gemm_work &w, int *cursor, piece *p)
{
    int whole = w.dp * w.G, at = blockIdx.x, before = *cursor;
    if (w.stripes) {
        int cta = w.G - 1 - at, first = cta * w.iters, end = first + w.iters, line = w.T * w.R;
        ++*cursor;
        *p = {cta + before * w.G, 0, 0};
        if (before < w.dp)
            return true;
        at = first + before - w.dp;
        p->tile = whole + at / w.T;
        p->i = at < line ? slices_of(w, p->tile).bottom - cta : 0;
        *cursor = before + (at / w.T + 1) * w.T - at;
        return at < end && at < line;
    }
    *cursor = 1;
    *p = {at / w.sub, at % w.sub, 0};
    if (at >= whole * w.sub) {
        at -= whole * w.sub;
        *p = {whole + at / w.most / w.sub, at / w.most % w.sub, at % w.most};
    }
    return !before && p->i < slices_of(w, p->tile).count;
}

template <int F, int ACT, int N8> __device__ __forceinline__ void do_piece(tile_cta<F, ACT, N8> &t, const piece &p)
{
    const gemm_work &w = t.w;
    slices s = slices_of(w, p.tile);
    enter_tile(t, p.tile, p.sub);
    if (t.expert < 0)
        return;
    const float4 *acc = run_slice(t, range_of(w, s, p.i));
    int striped = p.tile - w.dp * w.G;
    if (s.count == 1 || w.atomic) {
        store_how how = s.count == 1 ? STORE_PLAIN : p.i + 1 == s.count ? STORE_ADD_BIASED : STORE_ADD;
        EACH_PART(t, strip, j)
        store4(t, folded(t, acc, strip, j), strip, j, how);
    } else if (w.serially) {
        meet_serially(t, acc, striped, p.i, s.count);
    } else {
        meet_at_once(t, acc, striped * w.sub + p.sub, p.i, s.count);
    }
}

template <int F, int ACT, int N8> __global__ void __launch_bounds__(256, 1) tile_kernel(const gemm_work w)
{
    extern __shared__ float4 shared4[];
    tile_cta<F, ACT, N8> t(w, (uint8_t *)shared4);
    piece p;
    wait_for_previous_kernel();
    let_next_kernel_start();
    for (int cursor = 0; next_piece(w, &cursor, &p);)
        do_piece(t, p);
}

#endif
