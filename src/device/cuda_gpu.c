/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPUs of this host: how many there are, which one is a rank's, what it is. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/backend.h"

#ifdef HAVE_CUDA

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "device/cuda_gpu.h"
#include "kernels/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

enum mds_rc mds_cuda_check(const char *what, cudaError_t code)
{
    if (code == cudaSuccess)
        return MDS_OK;
    return mds_fail(MDS_EDEVICE, "cuda: %s: %s", what, cudaGetErrorString(code));
}

/* Streams that share one of the GPU's hardware queues wait for each other, and a
 * message for which a peer waits could be stuck behind them.  Ask for 32 queues, the
 * maximum; the default is 8. */
static const char queues_name[] = "CUDA_DEVICE_MAX_CONNECTIONS";

/* Megatron's scripts set it to 1, for an order of kernels that mds does not need. */
static void warn_few_queues(void)
{
    const char *queues = getenv(queues_name);

    if (queues && atoi(queues) < 8)
        mds_warn("%s is %s: copies, messages and kernels cannot overlap; unset it",
                 queues_name, queues);
}

/* Without a driver there are 0 GPUs, which is not a failure. */
static cudaError_t count_gpus(int *n)
{
    cudaError_t code;

    setenv(queues_name, "32", 0);
    *n = 0;
    code = cudaGetDeviceCount(n);
    if (code != cudaSuccess) {
        cudaGetLastError();
        *n = 0;
    }
    return code;
}

int mds_cuda_count(void)
{
    int n;

    count_gpus(&n);
    return n;
}

/* "NVIDIA H200, NVIDIA H200" */
static void name_gpus(int count, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp prop;

        if (cudaGetDeviceProperties(&prop, i) != cudaSuccess || at >= size)
            break;
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", prop.name);
    }
}

/* The GPU with the number of the local rank, or the only one that the launcher has made
 * visible to this rank. */
static enum mds_rc find_gpu(int local_rank, int *out)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count;
    cudaError_t code = count_gpus(&count);
    char found[192];

    if (count == 0)
        return mds_fail(MDS_EDEVICE, "device cuda: no GPU found%s%s; use --device cpu",
                        code ? ": " : "", code ? cudaGetErrorString(code) : "");
    if (local_rank < count) {
        *out = local_rank;
        return MDS_OK;
    }
    if (count == 1 && visible) {
        *out = 0;
        return MDS_OK;
    }
    name_gpus(count, found, sizeof found);
    return mds_fail(
        MDS_EUSER,
        "device cuda: rank %d of this node has no GPU: %d found (%s); start "
        "one rank for each GPU",
        local_rank, count, found);
}

/* "driver 580.159.04", or "driver for CUDA 13.0" if the version is unknown. */
static void describe_driver(char *text, size_t size)
{
    FILE *f = fopen("/sys/module/nvidia/version", "re");
    char version[32] = "";
    int known = 0;

    if (f) {
        if (fscanf(f, "%31s", version) != 1)
            version[0] = '\0';
        fclose(f);
    }
    cudaDriverGetVersion(&known);
    if (version[0])
        snprintf(text, size, "driver %s", version);
    else
        snprintf(text, size, "driver for CUDA %d.%d", known / 1000, known % 1000 / 10);
}

static void format_bus_id(const struct cudaDeviceProp *prop, mds_bus_id out)
{
    snprintf(out, sizeof(mds_bus_id), "%04x:%02x:%02x.0",
             (unsigned)prop->pciDomainID & 0xffff, (unsigned)prop->pciBusID & 0xff,
             (unsigned)prop->pciDeviceID & 0xff);
}

/* Where each rank of the node sees the GPUs of all; else the launcher binds ranks. */
static enum mds_rc bind_near_gpu(const struct mds_dev_spec *spec)
{
    int ranks = spec->local_ranks;
    struct cudaDeviceProp prop;
    mds_bus_id *gpu;

    if (ranks < 2 || mds_cuda_count() < ranks)
        return MDS_OK;
    gpu = mds_zalloc((size_t)ranks, sizeof *gpu);
    if (!gpu)
        return MDS_EMEM;
    for (int i = 0; i < ranks; i++)
        if (cudaGetDeviceProperties(&prop, i) == cudaSuccess)
            format_bus_id(&prop, gpu[i]);
    mds_host_bind_near(gpu, ranks, spec->local_rank);
    free(gpu);
    return MDS_OK;
}

enum mds_rc mds_cuda_pick(const struct mds_dev_spec *spec, int *gpu)
{
    MDS_TRY(find_gpu(spec->local_rank, gpu));
    if (spec->local_rank == 0)
        warn_few_queues();
    return bind_near_gpu(spec);
}

enum mds_rc mds_cuda_describe(struct mds_dev *dev, int gpu)
{
    struct cudaDeviceProp prop;
    char memory[32], driver[64];

    MDS_TRY(
        mds_cuda_check("cudaGetDeviceProperties", cudaGetDeviceProperties(&prop, gpu)));
    if (prop.major < 7)
        return mds_fail(MDS_EDEVICE,
                        "device cuda: %s has compute capability %d.%d; 7.0 is needed, "
                        "use --device cpu",
                        prop.name, prop.major, prop.minor);
    if (!mdsk_cuda_has_kernels())
        return mds_fail(MDS_EDEVICE,
                        "device cuda: this build has no kernels for %s: configure it "
                        "with CUDA_ARCHS=%d%d, or use --device cpu",
                        prop.name, prop.major, prop.minor);
    dev->capability = 10 * prop.major + prop.minor;
    mds_format_bytes((double)prop.totalGlobalMem, memory, sizeof memory);
    format_bus_id(&prop, dev->bus_id);
    describe_driver(driver, sizeof driver);
    snprintf(dev->description, sizeof dev->description, "cuda: %.48s, %s, %s",
             prop.name, memory, driver);
    return MDS_OK;
}

#else

int mds_cuda_count(void)
{
    return 0;
}

#endif
