/* gemm_grouped - the MoE operator: aligned blocks of routes, an expert a block; and the alignment itself
 *
 * shapes    C[m*topk,n_used], row = route; A[m,k_used], row = route / topk
 * units     as gemm_dense
 * rounding  as gemm_dense; router weights at write-out, spec marlin-numerics 5.2
 * order     experts ascending; inside an expert by (r mod L, r div L) below 1024 routes and 65 experts, else ascending
 * specials  routes of absent experts are not written
 * limits    one launch a plan; 1024 experts
 */
#include "kernels/cuda/gemm_work.cuh"

#include <cuda_runtime.h>

enum { EXPERTS_MOST = 1024 };

int launch_grouped(const cuda_problem *p, void *stream, cuda_launch_facts *facts, err *e)
{
    if (p->plan->shape.experts > 1 && (!p->sorted_routes || !p->block_experts))
        return FAIL(e, E_INTERNAL, "%d experts need aligned routes", p->plan->shape.experts);
    return launch_plan(p, 0, stream, facts, e);
}

/* The i-th route in the order of spec 2.5. */
__device__ static int route_at(int i, int routes, int lanes)
{
    if (lanes == 1)
        return i;
    int full = routes / lanes, rest = routes % lanes; /* the first `rest` lanes hold one more */
    int head = rest * (full + 1);
    if (i < head)
        return i / (full + 1) + i % (full + 1) * lanes;
    return rest + (i - head) / full + (i - head) % full * lanes;
}

/* One CTA, a thread an expert. */
__global__ static void align_kernel(const int32_t *expert, int routes, int experts, int block_rows, int32_t *sorted,
                                    int capacity, int32_t *block_experts, int32_t *blocks)
{
    __shared__ int first[EXPERTS_MOST + 1];
    int x = threadIdx.x, count = 0, lanes = routes < 1024 && experts <= 64 ? (experts > 32 ? experts : 32) : 1;
    for (int r = 0; r < routes && x < experts; r++)
        count += expert[r] == x;
    first[x + 1] = (count + block_rows - 1) / block_rows;
    __syncthreads();
    if (x == 0) {
        first[0] = 0;
        for (int i = 0; i < experts; i++)
            first[i + 1] += first[i];
        *blocks = first[experts];
    }
    __syncthreads();
    if (x >= experts)
        return;
    int at = first[x] * block_rows;
    for (int i = 0; i < routes && count; i++) {
        int r = route_at(i, routes, lanes);
        if (expert[r] == x && at < capacity)
            sorted[at++] = r;
    }
    for (; at < first[x + 1] * block_rows && at < capacity; at++)
        sorted[at] = routes;
    for (int b = first[x]; b < first[x + 1] && b < capacity / block_rows; b++)
        block_experts[b] = x;
}

int align_on_device(const int32_t *expert, int routes, int experts, int block_rows, int32_t *sorted, int capacity,
                    int32_t *block_experts, int32_t *blocks, err *e)
{
    if (experts < 1 || experts > EXPERTS_MOST)
        return FAIL(e, E_UNSUPPORTED, "%d experts: %d at most", experts, EXPERTS_MOST);
    align_kernel<<<1, (experts + 31) / 32 * 32>>>(expert, routes, experts, block_rows, sorted, capacity, block_experts,
                                                  blocks);
    return cuda_failed(cudaGetLastError(), "alignment", e);
}
