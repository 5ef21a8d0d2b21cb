/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptions of tensors for Hopper's copy engine (TMA), made on the host. */
#ifndef MDSK_HOPPER_TENSOR_MAP_H
#define MDSK_HOPPER_TENSOR_MAP_H

#include <cuda.h>

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the copy engine can address B sequences of `heads` heads of x: 16-bit
 * elements, 16-byte alignment, strides below 2^40 bytes, tokens below 2^31. */
int mdsk_tensor_map_can(const struct mdsk_heads *x, int64_t B, int64_t heads,
                        int64_t tokens, int64_t D);

/* *map = x as a tensor [B, heads, tokens, D] of 16-bit dtype, read or written in boxes
 * of `rows` (at most 256) tokens and 64 elements: the panels of ptx.cuh.  Coordinates,
 * innermost first: element, token, head, sequence.  0, or -EIO with an error text. */
int mdsk_tensor_map_heads(CUtensorMap *map, const struct mdsk_heads *x, int64_t B,
                          int64_t heads, int64_t tokens, int64_t D,
                          enum mdsk_dtype dtype, int rows);

/* *map = a tensor of f32 or 16-bit elements; dim, box innermost first; stride, in
 * elements, of the dimensions but the innermost.  swizzled: rows of at most 128 bytes,
 * as in ptx.cuh; otherwise boxes are packed. */
int mdsk_tensor_map(CUtensorMap *map, enum mdsk_dtype dtype, void *data,
                    const int64_t dim[4], const int64_t stride[3], const int box[4],
                    int swizzled);

#ifdef __cplusplus
}
#endif

#endif
