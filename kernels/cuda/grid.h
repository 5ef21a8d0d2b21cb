/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of grids: arithmetic only. */
#ifndef MDSK_CUDA_GRID_H
#define MDSK_CUDA_GRID_H

#include <limits.h>
#include <stdint.h>

/* n blocks in a grid's first dimension; what no grid can hold becomes a number that the
 * launch refuses. */
static inline unsigned mdsk_cuda_blocks(int64_t n)
{
    return n > INT_MAX ? UINT_MAX : (unsigned)n;
}

/* n blocks in its second, which holds 65535, and as few as that takes in its third:
 * block (y, z) is the z * *in_y + y-th, and fewer than *in_z of them are behind the
 * n-th. */
static inline void mdsk_cuda_fold(int64_t n, unsigned *in_y, unsigned *in_z)
{
    const int64_t most = 65535;
    int64_t z = (n + most - 1) / most;

    *in_y = mdsk_cuda_blocks((n + z - 1) / z);
    *in_z = mdsk_cuda_blocks(z);
}

#endif
