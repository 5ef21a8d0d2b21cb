/* SPDX-License-Identifier: BSD-3-Clause */
/* Building a list: what declarations of models use, and passes.
 *
 * A declaration says what a block computes on one rank, for all of its rows, as if no
 * rows had to be exchanged: widths are those of this rank.  If a table is too short the
 * program is marked, and mds_block_check says so. */
#ifndef MDS_BLOCK_BUILD_H
#define MDS_BLOCK_BUILD_H

#include "block/program.h"

/* An empty program; rows, tile and act_bytes as in struct mds_step_list. */
void mds_step_list_init(struct mds_step_list *p, const int64_t rows[MDS_ROWS_KINDS],
                        const int64_t tile[MDS_ROWS_KINDS], int act_bytes);

mds_tid mds_add_tensor(struct mds_step_list *p, const char *name, enum mds_rows rows,
                       enum mds_elem elem, int64_t cols, int part);
/* The same shape as t; with shares, in its memory. */
mds_tid mds_add_like(struct mds_step_list *p, const char *name, mds_tid t, int shares);

/* Call t what `of` is called, with a prefix and a suffix. */
void mds_name_after(struct mds_step_list *p, mds_tid t, const char *prefix, mds_tid of,
                    const char *suffix);

/* A step at the end of the list; valid until the next is added.  layer: -1 for none. */
struct mds_step *mds_add_step(struct mds_step_list *p, enum mds_step_op op, int layer);

/* Insert a step before step `at`, or remove that step. */
void mds_insert_step(struct mds_step_list *p, int at, const struct mds_step *s);
void mds_remove_step(struct mds_step_list *p, int at);

/* The step that makes t; -1: none. */
int mds_step_that_makes(const struct mds_step_list *p, mds_tid t);

/* A step with no operands. */
struct mds_step mds_step_of(enum mds_step_op op, int layer);

/* ---- for declarations; the result is the tensor that the step makes ---- */

/* part: of the policy, for the result; statistics have rest. */
mds_tid mds_norm(struct mds_step_list *p, int layer, const char *name, mds_tid x,
                 int part, int rest);
mds_tid mds_linear(struct mds_step_list *p, int layer, const char *name,
                   enum mds_cut cut, int64_t cols, mds_tid x, int part);
/* One input, one output of `cols` columns; in x's memory if the operation must. */
mds_tid mds_unary(struct mds_step_list *p, enum mds_step_op op, const char *name,
                  mds_tid x, int64_t cols, int part);
mds_tid mds_dropout(struct mds_step_list *p, int site, mds_tid x);
mds_tid mds_add(struct mds_step_list *p, const char *name, mds_tid x, mds_tid y,
                int part);

#endif
