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

int mdsk_linear_fwd_cuda(void *stream, const struct mdsk_linear_fwd *a);
int mdsk_linear_bwd_input_cuda(void *stream, const struct mdsk_linear_bwd_input *a);
int mdsk_linear_bwd_weight_cuda(void *stream, const struct mdsk_linear_bwd_weight *a);
int mdsk_norm_fwd_cuda(void *stream, const struct mdsk_norm_fwd *a);
int mdsk_norm_bwd_cuda(void *stream, const struct mdsk_norm_bwd *a);
int mdsk_attention_fwd_cuda(void *stream, const struct mdsk_attention_fwd *a);
int mdsk_attention_bwd_cuda(void *stream, const struct mdsk_attention_bwd *a);
int mdsk_attention_merge_cuda(void *stream, const struct mdsk_attention_merge *a);
int mdsk_rope_cuda(void *stream, const struct mdsk_rope *a);
int mdsk_activation_fwd_cuda(void *stream, const struct mdsk_activation_fwd *a);
int mdsk_activation_bwd_cuda(void *stream, const struct mdsk_activation_bwd *a);
int mdsk_embedding_fwd_cuda(void *stream, const struct mdsk_embedding_fwd *a);
int mdsk_embedding_bwd_cuda(void *stream, const struct mdsk_embedding_bwd *a);
int mdsk_xent_stats_cuda(void *stream, const struct mdsk_xent_stats *a);
int mdsk_xent_loss_cuda(void *stream, const struct mdsk_xent_loss *a);
int mdsk_xent_bwd_cuda(void *stream, const struct mdsk_xent_bwd *a);
int mdsk_dropout_cuda(void *stream, const struct mdsk_dropout *a);
int mdsk_copy_rows_cuda(void *stream, const struct mdsk_copy_rows *a);
int mdsk_cast_cuda(void *stream, const struct mdsk_cast *a);
int mdsk_add_cuda(void *stream, const struct mdsk_add *a);
int mdsk_sum_squares_cuda(void *stream, const struct mdsk_sum_squares *a);
int mdsk_adamw_cuda(void *stream, const struct mdsk_adamw *a);

#ifdef __cplusplus
}
#endif

#endif
