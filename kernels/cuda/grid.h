/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes of grids: arithmetic only, so it can be tested without a GPU. */
#ifndef MDSK_CUDA_GRID_H
#define MDSK_CUDA_GRID_H

#include <limits.h>
#include <stdint.h>

/* The first dimension of a grid of n blocks; if n is too large, a number for which the
 * launch fails. */
static inline unsigned mdsk_cuda_blocks(int64_t n)
{
    return n > INT_MAX ? UINT_MAX : (unsigned)n;
}

/* n blocks in the second dimension, which is limited to 65535, and if necessary the
 * third: block (y, z) is number z * *in_y + y, and fewer than *in_z blocks are left
 * over. */
static inline void mdsk_cuda_fold(int64_t n, unsigned *in_y, unsigned *in_z)
{
    const int64_t most = 65535;
    int64_t z = (n + most - 1) / most;

    *in_y = mdsk_cuda_blocks((n + z - 1) / z);
    *in_z = mdsk_cuda_blocks(z);
}

#endif
