/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMs by cuBLASLt (gemm.c), a plan for each shape (gemm_plan.c), and the choice of
 * its algorithm by timing (autotune.c). */
#ifndef MDSK_CUDA_GEMM_H
#define MDSK_CUDA_GEMM_H

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cuda.h"

/* C [m,n] = A [m,k] B [k,n], column-major, all packed; of a batch one after the other.
 * flip: the operand is stored transposed.  FP8 (fp8.h): A is stored transposed and B is
 * not, and k is a multiple of 16.  Compared bytewise: zero the struct before filling it
 * in. */
struct mdsk_cuda_gemm_shape {
    int64_t m, n, k, batch;
    int32_t in, in_b, out; /* enum mdsk_dtype of A, of B and of C */
    int32_t flip_a, flip_b;
    int32_t add; /* C += A B, or C = A B + Z */
    int32_t epilogue;
    int32_t alignment; /* of the operands' addresses, in bytes */
    int32_t fast;      /* FP8: sums along k in fewer bits than f32 has */
    int32_t unused;
};

enum { MDSK_CUDA_CANDIDATES = 8 }; /* at most, from cuBLASLt's heuristic */

struct mdsk_cuda_gemm_plan {
    struct mdsk_cuda_gemm_plan *next;
    struct mdsk_cuda_gemm_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;                            /* in use */
    cublasLtMatmulAlgo_t candidate[MDSK_CUDA_CANDIDATES]; /* for the next autotuning */
    int candidates;    /* 0: autotuning is finished */
    double tuned_at;   /* seconds of mdsk_cuda_seconds */
    float ms;          /* of one GEMM; 0: not timed */
    float separate_ms; /* of the kernel that fusing would save; 0: not timed */
    int usable;        /* cuBLASLt has an algorithm */
};

/* Device addresses of one GEMM; borrowed.  bias, aux: read or written by the epilogue,
 * or NULL.  scale_a, scale_b: of FP8 operands, else NULL.  z: what is added, if it is
 * not C.  factors: of A B and of what is added, on the host; NULL: 1. */
struct mdsk_cuda_gemm_operands {
    const void *a, *b, *bias;
    void *c;
    const void *aux;
    const float *scale_a, *scale_b;
    const void *z;
    const float *factors;
};

/* The shape of one GEMM without flip, add or epilogue; A and B are of one type. */
struct mdsk_cuda_gemm_shape
mdsk_cuda_gemm_shape_of(int64_t m, int64_t n, int64_t k, enum mdsk_dtype in,
                        enum mdsk_dtype out, const struct mdsk_cuda_gemm_operands *o);

/* The plan for a shape, created at its first use; it is never freed.  Autotuning may
 * overwrite C and other outputs with wrong results.  Returns 0 or -errno.  If the plan
 * is not usable, its other members are undefined. */
int mdsk_cuda_find_gemm_plan(cudaStream_t stream, const struct mdsk_cuda_gemm_shape *s,
                             const struct mdsk_cuda_gemm_operands *o,
                             struct mdsk_cuda_gemm_plan **out);

/* Create cuBLASLt's descriptors for p->shape and ask it for candidates; the first one
 * becomes p->algo. */
int mdsk_cuda_init_gemm_plan(struct mdsk_cuda_gemm_plan *p,
                             const struct mdsk_cuda_gemm_operands *o);

int mdsk_cuda_run_gemm_plan(cudaStream_t stream, const struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o);

/* Find the plan and run it; -ENOTSUP if cuBLASLt has no algorithm. */
int mdsk_cuda_gemm(cudaStream_t stream, const struct mdsk_cuda_gemm_shape *s,
                   const struct mdsk_cuda_gemm_operands *o);

/* Choose among the plan's candidates by timing them with these operands: at the first
 * use of a plan; and again (hot), among those that were close, at least
 * mdsk_cuda_set_hot_after's seconds later. */
void mdsk_cuda_autotune(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                        const struct mdsk_cuda_gemm_operands *o);
void mdsk_cuda_autotune_hot(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o);

/* Milliseconds of one call of `work`, averaged over `times`; negative on failure. */
typedef int mdsk_cuda_work_fn(cudaStream_t stream, const void *what);
float mdsk_cuda_time(cudaStream_t stream, mdsk_cuda_work_fn *work, const void *what,
                     int times);

/* Whether timing is allowed: not in repeatable mode, nor while a stream is captured. */
int mdsk_cuda_can_autotune(cudaStream_t stream);

#endif
