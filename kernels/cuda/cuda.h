/* SPDX-License-Identifier: BSD-3-Clause */
/* What the cuda backend's sources share.  A stream argument is a cudaStream_t of the
 * current device; calls are queued on it and return at once.
 *
 * One thread of a process calls these, for one device: the one that was current at the
 * first call. */
#ifndef MDSK_CUDA_CUDA_H
#define MDSK_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "kernels/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cuda backend: a stream is a cudaStream_t of the current device; what is queued on
 * it is not finished when a call returns. */
const struct mdsk_table *mdsk_cuda(void);

/* 0, -ENOMEM, -ENOTSUP or -EIO; for what a launcher returns after its last launch:
 * return mdsk_cuda_rc(cudaGetLastError()).  Other failures than 0 are kept in words. */
int mdsk_cuda_rc(cudaError_t code);

/* Keep why something failed, and return -EIO. */
int mdsk_cuda_fail(const char *library, const char *why);

/* What failed last, "" if nothing did.  Static. */
const char *mdsk_cuda_why(void);

/* Opens cuBLASLt and cuDNN, unless they are open: whoever needs them calls it first.
 * Returns 0, or -ENOENT and a reason. */
int mdsk_cuda_open(void);

/* Whether this build has kernels for the current device. */
int mdsk_cuda_fits(void);

/* The current device's compute capability, 10 * major + minor, its processors, and what
 * a block can have of their shared memory. */
int mdsk_cuda_capability(void);
int mdsk_cuda_processors(void);
int mdsk_cuda_shared_bytes(void);

/* Seconds on a clock that never goes back. */
double mdsk_cuda_seconds(void);

/* Memory on the device, aligned to 256, from here to where it is given back in the
 * stream's order; NULL, and a reason, if refused.  Neither waits for the device as
 * cudaMalloc and cudaFree may: for a message, too, whose sender in turn waits for what
 * this rank would do next.  NULL may be given back. */
void *mdsk_cuda_take(cudaStream_t stream, int64_t bytes);
void mdsk_cuda_give_back(cudaStream_t stream, void *p);

/* Working memory on the device that lasts until the next call that is queued on another
 * stream or asks for memory of the same use: at least `bytes`, aligned to 256.  It only
 * ever grows.  NULL, and a reason, if refused. */
enum mdsk_cuda_use {
    MDSK_CUDA_PRODUCT, /* cuBLAS's workspace */
    MDSK_CUDA_REDUCE,  /* partial sums */
    MDSK_CUDA_BIAS,    /* a bias's gradient, before it is added */
    MDSK_CUDA_ATTEND,  /* sums of attention's backward pass */
    MDSK_CUDA_USES,
};
void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes);

/* Whether the same call must give the same bits, in every run.  It need not until this
 * is called: products then choose their algorithm by timing (race.c), and attention's
 * dq is summed in any order.  Repeatable attention is slower, much so where sequences
 * are longer than about 16 k. */
void mdsk_cuda_set_repeatable(int on);
int mdsk_cuda_is_repeatable(void);

#define MDSK_DECLARE(NAME, name)                                                       \
    int mdsk_##name##_cuda(void *stream, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDSK_DECLARE)
#undef MDSK_DECLARE

#ifdef __cplusplus
}
#endif

#endif
