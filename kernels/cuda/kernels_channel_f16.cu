#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_channel_f16, KF_CHANNEL, ACT_F16)
