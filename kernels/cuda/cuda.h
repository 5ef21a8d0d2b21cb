/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers of the cuda backend.  A stream argument is a cudaStream_t of the current
 * device; calls are queued on it and return at once.
 *
 * Only one thread of a process may call these functions, and only for the device that
 * was current at the first call. */
#ifndef MDSK_CUDA_CUDA_H
#define MDSK_CUDA_CUDA_H

#include <cuda_runtime_api.h>

#include "kernels/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cuda backend.  Calls return before the work queued on the stream has
 * completed. */
const struct mdsk_table *mdsk_cuda(void);

/* Convert a CUDA error to 0, -ENOMEM, -ENOTSUP or -EIO, and keep the text of a failure.
 * Launchers end with: return mdsk_cuda_rc(cudaGetLastError()). */
int mdsk_cuda_rc(cudaError_t code);

/* Keep "library: why" as the error text, and return -EIO. */
int mdsk_cuda_fail(const char *library, const char *why);

/* Text of the last failure, "" if there was none.  Static. */
const char *mdsk_cuda_error_text(void);

/* Open cuBLASLt and cuDNN unless they are open; call this before using them.  Returns
 * 0, or -ENOENT with an error text. */
int mdsk_cuda_open(void);

/* Whether this build has kernels for the current device. */
int mdsk_cuda_has_kernels(void);

/* Of the current device: compute capability (10 * major + minor), number of
 * multiprocessors, and largest shared memory of a block in bytes. */
int mdsk_cuda_capability(void);
int mdsk_cuda_processors(void);
int mdsk_cuda_shared_bytes(void);

/* Seconds on a clock that never goes back. */
double mdsk_cuda_seconds(void);

/* Stream-ordered allocation of device memory, aligned to 256 bytes; NULL with an error
 * text if there is none.  Unlike cudaMalloc and cudaFree these never wait for the
 * device, which could deadlock: it may be receiving a message whose sender waits for
 * what this rank does next.  Freeing NULL is fine. */
void *mdsk_cuda_alloc(cudaStream_t stream, int64_t bytes);
void mdsk_cuda_free(cudaStream_t stream, void *p);

/* Scratch memory on the device: at least `bytes`, aligned to 256, valid until the next
 * request for the same use, or from another stream.  It only grows.  NULL with an error
 * text if there is no memory. */
enum mdsk_cuda_use {
    MDSK_CUDA_GEMM,   /* cuBLAS's workspace */
    MDSK_CUDA_REDUCE, /* partial sums */
    MDSK_CUDA_BIAS,   /* a bias's gradient, before it is added */
    MDSK_CUDA_AMAX,   /* the largest magnitude of a tensor */
    MDSK_CUDA_ATTEND, /* sums of attention's backward pass */
    MDSK_CUDA_WINDOW, /* gradients of the keys that a block of queries sees */
    MDSK_CUDA_CACHED, /* attention over a cache: sums over parts of the keys */
    MDSK_CUDA_USES,
};
void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes);

/* Whether the same call must give the same bits in every run.  Off by default: then
 * GEMMs choose their algorithm by timing (autotune.c), and attention's dq is summed in
 * any order.  Repeatable attention is slower, much slower beyond about 16 k tokens. */
void mdsk_cuda_set_repeatable(int on);
int mdsk_cuda_is_repeatable(void);

/* When GEMMs are timed again, in seconds after their first use: 1, unless this says
 * otherwise.  It takes some two seconds. */
void mdsk_cuda_set_hot_after(double seconds);

#define MDSK_DECLARE(NAME, name)                                                       \
    int mdsk_##name##_cuda(void *stream, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDSK_DECLARE)
#undef MDSK_DECLARE

#ifdef __cplusplus
}
#endif

#endif
