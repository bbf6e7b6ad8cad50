#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_u4b8_bf16, KF_U4B8, ACT_BF16)
