/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/hopper/backward_kernel.cuh"

MDSK_BACKWARD(__nv_bfloat16, 64, mdsk_backward_bf16_64)
MDSK_BACKWARD(__nv_bfloat16, 96, mdsk_backward_bf16_96)
MDSK_BACKWARD(__nv_bfloat16, 128, mdsk_backward_bf16_128)
MDSK_BACKWARD(__nv_bfloat16, 256, mdsk_backward_bf16_256)
