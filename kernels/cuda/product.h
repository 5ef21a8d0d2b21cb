/* SPDX-License-Identifier: BSD-3-Clause */
/* Products by cuBLASLt (product.c), their plans (plan.c) and which of its algorithms
 * run (race.c), for those who make operations of them. */
#ifndef MDSK_CUDA_PRODUCT_H
#define MDSK_CUDA_PRODUCT_H

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cuda.h"

/* C [m,n] = A [m,k] B [k,n], by columns; all packed.  flip: the operand is stored
 * transposed.  Compared bytewise: zero it first. */
struct mdsk_cuda_shape {
    int64_t m, n, k;
    int32_t in, out; /* enum mdsk_dtype of A and B, and of C */
    int32_t flip_a, flip_b;
    int32_t add; /* to what C holds */
    int32_t epilogue;
    int32_t alignment; /* of the operands' addresses */
    int32_t unused;
};

enum { MDSK_CUDA_ENTRANTS = 8 }; /* at most: what cuBLASLt suggests */

struct mdsk_cuda_plan {
    struct mdsk_cuda_plan *next;
    struct mdsk_cuda_shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;                        /* that runs */
    cublasLtMatmulAlgo_t entrant[MDSK_CUDA_ENTRANTS]; /* that may win the next race */
    int entrants;                                     /* 0: no race is to come */
    double raced_at;                                  /* seconds of mdsk_cuda_seconds */
    float ms;                                         /* of one product; 0: not timed */
    float beside_ms; /* of what it would save: column sums, GELU; 0: not timed */
    int usable;      /* cuBLASLt has an algorithm */
};

/* Addresses of one product.  bias, aux: read or written by the epilogue, or NULL. */
struct mdsk_cuda_operands {
    const void *a, *b, *bias;
    void *c;
    const void *aux;
};

/* The shape of a product that neither flips nor adds, without epilogue. */
struct mdsk_cuda_shape mdsk_cuda_shape_of(int64_t m, int64_t n, int64_t k,
                                          enum mdsk_dtype in, enum mdsk_dtype out,
                                          const struct mdsk_cuda_operands *o);

/* The plan for a shape, made at its first use.  Whenever its algorithms race, these
 * operands' results are spoilt.  0 or -errno; of a plan that is not usable the rest
 * means nothing. */
int mdsk_cuda_find_plan(cudaStream_t stream, const struct mdsk_cuda_shape *s,
                        const struct mdsk_cuda_operands *o,
                        struct mdsk_cuda_plan **out);

/* What plan.c asks of cuBLASLt for the plan's shape: descriptions and entrants, of
 * which the first is taken. */
int mdsk_cuda_describe(struct mdsk_cuda_plan *p, const struct mdsk_cuda_operands *o);

int mdsk_cuda_multiply(cudaStream_t stream, const struct mdsk_cuda_plan *p,
                       const struct mdsk_cuda_operands *o);

/* Both, where there must be an algorithm. */
int mdsk_cuda_run(cudaStream_t stream, const struct mdsk_cuda_shape *s,
                  const struct mdsk_cuda_operands *o);

/* Chooses among the plan's entrants, with these operands: at a plan's first use; and,
 * hot, among those that were close, at the first use a second later. */
void mdsk_cuda_race(cudaStream_t stream, struct mdsk_cuda_plan *p,
                    const struct mdsk_cuda_operands *o);
void mdsk_cuda_race_hot(cudaStream_t stream, struct mdsk_cuda_plan *p,
                        const struct mdsk_cuda_operands *o);

/* Milliseconds of a piece of work that is repeated; negative if it fails. */
typedef int mdsk_cuda_work_fn(cudaStream_t stream, const void *what);
float mdsk_cuda_time(cudaStream_t stream, mdsk_cuda_work_fn *work, const void *what,
                     int times);

/* Whether anything may be timed now. */
int mdsk_cuda_can_race(cudaStream_t stream);

#endif
