/* Errors in words, facts about the device, working memory. */
#include "kernels/cuda/cuda.h"

#include <errno.h>
#include <stdio.h>

static char why[256];
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
    snprintf(why, sizeof why, "%s: %s", library, text);
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

const char *mdsk_cuda_why(void)
{
    return why;
}

static int attribute(enum cudaDeviceAttr what)
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
        capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                     attribute(cudaDevAttrComputeCapabilityMinor);
    return capability;
}

int mdsk_cuda_processors(void)
{
    static int processors;

    if (!processors)
        processors = attribute(cudaDevAttrMultiProcessorCount);
    return processors;
}

static struct {
    void *data;
    int64_t bytes;
} scratch[MDSK_CUDA_USES];

/* cudaFree waits for whatever still uses the old memory. */
void *mdsk_cuda_scratch(enum mdsk_cuda_use use, int64_t bytes)
{
    const int64_t grain = 1 << 20;
    int64_t want = (bytes + grain - 1) / grain * grain;

    if (bytes <= scratch[use].bytes)
        return scratch[use].data;
    cudaFree(scratch[use].data);
    scratch[use].bytes = 0;
    scratch[use].data = NULL;
    if (mdsk_cuda_rc(cudaMalloc(&scratch[use].data, (size_t)want)) != 0) {
        cudaGetLastError(); /* said here; not the next launch's fault */
        scratch[use].data = NULL;
        return NULL;
    }
    scratch[use].bytes = want;
    return scratch[use].data;
}

int64_t mdsk_cuda_scratch_bytes(void)
{
    int64_t sum = 0;

    for (int i = 0; i < MDSK_CUDA_USES; i++)
        sum += scratch[i].bytes;
    return sum;
}
