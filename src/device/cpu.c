/* SPDX-License-Identifier: BSD-3-Clause */
/* The cpu device: host memory and kernels/cpu. */
#include "base/status.h"
#include "base/units.h"
#include "device/backend.h"
#include "kernels/library.h"
#include "kernels/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static enum mds_rc cpu_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    int threads = spec->threads > 0 ? spec->threads : mds_host_cores();
    int err = mdsk_cpu_start(threads);

    if (err == -ENOENT)
        return mds_fail(MDS_ENOSUP,
                        "GEMM: %s; load the OpenBLAS module, or add its directory to "
                        " LD_LIBRARY_PATH",
                        mdsk_library_error_text());
    if (err)
        return mds_fail(MDS_EMEM,
                        "host memory: BLAS with %d thread%s needs 136 MiB of address "
                        "space per thread and 200 MiB more, which ulimit -v or the "
                        "kernel (vm.overcommit_memory) refuses: raise the limit, or "
                        "use fewer --threads",
                        threads, mds_plural(threads));
    dev->kern = mdsk_cpu();
    if (dev->memory_bytes <= 0)
        dev->memory_bytes = mds_host_memory_available();
    snprintf(dev->description, sizeof dev->description, "cpu: %s", mdsk_cpu_describe());
    return MDS_OK;
}

static void *cpu_alloc(struct mds_dev *dev, int64_t bytes)
{
    (void)dev;
    return mds_host_map(bytes);
}

static void cpu_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev;
    mds_host_unmap(p, bytes);
}

void mds_dev_cpu_zero(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)dev;
    mdsk_cpu_zero(p, bytes);
}

void mds_dev_cpu_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    (void)dev;
    memcpy(to, from, (size_t)bytes);
}

enum mds_rc mds_dev_cpu_copy_out(struct mds_dev *dev, void *to, const void *from,
                                 int64_t bytes)
{
    (void)dev;
    memcpy(to, from, (size_t)bytes);
    return MDS_OK;
}

const struct mds_dev_ops mds_dev_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .zero = mds_dev_cpu_zero,
    .copy = mds_dev_cpu_copy,
    .copy_in = mds_dev_cpu_copy,
    .copy_out = mds_dev_cpu_copy_out,
};
