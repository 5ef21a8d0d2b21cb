/* SPDX-License-Identifier: BSD-3-Clause */
/* One problem of attention, as kernels and as the whole matrix in double solve it. */
#ifndef TESTS_KERNELS_PROBLEM_H
#define TESTS_KERNELS_PROBLEM_H

#include "tests/kernels/check.h"

/* Relative Euclidean distance from the double reference. */
extern const struct tolerance {
    double o, lse, dq, dk, dv;
} tolerance;

/* What is allowed besides on GPUs, whose products take probabilities of 16 bits. */
double spare(enum mdsk_dtype t);

/* How the heads lie in memory. */
enum layout { PACKED, FUSED, HEAD_MAJOR };

/* Where documents begin: nowhere; lengths around those of tiles, other ones in each
 * sequence; one token each; all of the sequence. */
enum documents { JOINED, MIXED, SINGLE, WHOLE };

struct shape {
    int64_t B, A, G, Sq, Sk, D, q_offset, window;
    float p;
    enum layout layout;
    enum documents documents;
};

/* One problem.  Queries have A heads of Sq tokens, keys G heads of Sk; an array of
 * heads is a vec with the strides of its mdsk_heads. */
struct problem {
    struct mdsk_attention_shape s;
    struct vec q, k, v, o, lse, d_o, dq, dk, dv, delta;
    struct mdsk_heads at_q, at_k; /* strides alone */
    int32_t *start;               /* of s */
    int64_t lse_stride;
};

void problem_init(struct problem *p, const struct shape *c);
void problem_fini(struct problem *p);

/* An array of heads as a kernel of type t takes it. */
struct mdsk_heads heads(enum mdsk_dtype t, struct vec *x, struct mdsk_heads at);

/* By the backend's kernels. */
void run_fwd(struct problem *p);
void run_bwd(struct problem *p);

/* Of what q, k, v, o and d_o hold on the reference's side. */
void reference_fwd(struct problem *p);
void reference_bwd(struct problem *p);

#endif
