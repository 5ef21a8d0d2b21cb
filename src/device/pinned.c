/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned host memory, for copies to and from the GPU. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/backend.h"

#ifdef HAVE_CUDA

#include <cuda_runtime_api.h>
#include <stdio.h>

static enum mds_rc pinned_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    MDS_TRY(mds_dev_cpu.open(dev, spec));
    snprintf(dev->description, sizeof dev->description, "pinned host memory");
    return MDS_OK;
}

/* Map, then pin: this keeps huge pages, and cudaHostAlloc does not promise zeros. */
static void *pinned_alloc(struct mds_dev *dev, int64_t bytes)
{
    void *p = mds_host_map(bytes);

    (void)dev;
    if (!p || bytes == 0)
        return p;
    if (cudaHostRegister(p, (size_t)bytes, cudaHostRegisterPortable) != cudaSuccess) {
        cudaGetLastError();
        mds_host_unmap(p, bytes);
        return NULL;
    }
    return p;
}

static void pinned_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev;
    if (bytes > 0)
        cudaHostUnregister(p);
    mds_host_unmap(p, bytes);
}

const struct mds_dev_ops mds_dev_pinned = {
    .name = "pinned",
    .open = pinned_open,
    .alloc = pinned_alloc,
    .free = pinned_free,
    .zero = mds_dev_cpu_zero,
    .copy = mds_dev_cpu_copy,
    .copy_in = mds_dev_cpu_copy,
    .copy_out = mds_dev_cpu_copy_out,
};

#else

typedef int mds_dev_pinned_needs_cuda; /* ISO C forbids an empty source */

#endif
