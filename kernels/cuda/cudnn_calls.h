/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions used from cuDNN, which is opened on demand: kernels/library.h. */
#ifndef MDSK_CUDA_CUDNN_CALLS_H
#define MDSK_CUDA_CUDNN_CALLS_H

#include <cudnn.h>

#include "kernels/library.h"

#define MDSK_CUDNN_CALLS(X)                                                            \
    X(cudnnBackendCreateDescriptor)                                                    \
    X(cudnnBackendDestroyDescriptor)                                                   \
    X(cudnnBackendExecute)                                                             \
    X(cudnnBackendFinalize)                                                            \
    X(cudnnBackendGetAttribute)                                                        \
    X(cudnnBackendSetAttribute)                                                        \
    X(cudnnCreate)                                                                     \
    X(cudnnGetErrorString)                                                             \
    X(cudnnGetVersion)                                                                 \
    X(cudnnSetStream)

struct mdsk_cudnn {
    MDSK_CUDNN_CALLS(MDSK_LIBRARY_CALL)
};

/* Filled by mdsk_cuda_open. */
extern struct mdsk_cudnn mdsk_cudnn;

#endif
