/* SPDX-License-Identifier: BSD-3-Clause */
#define MDSK_HOPPER_TYPE __nv_bfloat16
#define MDSK_HOPPER_NAME(width) mdsk_forward_bf16_##width
#include "kernels/cuda/hopper/forward_widths.cuh"
