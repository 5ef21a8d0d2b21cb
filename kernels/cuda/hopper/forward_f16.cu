/* SPDX-License-Identifier: BSD-3-Clause */
#define MDSK_HOPPER_TYPE __half
#define MDSK_HOPPER_NAME(width) mdsk_forward_f16_##width
#include "kernels/cuda/hopper/forward_widths.cuh"
