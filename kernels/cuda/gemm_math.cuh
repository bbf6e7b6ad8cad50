/* gemm_math - operands from codes, one tensor-core step, the write-out
 *
 * shapes    a lane's word of 8 codes; an accumulator of one output
 * units     16-bit floats as bits, fp32 accumulators
 * rounding  products and sums of 16-bit floats round once each (..._rn: never contracted); fp32 adds and products too
 * order     spec marlin-numerics 4.4 (fold), 5.2 (write-out), 5.4 (the one contraction)
 * specials  nothing is flushed; a NaN that is stored is 7fff
 * limits    m16n8k16; sm_80 has two steps of 8 in it, sm_90 one of 16
 */
#ifndef ASSAY_KERNELS_CUDA_GEMM_MATH_CUH
#define ASSAY_KERNELS_CUDA_GEMM_MATH_CUH

#include "kernels/cuda/gemm_work.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <int ACT> struct half_of;

template <> struct half_of<ACT_BF16> {
    typedef __nv_bfloat16 one;
    typedef __nv_bfloat162 two;
    static __device__ __forceinline__ one round(float x)
    {
        return __float2bfloat16_rn(x);
    }
    static __device__ __forceinline__ float widen(one x)
    {
        return __bfloat162float(x);
    }
};

template <> struct half_of<ACT_F16> {
    typedef __half one;
    typedef __half2 two;
    static __device__ __forceinline__ one round(float x)
    {
        return __float2half_rn(x);
    }
    static __device__ __forceinline__ float widen(one x)
    {
        return __half2float(x);
    }
};

template <typename TO, typename FROM> __device__ __forceinline__ TO bits_as(const FROM &x)
{
    static_assert(sizeof(TO) == sizeof(FROM), "");
    TO y;
    memcpy(&y, &x, sizeof y);
    return y;
}

template <int ACT> __device__ __forceinline__ uint32_t mul2(uint32_t a, uint32_t b)
{
    typedef typename half_of<ACT>::two two;
    return bits_as<uint32_t>(__hmul2_rn(bits_as<two>(a), bits_as<two>(b)));
}

template <int ACT> __device__ __forceinline__ uint32_t sub2(uint32_t a, uint32_t b)
{
    typedef typename half_of<ACT>::two two;
    return bits_as<uint32_t>(__hsub2_rn(bits_as<two>(a), bits_as<two>(b)));
}

/* A lane's scale word as two doubled 16-bit scales, of columns 2g and 2g+1, for block h of the pair. */
template <int F, int ACT> __device__ __forceinline__ void expand(uint32_t word, int h, uint32_t s[2])
{
    if (F == KF_U4B8) {
        s[0] = __byte_perm(word, 0, 0x1010);
        s[1] = __byte_perm(word, 0, 0x3232);
    } else if (F == KF_MXFP4) { /* the byte is the exponent field of a bf16 */
        s[0] = (word & 0xff) * 0x00800080u;
        s[1] = (word >> 8) * 0x00800080u;
    } else if (F == KF_NVFP4) {
        uint32_t b0 = __byte_perm(word, 0, 0x4440 + 2 * h), b1 = __byte_perm(word, 0, 0x4441 + 2 * h);
        if (ACT == ACT_BF16) { /* s* >= 2: the top exponent bit is always set, dropped scales have zero codes */
            s[0] = b0 * 0x00100010u + 0x40004000u;
            s[1] = b1 * 0x00100010u + 0x40004000u;
        } else {
            s[0] = b0 * 0x00800080u;
            s[1] = b1 * 0x00800080u;
        }
    }
}

/* E2M1 as 16-bit bits without re-biasing: times 2^-126 (bf16, codes spread) or 2^-14 (fp16, nibbles). */
template <int ACT, int J> __device__ __forceinline__ uint32_t e2m1_pair(uint32_t word)
{
    if (ACT == ACT_BF16 && J < 3)
        return word << 3 * J & 0x81c081c0u;
    if (ACT == ACT_BF16)
        return (word << 1 & 0x80008000u) | (word >> 4 & 0x00c000c0u) | (word >> 5 & 0x01000100u);
    constexpr int net = 9 - 4 * J;
    uint32_t sign = word << (12 - 4 * J) & 0x80008000u;
    return sign | ((net > 0 ? word << (net > 0 ? net : 0) : word >> (net > 0 ? 0 : -net)) & 0x0e000e00u);
}

