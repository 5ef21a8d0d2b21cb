/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cuda/hopper/backward_kernel.cuh"

MDSK_BACKWARD(__half, 64, mdsk_backward_f16_64)
MDSK_BACKWARD(__half, 96, mdsk_backward_f16_96)
MDSK_BACKWARD(__half, 128, mdsk_backward_f16_128)
MDSK_BACKWARD(__half, 256, mdsk_backward_f16_256)
