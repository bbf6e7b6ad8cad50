#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_nvfp4_f16, KF_NVFP4, ACT_F16)
