/* The cuda device: so far it only says what it would find. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/backend.h"

#include <stdio.h>

#ifdef HAVE_CUDA
#include <cuda_runtime_api.h>

const char *mds_cuda_probe(void)
{
    static char text[64];
    int n = 0;

    /* No driver and no GPU are both answers, not failures. */
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0)
        return "no GPU found";
    snprintf(text, sizeof text, "%d GPU%s found, not used by this version", n,
             n == 1 ? "" : "s");
    return text;
}
#else
const char *mds_cuda_probe(void)
{
    return "not in this build";
}
#endif

const struct mds_dev_ops mds_dev_cuda = {
    .name = "cuda",
    .missing = "this version has no CUDA kernels yet; use --device cpu",
};
