/* SPDX-License-Identifier: BSD-3-Clause */
/* The libraries of the cuda backend: see kernels/library.h. */
#include "config.h"

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cuda.h"
#ifdef HAVE_CUDNN
#include "kernels/cuda/cudnn_calls.h"
#endif

struct mdsk_cublaslt mdsk_cublaslt;

static int open_cuda_library(const char *file, const char *const names[], void *calls)
{
    int err = mdsk_library_open(file, names, calls);

    if (err)
        mdsk_cuda_fail("CUDA", mdsk_library_error_text());
    return err;
}

static int open_cublaslt(void)
{
    static const char *const names[] = {MDSK_CUBLASLT_CALLS(MDSK_LIBRARY_NAME) NULL};

    if (mdsk_cublaslt.cublasLtCreate)
        return 0;
    return open_cuda_library(MDS_CUBLASLT_FILE, names, &mdsk_cublaslt);
}

#ifdef HAVE_CUDNN
struct mdsk_cudnn mdsk_cudnn;

static int open_cudnn(void)
{
    static const char *const names[] = {MDSK_CUDNN_CALLS(MDSK_LIBRARY_NAME) NULL};

    if (mdsk_cudnn.cudnnCreate)
        return 0;
    return open_cuda_library(MDS_CUDNN_FILE, names, &mdsk_cudnn);
}
#else
static int open_cudnn(void)
{
    return 0;
}
#endif

int mdsk_cuda_open(void)
{
    int err = open_cublaslt();

    return err ? err : open_cudnn();
}