template <int ACT, int J> __device__ __forceinline__ uint32_t u4b8_pair(uint32_t word)
{
    constexpr uint32_t base = ACT == ACT_BF16 ? 0x43004300u : 0x64006400u; /* 128 or 1024: codes are its last bits */
    return sub2<ACT>((word >> 4 * J & 0x000f000fu) | base, base + 0x00080008u);
}

template <int F, int ACT, int J> __device__ __forceinline__ uint32_t operand_pair(uint32_t word, const uint32_t s[2])
{
    if (F == KF_CHANNEL)
        return u4b8_pair<ACT, J>(word);
    if (F == KF_U4B8)
        return mul2<ACT>(u4b8_pair<ACT, J>(word), s[J & 1]);
    uint32_t raw = e2m1_pair<ACT, J>(word);
    if (F == KF_MXFP4)
        raw = mul2<ACT>(raw, 0x7e807e80u); /* 2^126 */
    return mul2<ACT>(raw, s[J & 1]);
}

/* The row operand of one block: 16 columns by 16 k. */
template <int F, int ACT> __device__ __forceinline__ void decode(uint32_t word, const uint32_t s[2], uint32_t out[4])
{
    out[0] = operand_pair<F, ACT, 0>(word, s);
    out[1] = operand_pair<F, ACT, 1>(word, s);
    out[2] = operand_pair<F, ACT, 2>(word, s);
    out[3] = operand_pair<F, ACT, 3>(word, s);
}

/* d[0..3] = (column 2g, row 2q), (2g, 2q+1), (2g+1, 2q), (2g+1, 2q+1). */
template <int ACT> __device__ __forceinline__ void step(float d[4], const uint32_t a[4], uint2 b)
{
    if (ACT == ACT_BF16)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/* Programmatic dependent launch: what the kernel before wrote, or reads still, is left alone until it is done. */
__device__ __forceinline__ void wait_for_previous_kernel()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ __forceinline__ void let_next_kernel_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Barrier of a cluster's CTAs; of one CTA where clusters are not used. */
__device__ __forceinline__ void cluster_meet(int cluster)
{
#if __CUDA_ARCH__ >= 900
    if (cluster > 1) {
        asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
        return;
    }
#endif
    __syncthreads();
}

/* The same place in the shared memory of the cluster's first CTA. */
__device__ __forceinline__ float4 *of_first_cta(float4 *shared, int cluster)
{
#if __CUDA_ARCH__ >= 900
    if (cluster > 1)
        asm("mapa.u64 %0, %1, 0;" : "=l"(shared) : "l"(shared));
#endif
    return shared;
}

__device__ __forceinline__ float fold(int W, const float *x, int stride)
{
    if (W == 2)
        return __fadd_rn(x[0], x[stride]);
    return __fadd_rn(x[0], __fadd_rn(x[stride], __fadd_rn(x[3 * stride], x[2 * stride])));
}

template <int ACT> __device__ __forceinline__ float round16(float x)
{
    return half_of<ACT>::widen(half_of<ACT>::round(x));
}

/* Slice `i` of `count` joins what the slices below it summed to. */
template <int ACT> __device__ __forceinline__ float join(const gemm_work &w, float run, float v, int i, int count)
{
    run = i ? __fadd_rn(v, run) : v;
    return w.reduce16 && i + 1 < count ? round16<ACT>(run) : run;
}

/* place: position of the row in its block; route: row of C. */
template <int F, int ACT>
__device__ __forceinline__ uint16_t finish(const gemm_work &w, int expert, float acc, int place, int column, int route,
                                           bool with_bias = true)
{
    typedef half_of<ACT> H;
    typedef typename H::one one;
    if (F == KF_NVFP4 && !w.route_weight)
        acc = __fmul_rn(acc, w.global[expert]);
    one r = H::round(acc), bias;
    bool biased = w.bias && with_bias;
    if (biased)
        bias = bits_as<one>(w.bias[(size_t)expert * w.n + column]);
    if (F == KF_CHANNEL) {
        one s = bits_as<one>(w.column[(size_t)expert * w.n + column]);
        if (biased && w.fuse_bias && !(place < 8 && column % 64 < 8)) {
            r = __hfma(r, s, bias);
            biased = false;
        } else {
            r = __hmul_rn(r, s);
        }
    }
    if (biased)
        r = __hadd_rn(r, bias);
    if (w.route_weight) {
        float t = w.route_weight[route];
        r = __hmul_rn(r, H::round(F == KF_NVFP4 ? __fmul_rn(t, w.global[expert]) : t));
    }
    return bits_as<uint16_t>(r);
}

#endif
