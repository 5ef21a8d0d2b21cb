/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this host.  In builds with CUDA. */
#ifndef MDS_DEVICE_CUDA_GPU_H
#define MDS_DEVICE_CUDA_GPU_H

#include "device/backend.h"

#include <cuda_runtime_api.h>

/* MDS_OK, or MDS_EDEVICE with the name of the call and CUDA's words. */
enum mds_rc mds_cuda_check(const char *what, cudaError_t code);

/* *gpu = that of this rank, whose threads are bound to the cores near it: before CUDA
 * starts its own. */
enum mds_rc mds_cuda_pick(const struct mds_dev_spec *spec, int *gpu);

/* Set the device's description, bus id and capability.  MDS_EDEVICE: this build has no
 * kernels for it. */
enum mds_rc mds_cuda_describe(struct mds_dev *dev, int gpu);

#endif
