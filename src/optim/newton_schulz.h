/* SPDX-License-Identifier: BSD-3-Clause */
/* Newton-Schulz iterations: a matrix whose singular values are brought near 1.
 * Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon. */
#ifndef MDS_OPTIM_NEWTON_SCHULZ_H
#define MDS_OPTIM_NEWTON_SCHULZ_H

#include "device/device.h"

/* Working memory for matrices of the same shape, n elements together, whose Gram
 * matrices have g together. */
struct newton_schulz {
    enum mdsk_dtype dtype;
    double *squares;  /* of one matrix */
    float *direction; /* [n]: what is orthogonalised, one matrix after the other */
    void *x, *y;      /* [n] of dtype: the iterate and the next one, in turn */
    void *pair;       /* the lower of the two, the first of 4 n bytes */
    void *gram, *mix; /* [g] of dtype: Gram matrix; b gram + c gram^2 */
};

/* Lay it out from `at` on; returns where it ends. */
char *mds_newton_schulz_lay_out(struct newton_schulz *w, char *at, int64_t n, int64_t g,
                                enum mdsk_dtype dtype);

/* w->x = w->direction [batch, R, C] orthogonalised.  w->y is free then. */
enum mds_rc mds_newton_schulz(struct mds_dev *dev, struct newton_schulz *w,
                              int64_t batch, int64_t R, int64_t C, int64_t steps);

/* FLOPs of a step for one matrix. */
double mds_newton_schulz_flops(int64_t R, int64_t C);

#endif
