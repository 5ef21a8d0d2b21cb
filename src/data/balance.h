/* SPDX-License-Identifier: BSD-3-Clause */
/* Order the rows of a global batch so that ranks have about the same work.
 *
 * The order does not depend on the number of ranks: the rows are divided into two
 * halves of about the same cost, each half again, and so on.  So a power of two of
 * equal parts have about the same cost: those of data-parallel ranks, and the
 * micro-batches of each.  Other numbers of rows are divided by their prime factors. */
#ifndef MDS_DATA_BALANCE_H
#define MDS_DATA_BALANCE_H

#include "base/status.h"

#include <stdint.h>

struct mds_balance;

/* For batches of at most `most` rows. */
enum mds_rc mds_balance_create(int64_t most, struct mds_balance **out);
void mds_balance_destroy(struct mds_balance *b); /* NULL is fine */

/* [most]; of the rows of a batch to be filled before each call of mds_balance_order. */
double *mds_balance_costs(struct mds_balance *b);

/* [n]: the numbers of a batch's n rows in their new order, until the next call; the old
 * order if all costs are equal. */
const int64_t *mds_balance_order(struct mds_balance *b, int64_t n);

#endif
