/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions used from cuBLASLt, which is opened on demand: kernels/library.h. */
#ifndef MDSK_CUDA_CUBLASLT_H
#define MDSK_CUDA_CUBLASLT_H

#include <cublasLt.h>

#include "kernels/library.h"

#define MDSK_CUBLASLT_CALLS(X)                                                         \
    X(cublasLtCreate)                                                                  \
    X(cublasLtGetStatusString)                                                         \
    X(cublasLtMatmul)                                                                  \
    X(cublasLtMatmulAlgoConfigGetAttribute)                                            \
    X(cublasLtMatmulAlgoGetHeuristic)                                                  \
    X(cublasLtMatmulDescCreate)                                                        \
    X(cublasLtMatmulDescDestroy)                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                  \
    X(cublasLtMatmulPreferenceCreate)                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                            \
    X(cublasLtMatrixLayoutCreate)                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                     \
    X(cublasLtMatrixLayoutSetAttribute)

struct mdsk_cublaslt {
    MDSK_CUBLASLT_CALLS(MDSK_LIBRARY_CALL)
};

/* Filled by mdsk_cuda_open. */
extern struct mdsk_cublaslt mdsk_cublaslt;

#endif
