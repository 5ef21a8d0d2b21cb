/* SPDX-License-Identifier: BSD-3-Clause */
/* Execution plans of cuDNN for fused attention, one per problem. */
#ifndef MDSK_CUDA_CUDNN_PLAN_H
#define MDSK_CUDA_CUDNN_PLAN_H

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/cudnn_graph.h"

/* Ids of the tensors of a graph; a tensor's address has index id - 1. */
enum {
    MDSK_CUDNN_Q = 1,
    MDSK_CUDNN_K,
    MDSK_CUDNN_V,
    MDSK_CUDNN_O,
    MDSK_CUDNN_D_O,
    MDSK_CUDNN_DQ,
    MDSK_CUDNN_DK,
    MDSK_CUDNN_DV,
    MDSK_CUDNN_HEADS = MDSK_CUDNN_DV, /* the ids up to here are mdsk_heads */
    MDSK_CUDNN_LSE,                   /* [B,A,Sq] f32, packed, as the next */
    MDSK_CUDNN_DELTA,
    MDSK_CUDNN_DQ_SUM, /* [B,A,Sq,D] f32, packed */
    MDSK_CUDNN_SCALE,
    MDSK_CUDNN_HIDDEN,
    MDSK_CUDNN_ONE,
    MDSK_CUDNN_SHIFT,
    MDSK_CUDNN_LEFT,
    MDSK_CUDNN_BEFORE, /* what scores before the window become */
    MDSK_CUDNN_IDS = MDSK_CUDNN_BEFORE,
};

enum mdsk_cudnn_pass {
    MDSK_CUDNN_FORWARD,
    MDSK_CUDNN_BACKWARD,   /* dq is summed in any order */
    MDSK_CUDNN_REPEATABLE, /* backward, and the same bits every time */
};

/* Which keys j query i sees: all; j <= i; j <= i + shift. */
enum mdsk_cudnn_mask { MDSK_CUDNN_ALL, MDSK_CUDNN_TRIANGLE, MDSK_CUDNN_SHIFTED };

/* What a plan is for.  Compared bytewise: zero the struct before filling it in. */
struct mdsk_cudnn_problem {
    int32_t pass, mask, dtype;
    int32_t windowed; /* of these keys only those with j + left > i */
    int64_t B, A, G, Sq, Sk, D;
    int64_t stride[MDSK_CUDNN_HEADS][3]; /* by id - 1: of sequence, head, token */
};

/* Arguments of one execution: addresses by id - 1, and scalars. */
struct mdsk_cudnn_call {
    const struct mdsk_cudnn_problem *problem;
    void *data[MDSK_CUDNN_IDS];
    float scale, hidden, one; /* the last two are set by mdsk_cudnn_call */
    int32_t shift;
    float left;
};

/* Whether this GPU and this version of cuDNN are supported. */
int mdsk_cudnn_is_usable(void);

/* The plan for a problem, built at its first use, which takes up to a second; -ENOTSUP
 * if cuDNN has none.  Plans are never freed. */
int mdsk_cudnn_find(const struct mdsk_cudnn_problem *p,
                    const struct mdsk_cudnn_graph **out);

int mdsk_cudnn_call(cudaStream_t stream, const struct mdsk_cudnn_graph *graph,
                    struct mdsk_cudnn_call *c, void *workspace);

#endif
