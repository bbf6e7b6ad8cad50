/* gemm_work - what a kernel is told: operands, one launch of the plan, where partial sums go; and who sums what
 *
 * Weights lie in strips of 16 columns. In strip s, k-pair p (k 32p .. 32p+31, two blocks of 16):
 *   codes   uint32 [strip][pair][lane][2 blocks]; code j = 0..3 of a half is (column 2g, k), (2g+1, k), (2g, k+2),
 *           (2g+1, k+2) with k = 4q in the low half and 4q+1 in the high half; g = lane / 4, q = lane % 4. A code is
 *           nibble j, but E2M1 with bf16 lies spread so that a shift and a mask make it a bf16, see place_code
 *   scales  nvfp4 bytes [strip][pair][g][2 blocks][2 columns]; mxfp4 bytes and u4b8 halves [strip][group][16 columns]
 * A lane's eight nibbles are its four registers of the row operand of m16n8k16; the order of k inside a block is free.
 */
#ifndef ASSAY_KERNELS_CUDA_GEMM_WORK_CUH
#define ASSAY_KERNELS_CUDA_GEMM_WORK_CUH

#include "kernels/cuda/cuda.h"

enum {
    PAIR_BYTES = 256, /* codes of one k-pair of a strip */
    SLICES_MOST = 512,
};

/* Formats as kernels are instantiated: channelwise u4b8 is one of its own. */
enum kernel_format { KF_U4B8, KF_CHANNEL, KF_NVFP4, KF_MXFP4 };

struct gemm_work {
    const uint16_t *a;
    uint16_t *c;
    long long lda, ldc;
    int m, k, k_used, n_used, topk, row_shift;
    int c_pairs; /* rows of C may be written two columns at a time */
    const uint8_t *codes, *scales;
    size_t codes_size, scales_size;
    int pairs, groups, group_shift; /* k-pairs and scale rows of a strip; scale row = pair >> group_shift */
    const uint16_t *column, *bias;
    int n;
    const float *global;
    const int32_t *sorted, *experts;
    const float *route_weight;
    /* the launch */
    int first_row, rows, block_rows, par;
    int W, tn, NT, T, dp, R, iters, G;
    int fuse_bias, reduce16, atomic;
    /* physical arrangement */
    int wc, sub, most; /* warp columns of a CTA; CTAs of a tile; slots of a striped tile */
    int cluster;       /* CTAs that share a strip */
    int stripes;       /* CTAs walk the plan's stripes, else one slice each */
    int serially;      /* slices wait for the one below, else the last CTA adds all */
    float *slots;
    unsigned *counters;
};

struct slices {
    int count, bottom; /* CTA that holds the bottom slice */
    int lo;            /* first k-tile of the tile on the line of striped tiles; -1: a whole tile */
};

struct range {
    int t0, t1;
};

__device__ __forceinline__ slices slices_of(const gemm_work &w, int tile)
{
    int whole = w.dp * w.G;
    if (tile < whole)
        return {1, 0, -1};
    int lo = (tile - whole) * w.T, top = lo / w.iters, bottom = (lo + w.T - 1) / w.iters;
    return {bottom - top + 1, bottom, lo};
}

/* k-tiles of slice i, bottom first. */
__device__ __forceinline__ range range_of(const gemm_work &w, const slices &s, int i)
{
    if (s.lo < 0)
        return {0, w.T};
    int from = (s.bottom - i) * w.iters - s.lo, to = from + w.iters;
    return {from > 0 ? from : 0, to < w.T ? to : w.T};
}

struct row_place {
    int a, c; /* rows of A and C; -1: no such row */
};

__device__ __forceinline__ row_place row_of(const gemm_work &w, int block, int place)
{
    int at = block * w.block_rows + place, route;
    if (place >= w.block_rows)
        return {-1, -1};
    if (w.sorted) {
        route = w.sorted[at];
        if (route < 0 || route >= w.m * w.topk)
            return {-1, -1};
    } else {
        if (at >= w.rows)
            return {-1, -1};
        route = w.first_row + at;
    }
    if (w.topk == 1 && !w.row_shift)
        return {route, route};
    return {(route / w.topk + w.row_shift) % w.m, route};
}

__device__ __forceinline__ int expert_of(const gemm_work &w, int block)
{
    return w.experts ? w.experts[block] : 0;
}

typedef void gemm_kernel(const gemm_work w);

/* Kernels of one (format, activation): tiles of 1, 2, 4, 6, 8 row groups; strips of 1, of 1 far ahead, of 2;
 * strips with 2 or 4 warp rows. */
enum { ROW_GROUPS = 5 };
enum strip_kind { STRIP_EIGHT, STRIP_EIGHT_DEEP, STRIP_SIXTEEN, STRIP_KINDS };
struct gemm_kernels {
    gemm_kernel *tile[ROW_GROUPS];
    gemm_kernel *strip[STRIP_KINDS][2];
};

enum { DEPTH_EIGHT = 6, DEPTH_DEEP = 14, DEPTH_SIXTEEN = 4 }; /* k-pairs of weights under way */

const gemm_kernels *kernels_u4b8_bf16(), *kernels_u4b8_f16(), *kernels_channel_bf16(), *kernels_channel_f16(),
    *kernels_nvfp4_bf16(), *kernels_nvfp4_f16(), *kernels_mxfp4_bf16();

/* Launches; streams are the caller's. */
int launch_dense(const cuda_problem *p, void *stream, cuda_launch_facts *facts, err *e);
int launch_grouped(const cuda_problem *p, void *stream, cuda_launch_facts *facts, err *e);
int launch_plan(const cuda_problem *p, int index, void *stream, cuda_launch_facts *facts, err *e);
size_t plan_scratch(const cuda_problem *p, int index);
size_t padded_rows_bytes(const cuda_problem *p);
int cuda_failed(int code, const char *what, err *e); /* OK for code 0 */

#endif
