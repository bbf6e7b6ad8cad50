/* From one launch of a plan to one kernel launch: which arrangement, how many CTAs, where scratch lies. */
#include "kernels/cuda/gemm_work.cuh"

#include <algorithm>
#include <cuda_runtime.h>

namespace
{
enum {
    TILE_STAGES = 4,
    TILE_HEAD_BYTES = 512,
    COUNTERS = 1 << 16,
};

const gemm_kernels *kernels_of(const cuda_weight *w)
{
    bool bf16 = w->act == ACT_BF16;
    switch (w->format) {
    case WF_U4B8:
        if (!w->group)
            return bf16 ? kernels_channel_bf16() : kernels_channel_f16();
        return bf16 ? kernels_u4b8_bf16() : kernels_u4b8_f16();
    case WF_NVFP4: return bf16 ? kernels_nvfp4_bf16() : kernels_nvfp4_f16();
    default: return kernels_mxfp4_bf16();
    }
}

int most_slices(const gemm_launch *l)
{
    int most = 1;
    for (int tile = l->dp * l->grid, end = tile + l->R; tile < end; tile++)
        most = std::max(most, plan_slices(l, tile, NULL, 0));
    return most;
}

int row_groups(const gemm_launch *l)
{
    return l->block_rows / 8;
}

size_t slot_bytes(int wc, int groups)
{
    return (size_t)wc * 4 * groups * 512;
}

/* How a launch is laid out. */
struct arrangement {
    cuda_way way;
    gemm_kernel *kernel;
    int grid_x, grid_y, threads, wc, sub, most, stripes, serially, cluster;
    size_t smem, slots, counters; /* bytes of shared memory; bytes and count of scratch */
};

/* How the chains of a strip are dealt out, to which kernel. */
struct dealing {
    int cluster, warps, kind;
};

const struct {
    int depth, warps_of_sm, most;
} kinds[STRIP_KINDS] = {{DEPTH_EIGHT, 32, 16}, {DEPTH_DEEP, 16, 8}, {DEPTH_SIXTEEN, 16, 8}};

/* Estimated nanoseconds of a strip launch. Memory answers after 900 or, under load, 1800; an SM gets a k-pair in 9. */
long long strip_cost(long long strips, int chains, int length, int pairs, int sms, dealing d)
{
    int each = (chains + d.cluster - 1) / d.cluster, rounds = (each + d.warps - 1) / d.warps;
    int depth = kinds[d.kind].depth, slots = kinds[d.kind].warps_of_sm / d.warps;
    long long ctas = strips * d.cluster, busiest = (ctas + sms - 1) / sms, waves = (busiest + slots - 1) / slots;
    long long resident = std::min<long long>(busiest, slots) * d.warps;
    long long stream = busiest * pairs / d.cluster * std::max<long long>(90, 18000 / (depth * resident)) / 10;
    return std::max(stream, waves * rounds * (length * 900 / depth + 400)) + waves * 400 +
           (d.cluster > 1 ? 1000 + 100 * d.cluster : 0);
}

dealing deal_strips(long long strips, int chains, int length, int pairs, int sms, int groups, bool clusters)
{
    dealing best = {1, 1, groups == 1 ? STRIP_EIGHT : STRIP_SIXTEEN};
    long long least = -1;
    for (int cluster = 1; cluster <= (clusters ? 8 : 1) && cluster <= chains; cluster *= 2)
        for (int warps = std::min(4, chains); warps <= kinds[best.kind].most; warps++) {
            dealing d = {cluster, warps,
                         best.kind}; /* looking further ahead with half the warps was slower everywhere */
            long long cost = strip_cost(strips, chains, length, pairs, sms, d);
            if (least < 0 || cost < least)
                best = d, least = cost;
        }
    return best;
}

arrangement as_strips(const cuda_problem *p, const gemm_launch *l, int slices)
{
    arrangement r = {CUDA_STRIPS};
    int W = l->tk / 32, chains = slices * W, strips = p->plan->shape.n / 16, groups = row_groups(l);
    dealing d = deal_strips((long long)strips * l->par, chains, std::min(l->iters, l->T), p->plan->shape.k / 32,
                            l->grid / l->per_sm, groups, p->plan->sm >= 90);
    r.kernel = kernels_of(p->w)->strip[d.kind][W == 4];
    r.cluster = d.cluster;
    r.threads = 32 * d.warps;
    r.grid_x = strips * d.cluster;
    r.grid_y = l->par;
    r.smem = (size_t)chains * groups * 512;
    return r;
}

/* Widest CTAs that still give every SM one. */
int warp_columns(const gemm_launch *l, int slices, int sms)
{
    int wc = l->tn / 64;
    while (wc > 1 && (l->dp * l->grid + l->R * slices) * (l->tn / 64 / wc) < sms)
        wc /= 2;
    return wc;
}

arrangement as_tiles(const cuda_problem *p, const gemm_launch *l, int slices, cuda_way way)
{
    static const int place[9] = {0, 0, 1, 0, 2, 0, 3, 0, 4};
    /* stripes are even; single slices meet sooner where a tile has many; few slices are soonest in line */
    bool pieces = slices > 4 && l->R * slices <= 2 * l->grid && l->block_rows <= 32;
    arrangement r = {way};
    int W = l->tk / 32, groups = row_groups(l), columns = l->tn / 64;
    r.stripes = way == CUDA_BASELINE || (way == CUDA_FAST && !pieces);
    r.serially = way == CUDA_BASELINE || (r.stripes && slices <= 4);
    r.wc = r.stripes ? columns : warp_columns(l, slices, l->grid / l->per_sm);
    r.sub = columns / r.wc;
    r.most = slices;
    r.kernel = kernels_of(p->w)->tile[place[groups]];
    r.threads = 32 * W * r.wc;
    r.grid_x = r.stripes ? l->grid : (l->dp * l->grid + l->R * slices) * r.sub;
    r.grid_y = 1;
    size_t pipeline = TILE_STAGES * ((size_t)groups * 8 * (W * 64 + 32) + (size_t)W * r.wc * (4 * PAIR_BYTES + 128));
    r.smem = TILE_HEAD_BYTES + std::max(pipeline, (size_t)W * slot_bytes(r.wc, groups));
    if (slices > 1) {
        r.slots = (size_t)l->R * r.sub * slices * slot_bytes(r.wc, groups);
        r.counters = (size_t)l->R * r.sub;
    }
    return r;
}

bool strips_fit(const cuda_problem *p, const gemm_launch *l, int slices)
{
    size_t smem = (size_t)slices * (l->tk / 32) * row_groups(l) * 512;
    return l->block_rows <= 16 && l->par <= 65535 && smem <= 200 * 1024 && !plan_is_atomic(p->plan, l);
}

arrangement arrange(const cuda_problem *p, const gemm_launch *l)
{
    int slices = most_slices(l);
    bool strips = strips_fit(p, l, slices);
    /* 16 rows are read once a strip: from L2, so only while that is little */
    long long rows_read = (long long)p->plan->shape.n / 16 * l->par * 32 * p->plan->shape.k;
    bool few = l->block_rows == 8 || rows_read <= 48 << 20;
    if (strips && (p->way == CUDA_STRIPS || (p->way == CUDA_FAST && few)))
        return as_strips(p, l, slices);
    return as_tiles(p, l, slices, p->way == CUDA_STRIPS ? CUDA_TILES : p->way);
}

int log2_of(int x)
{
    int n = 0;
    while (x > 1)
        x >>= 1, n++;
    return n;
}

bool rows_need_padding(const cuda_problem *p)
{
    return p->w->k_used != p->w->k || p->lda % 8 || (uintptr_t)p->a % 16;
}

void set_operands(const cuda_problem *p, gemm_work *w)
{
    const cuda_weight *q = p->w;
    const gemm_shape *s = &p->plan->shape;
    w->a = p->a, w->lda = p->lda;
    w->k = q->k, w->k_used = q->k_used;
    if (rows_need_padding(p)) {
        w->a = (const uint16_t *)((char *)p->scratch + COUNTERS * 4);
        w->lda = w->k_used = q->k;
    }
    w->c = p->c, w->ldc = p->ldc;
    w->c_pairs = p->ldc % 2 == 0 && (uintptr_t)p->c % 4 == 0;
    w->m = s->m, w->n = q->n, w->n_used = q->n_used, w->topk = s->topk, w->row_shift = p->row_shift;
    w->codes = (const uint8_t *)q->codes, w->scales = (const uint8_t *)q->scales;
    w->codes_size = q->codes_size, w->scales_size = q->scales_size;
    w->pairs = q->k / 32;
    w->groups = q->group ? q->k / q->group : 1;
    w->group_shift = q->format == WF_U4B8 && q->group ? log2_of(q->group / 32) : 0;
    w->column = (const uint16_t *)q->column, w->bias = (const uint16_t *)q->bias;
    w->global = (const float *)q->global;
    w->sorted = p->sorted_routes, w->experts = p->block_experts, w->route_weight = p->route_weight;
}

void set_launch(const cuda_problem *p, const gemm_launch *l, const arrangement *r, gemm_work *w)
{
    const gemm_plan *plan = p->plan;
    w->first_row = l->first_row, w->rows = l->rows, w->block_rows = l->block_rows, w->par = l->par;
    w->W = l->tk / 32, w->tn = l->tn, w->NT = l->NT, w->T = l->T;
    w->dp = l->dp, w->R = l->R, w->iters = l->iters, w->G = l->grid;
    w->fuse_bias = plan->shape.act == ACT_F16 || plan->native_code;
    w->reduce16 = plan->shape.reduce == REDUCE_F16;
    w->atomic = plan_is_atomic(plan, l);
    w->wc = r->wc, w->sub = r->sub, w->most = r->most, w->stripes = r->stripes, w->serially = r->serially;
    w->cluster = r->cluster;
    w->counters = (unsigned *)p->scratch;
    w->slots = (float *)((char *)p->scratch + COUNTERS * 4 + padded_rows_bytes(p));
}

int check(const cuda_problem *p, const arrangement *r, err *e)
{
    const gemm_shape *s = &p->plan->shape;
    const cuda_weight *w = p->w;
    if (w->n != s->n || w->k != s->k || w->format != s->format || w->act != s->act || w->group != s->group)
        return FAIL(e, E_INTERNAL, "the plan is for %d x %d, the weights are %d x %d, or format, type or group differ",
                    s->n, s->k, w->n, w->k);
    if (r->counters > COUNTERS)
        return FAIL(e, E_UNSUPPORTED, "%zu striped tiles need a counter each: %d at most", r->counters, COUNTERS);
    if (s->reduce == REDUCE_ATOMIC && (p->ldc % 2 || (uintptr_t)p->c % 4 || w->n_used % 2))
        return FAIL(e, E_UNSUPPORTED, "atomic adds work on pairs: rows of C must start on 4 bytes and n be even");
    return OK;
}

/* As a programmatic dependent: it may start while the kernel before it ends, and waits inside for what it needs. */
cudaError_t start(const arrangement &r, const gemm_work &w, cudaStream_t s)
{
    cudaLaunchAttribute how[2] = {};
    cudaLaunchConfig_t c = {};
    how[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    how[0].val.programmaticStreamSerializationAllowed = 1;
    how[1].id = cudaLaunchAttributeClusterDimension;
    how[1].val.clusterDim.x = (unsigned)std::max(r.cluster, 1);
    how[1].val.clusterDim.y = how[1].val.clusterDim.z = 1;
    c.gridDim = dim3(r.grid_x, r.grid_y);
    c.blockDim = dim3(r.threads);
    c.dynamicSmemBytes = r.smem;
    c.stream = s;
    c.attrs = how;
    c.numAttrs = r.way == CUDA_BASELINE ? 0 : r.cluster > 1 ? 2 : 1;
    return cudaLaunchKernelEx(&c, r.kernel, w);
}

__global__ void pad_rows(const uint16_t *a, long long lda, int k_used, uint16_t *out, int k)
{
    for (int i = threadIdx.x; i < k; i += blockDim.x)
        out[(size_t)blockIdx.x * k + i] = i < k_used ? a[(size_t)blockIdx.x * lda + i] : 0;
}
} // namespace

int cuda_failed(int code, const char *what, err *e)
{
    return code == cudaSuccess ? OK : FAIL(e, E_ENGINE, "%s: %s", what, cudaGetErrorString((cudaError_t)code));
}

size_t padded_rows_bytes(const cuda_problem *p)
{
    return rows_need_padding(p) ? ((size_t)p->plan->shape.m * p->w->k * 2 + 255) / 256 * 256 : 0;
}

size_t plan_scratch(const cuda_problem *p, int index)
{
    return COUNTERS * 4 + padded_rows_bytes(p) + arrange(p, &p->plan->launch[index]).slots;
}

int launch_plan(const cuda_problem *p, int index, void *stream, cuda_launch_facts *facts, err *e)
{
    const gemm_launch *l = &p->plan->launch[index];
    arrangement r = arrange(p, l);
    gemm_work w = {};
    cudaStream_t s = (cudaStream_t)stream;
    if (check(p, &r, e))
        return e->code;
    set_operands(p, &w);
    set_launch(p, l, &r, &w);
    cudaError_t rc = cudaFuncSetAttribute(r.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)r.smem);
    if (facts) {
        cudaFuncAttributes a;
        if (rc == cudaSuccess)
            rc = cudaFuncGetAttributes(&a, r.kernel);
        *facts = {r.grid_x * r.grid_y, r.threads, a.numRegs, (int)r.smem};
        return cuda_failed(rc, "kernel attributes", e);
    }
    if (rc == cudaSuccess && index == 0 && rows_need_padding(p))
        pad_rows<<<p->plan->shape.m, 256, 0, s>>>(p->a, p->lda, p->w->k_used, (uint16_t *)w.a, w.k);
    if (rc == cudaSuccess && w.atomic)
        rc = cudaMemset2DAsync(w.c + (size_t)l->first_row * w.ldc, (size_t)w.ldc * 2, 0, (size_t)w.n_used * 2,
                               (size_t)l->rows, s);
    if (rc != cudaSuccess)
        return cuda_failed(rc, "GEMM", e);
    return cuda_failed(start(r, w, s), "GEMM", e);
}
