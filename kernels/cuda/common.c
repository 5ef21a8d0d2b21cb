/* SPDX-License-Identifier: BSD-3-Clause */
/* Error texts, attributes of the device, scratch memory. */
#include "kernels/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

static char error_text[256];
static int repeatable;

void mdsk_cuda_set_repeatable(int on)
{
    repeatable = on;
}

int mdsk_cuda_is_repeatable(void)
{
    return repeatable;
}

int mdsk_cuda_fail(const char *library, const char *text)
{
    snprintf(error_text, sizeof error_text, "%s: %s", library, text);
    return -EIO;
}

int mdsk_cuda_rc(cudaError_t code)
{
    if (code == cudaSuccess)
        return 0;
    mdsk_cuda_fail("CUDA", cudaGetErrorString(code));
    if (code == cudaErrorMemoryAllocation)
        return -ENOMEM;
    return code == cudaErrorNotSupported ? -ENOTSUP : -EIO;
}

const char *mdsk_cuda_error_text(void)
{
    return error_text;
}

static int device_attribute(enum cudaDeviceAttr what)
{
    int device = 0, value = 0;

    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&value, what, device) != cudaSuccess)
        return 0;
    return value;
}

int mdsk_cuda_capability(void)
{
    static int capability;

    if (!capability)
        capability = 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
                     device_attribute(cudaDevAttrComputeCapabilityMinor);
    return capability;
}

int mdsk_cuda_processors(void)
{
    static int processors;

    if (!processors)
        processors = device_attribute(cudaDevAttrMultiProcessorCount);
    return processors;
}

int mdsk_cuda_shared_bytes(void)
{
    static int bytes;

    if (!bytes)
        bytes = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    return bytes;
}

double mdsk_cuda_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *mdsk_cuda_alloc(cudaStream_t stream, int64_t bytes)
{
    void *p = NULL;

    if (mdsk_cuda_rc(cudaMallocAsync(&p, (size_t)bytes, stream)) == 0)
        return p;
    cudaGetLastError(); /* clear it for the next launch */
    return NULL;
}

void mdsk_cuda_free(cudaStream_t stream, void *p)
{
    if (p)
        cudaFreeAsync(p, stream);
}

static struct {
    void *data;
    int64_t bytes;
} scratch[MDSK_CUDA_USES];

void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes)
{
    const int64_t grain = 1 << 20;
    int64_t want = (bytes + grain - 1) / grain * grain;

    if (bytes <= scratch[use].bytes)
        return scratch[use].data;
    mdsk_cuda_free(stream, scratch[use].data);
    scratch[use].bytes = 0;
    scratch[use].data = mdsk_cuda_alloc(stream, want);
    if (scratch[use].data)
        scratch[use].bytes = want;
    return scratch[use].data;
}
