/* SPDX-License-Identifier: BSD-3-Clause */
/* A few arrays of one place, brought into memory piece by piece in order of units, so
 * that they can be changed there.
 *
 * Arrays in memory, the device's too, are where they are, and a piece is a whole shard.
 * Those in a file pass through a few buffers of host memory:
 *
 *   k + 1, k + 2   read ahead
 *   k              between mds_swap_in and mds_swap_out
 *   k - 1          being written
 *
 * What moves them are the file's own threads; one other at a time calls what is here,
 * but for create and destroy. */
#ifndef MDS_OPTIM_SWAP_H
#define MDS_OPTIM_SWAP_H

#include "optim/storage.h"

enum { ZERO_SWAP_ARRAYS = 3 };

struct zero_swap;

/* For array[ZERO_SWAP_ARRAYS], of 4-byte elements; borrowed. */
enum mds_rc mds_swap_create(struct zero_storage *s, const struct zero_array *array,
                            struct zero_swap **out);
void mds_swap_destroy(struct zero_swap *w); /* NULL is fine */

/* Start over: the next piece is the first one. */
enum mds_rc mds_swap_begin(struct zero_swap *w);

/* *p = the next piece, at at[] in memory. */
enum mds_rc mds_swap_in(struct zero_swap *w, struct zero_piece *p, float **at);

/* It was changed. */
void mds_swap_out(struct zero_swap *w);

/* Wait until the file has all that was changed.  What could not be written is lost:
 * then this and mds_swap_begin fail from then on. */
enum mds_rc mds_swap_wait(struct zero_swap *w);

#endif
