/* gemm_dense - the dense operator: launches of its plan one after the other
 *
 * shapes    C[m,n_used] = A[m,k_used] W^T, rows at any stride
 * units     16-bit floats in and out, fp32 between
 * rounding  spec marlin-numerics 1, 3.3, 4.4, 5
 * order     launches take disjoint rows; inside a launch as gemm_strip and gemm_tile
 * specials  nothing is flushed; a NaN that is stored is 7fff; atomic plans are a set of results
 * limits    atomic plans: rows of C on 4 bytes
 */
#include "kernels/cuda/gemm_work.cuh"

int launch_dense(const cuda_problem *p, void *stream, cuda_launch_facts *facts, err *e)
{
    if (p->sorted_routes || p->block_experts || p->route_weight)
        return FAIL(e, E_INTERNAL, "the dense route has no routes");
    for (int i = 0; i < p->plan->launches; i++)
        if (launch_plan(p, i, stream, facts, e))
            return e->code;
    return OK;
}
