/* SPDX-License-Identifier: BSD-3-Clause */
/* What test programs on several ranks share: ranks that start together, checks that
 * hold on all of them, and numbers to compute with. */
#ifndef TESTS_MPI_RANKS_H
#define TESTS_MPI_RANKS_H

#include "comm/comm.h"
#include "transport/world.h"

#include <stddef.h>
#include <stdint.h>

extern struct mds_world world;
extern struct mds_comm *all; /* every rank, in order */

/* Starts MPI and creates all. */
void ranks_init(void);

/* Prints the plan and the hash of all results; the program's exit status. */
int ranks_fini(void);

/* End the run with what failed. */
void quit(const char *what);
void must(enum mds_rc rc, const char *what);

/* A check passes if it does on every rank. */
void check(int bad, const char *name);

/* Blocking. */
void reduce_scatter(struct mds_comm *c, const void *in, void *out, int64_t per_rank,
                    enum mdsk_dtype t, void *work);

void nap(int ms);

/* Rank r's i-th number: sums of them round differently in any other order. */
float number(int r, int64_t i);
void fill(float *buf, int r, int64_t n);

/* What all ranks make of their i-th numbers, in rank order, in float. */
float expected(int64_t i);

/* How many of buf[n], which begins at the i0-th number, are not the expected bits, or
 * are far from the sum in double. */
int wrong(const float *buf, int64_t i0, int64_t n);

void hash_bytes(const void *p, size_t n);

#endif
