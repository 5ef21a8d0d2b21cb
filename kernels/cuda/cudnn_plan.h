/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans for attention by cuDNN, and how they are run. */
#ifndef MDSK_CUDA_CUDNN_PLAN_H
#define MDSK_CUDA_CUDNN_PLAN_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn_graph.h"

/* Tensors of a graph, and their places among addresses. */
enum {
    MDSK_CUDNN_Q = 1,
    MDSK_CUDNN_K,
    MDSK_CUDNN_V,
    MDSK_CUDNN_O,
    MDSK_CUDNN_D_O,
    MDSK_CUDNN_DQ,
    MDSK_CUDNN_DK,
    MDSK_CUDNN_DV,
    MDSK_CUDNN_HEADS = MDSK_CUDNN_DV, /* so far they have heads and tokens */
    MDSK_CUDNN_LSE,                   /* [B,A,Sq] f32, packed, as the next */
    MDSK_CUDNN_DELTA,
    MDSK_CUDNN_DQ_SUM, /* [B,A,Sq,D] f32, packed */
    MDSK_CUDNN_SCALE,
    MDSK_CUDNN_HIDDEN,
    MDSK_CUDNN_ONE,
    MDSK_CUDNN_SHIFT,
    MDSK_CUDNN_IDS = MDSK_CUDNN_SHIFT,
};

enum mdsk_cudnn_pass {
    MDSK_CUDNN_FORWARD,
    MDSK_CUDNN_BACKWARD,   /* dq is summed in any order */
    MDSK_CUDNN_REPEATABLE, /* backward, and the same bits every time */
};

/* Which keys a query i sees: all; j <= i; j <= i + shift. */
enum mdsk_cudnn_mask { MDSK_CUDNN_ALL, MDSK_CUDNN_TRIANGLE, MDSK_CUDNN_SHIFTED };

/* What a plan is for.  Compared bytewise: zero it first. */
struct mdsk_cudnn_problem {
    int32_t pass, mask, dtype, unused;
    int64_t B, A, G, Sq, Sk, D;
    int64_t stride[MDSK_CUDNN_HEADS][3]; /* by id - 1: of sequence, head, token */
};

/* One run: addresses by id - 1, and numbers. */
struct mdsk_cudnn_call {
    const struct mdsk_cudnn_problem *problem;
    void *data[MDSK_CUDNN_IDS];
    float scale, hidden, one; /* the last two are run's */
    int32_t shift;
};

/* Whether this GPU and this version of cuDNN will do. */
int mdsk_cudnn_is_usable(void);

/* The plan for a problem, made at its first use (that takes up to a second);
 * -ENOTSUP if cuDNN has none.  It stays. */
int mdsk_cudnn_find(const struct mdsk_cudnn_problem *p,
                    const struct mdsk_cudnn_graph **out);

int mdsk_cudnn_call(cudaStream_t stream, const struct mdsk_cudnn_graph *graph,
                    struct mdsk_cudnn_call *c, void *workspace);

#endif
