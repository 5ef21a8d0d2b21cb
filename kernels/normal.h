/* SPDX-License-Identifier: BSD-3-Clause */
/* Initial weights: normal random numbers that do not depend on who generates them. */
#ifndef MDSK_NORMAL_H
#define MDSK_NORMAL_H

#include <stdint.h>

/* out[r cols + c] = std * number (first + r stride + c) of the stream `key`.
 *
 *   rows, cols >= 0;  first >= 0;  out [rows, cols] f32 in host memory
 *
 * Number 4 b + w is the w-th that the Box-Muller transform (1958) makes of Philox's
 * block b under `key` (philox.h), in double, rounded once.  Uses all threads of the cpu
 * backend. */
struct mdsk_normal {
    uint64_t key;
    double std;
    int64_t first, stride;
    int64_t rows, cols;
    float *out;
};

void mdsk_normal_fill(const struct mdsk_normal *a);

#endif
