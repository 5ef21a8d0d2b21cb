/* SPDX-License-Identifier: BSD-3-Clause */
/* Start values: normal numbers that are the same wherever they are made. */
#ifndef MDSK_NORMAL_H
#define MDSK_NORMAL_H

#include <stdint.h>

/* out[r cols + c] = std * number (first + r stride + c) of the stream `key`.
 *
 *   rows, cols >= 0;  first >= 0;  out [rows, cols] f32 in host memory
 *
 * Number 4 b + w is the w-th that Box and Muller 1958 make of Philox's block b under
 * `key` (philox.h), in double, rounded once.  By as many threads as the cpu backend
 * has. */
struct mdsk_normal {
    uint64_t key;
    double std;
    int64_t first, stride;
    int64_t rows, cols;
    float *out;
};

void mdsk_normal_fill(const struct mdsk_normal *a);

#endif
