#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_u4b8_f16, KF_U4B8, ACT_F16)
