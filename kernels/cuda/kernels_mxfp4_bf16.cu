#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_mxfp4_bf16, KF_MXFP4, ACT_BF16)
