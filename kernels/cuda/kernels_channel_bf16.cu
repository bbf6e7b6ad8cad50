#include "kernels/cuda/gemm_instances.cuh"

GEMM_KERNELS(kernels_channel_bf16, KF_CHANNEL, ACT_BF16)
