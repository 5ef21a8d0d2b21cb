/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to the optimizer states range by range, in the order of units.  States in
 * a file are swapped in and out through host memory (ZeRO-Infinity).
 *
 * Arrays in device or host memory are accessed in place; a range is a whole shard.
 * Ranges of arrays in a file pass through a few buffers in host memory:
 *
 *   k + 1, k + 2   being read ahead
 *   k              in use, between mds_swap_in and mds_swap_out
 *   k - 1          being written
 *
 * Reads and writes are done by threads of the file (io/).  Only one thread at a time
 * may call the functions below. */
#ifndef MDS_OPTIM_SWAP_H
#define MDS_OPTIM_SWAP_H

#include "optim/storage.h"

enum { ZERO_SWAP_ARRAYS = 3 };

struct zero_swap;

/* array[ZERO_SWAP_ARRAYS]: all in the same place, of 4-byte elements; borrowed. */
enum mds_rc mds_swap_create(struct zero_storage *s, const struct zero_array *array,
                            struct zero_swap **out);
void mds_swap_destroy(struct zero_swap *w); /* NULL is fine */

/* Start over: the next range is the first one. */
enum mds_rc mds_swap_begin(struct zero_swap *w);

/* *p = the next range; at[k] = address of its elements in array k. */
enum mds_rc mds_swap_in(struct zero_swap *w, struct zero_range *p, float **at);

/* The current range was changed: write it back. */
void mds_swap_out(struct zero_swap *w);

/* Wait until all changes are in the file.  After a failed write the states are lost,
 * and this function and mds_swap_begin fail from then on. */
enum mds_rc mds_swap_wait(struct zero_swap *w);

#endif
