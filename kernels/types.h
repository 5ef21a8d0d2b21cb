/* SPDX-License-Identifier: BSD-3-Clause */
/* Types shared by all operations. */
#ifndef MDSK_TYPES_H
#define MDSK_TYPES_H

#include <stddef.h>
#include <stdint.h>

enum mdsk_dtype {
    MDSK_F32,
    MDSK_BF16,
    MDSK_F16,
    MDSK_I32,
    MDSK_F64,
    MDSK_E4M3, /* codes of fp8.h */
    MDSK_E5M2,
};

static inline size_t mdsk_dtype_size(enum mdsk_dtype t)
{
    static const unsigned char size[] = {4, 2, 2, 4, 8, 1, 1};

    return size[t];
}

/* The minimum that an operation must do.  flops: those of GEMMs only, two per
 * multiply-add, as is customary; bytes: each input read once, each output written
 * once. */
struct mdsk_cost {
    double flops;
    double bytes;
};

/* The key of dropout's random numbers.  p is the probability that an element is
 * dropped, 0 <= p < 1; 0 means no dropout.  site identifies the dropout within the
 * model (layer and position in it), step the optimizer step. */
struct mdsk_dropout_key {
    float p;
    uint64_t seed;
    uint32_t site;
    uint32_t step;
};

/* The logical tokens in the rows of a shard.  Rows are sequence-major: row r = s*B + b
 * is token first_token + s of sample first_sample + b of the whole training. */
struct mdsk_rows {
    int64_t B, S;
    int64_t first_sample;
    int64_t first_token;
};

#endif
