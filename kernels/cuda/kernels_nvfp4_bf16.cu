#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_nvfp4_bf16, KF_NVFP4, ACT_BF16)
