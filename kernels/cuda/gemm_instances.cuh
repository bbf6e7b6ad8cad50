/* gemm_instances - all kernels of one (format, activation); one file kernels_FORMAT_ACT.cu each, so that they build
 * side by side */
#include "kernels/cuda/gemm_strip.cuh"
#include "kernels/cuda/gemm_tile.cuh"

#define STRIP_PAIR(F, ACT, N8, DEPTH)                                                                                  \
    {                                                                                                                  \
        strip_kernel<strip_shape<F, ACT, N8, 2, DEPTH>>, strip_kernel<strip_shape<F, ACT, N8, 4, DEPTH>>               \
    }

#define GEMM_KERNELS(NAME, F, ACT)                                                                                     \
    const gemm_kernels *NAME()                                                                                         \
    {                                                                                                                  \
        static const gemm_kernels k = {{tile_kernel<F, ACT, 1>, tile_kernel<F, ACT, 2>, tile_kernel<F, ACT, 4>,        \
                                        tile_kernel<F, ACT, 6>, tile_kernel<F, ACT, 8>},                               \
                                       {STRIP_PAIR(F, ACT, 1, DEPTH_EIGHT), STRIP_PAIR(F, ACT, 1, DEPTH_DEEP),         \
                                        STRIP_PAIR(F, ACT, 2, DEPTH_SIXTEEN)}};                                        \
        return &k;                                                                                                     \
    }
