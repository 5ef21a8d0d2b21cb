/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for cuDNN and for what cudnn_attention.c calls of the backend.  It finds
 * its tensors by the addresses and strides of each call, and computes the call on the
 * cpu. */
#ifndef TESTS_KERNELS_FAKE_CUDNN_H
#define TESTS_KERNELS_FAKE_CUDNN_H

#include "kernels/cuda/cudnn_plan.h"

enum { FAKE_CALLS = 128 };

struct fake_cudnn {
    int computes; /* 0: only record the calls */
    int repeatable, capability;
    /* what was done */
    int calls, merges, own; /* calls of cuDNN, and of the project's own kernels */
    struct mdsk_cudnn_problem problem[FAKE_CALLS];
    struct mdsk_cudnn_call call[FAKE_CALLS];
    char *scratch, *window; /* for MDSK_CUDA_ATTEND, MDSK_CUDA_WINDOW */
    int64_t scratch_bytes, most_scratch, most_window;
};

extern struct fake_cudnn fake;

/* Forget all calls; compute, on a GPU of capability 90. */
void fake_cudnn_reset(void);

/* The address of a tensor of a call. */
void *fake_cudnn_address(const struct mdsk_cudnn_call *c, int id);

#endif
