/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a checkpoint, in any layout: each rank the parts that it needs, from the
 * files that have them. */
#ifndef MDS_CKPT_READER_H
#define MDS_CKPT_READER_H

#include "ckpt/index.h"

struct mds_ckpt_reader;

/* The index is borrowed and outlives the reader.  Files are opened as they are needed.
 * alone: no other process reads the same now, so that the page cache may be left out.
 */
enum mds_rc mds_ckpt_reader_create(const struct mds_ckpt_index *ix, int alone,
                                   struct mds_ckpt_reader **out);
void mds_ckpt_reader_destroy(struct mds_ckpt_reader *r); /* NULL is fine */
/* Host memory that a reader takes at most. */
int64_t mds_ckpt_reader_bytes(void);

const struct mds_ckpt_index *mds_ckpt_reader_index(const struct mds_ckpt_reader *r);

/* Elements first .. first + n - 1 of a unit of `local`, a registry that
 * mds_ckpt_index_check_model has passed; gaps 0.  Rows of a larger padding of the
 * vocabulary get the start values of `seed`; their moments are 0.
 *
 * MDS_EUSER names the file that is missing, damaged, or of another save. */
enum mds_rc mds_ckpt_reader_fill(struct mds_ckpt_reader *r,
                                 const struct mds_params *local, uint64_t seed,
                                 enum mds_ckpt_what what, int unit, int64_t first,
                                 int64_t n, float *out);

/* Rows and columns of a whole tensor, row after row; only part's row, rows, col and
 * cols count. */
enum mds_rc mds_ckpt_reader_part(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                                 int64_t tensor, const struct mds_part *part,
                                 float *out);

/* From part, zeroed at first, on to the next whole rows of a tensor, as many as
 * `elements` numbers hold (one at least): 0 after the last. */
int mds_ckpt_next_rows(const struct mds_ckpt_tensor *t, int64_t elements,
                       struct mds_part *part);

/* Numbers that hold a row of every tensor, and enough of them to read well. */
int64_t mds_ckpt_rows_room(const struct mds_ckpt_index *ix);

/* Read everything in a rank's file, so that all checksums are compared. */
enum mds_rc mds_ckpt_reader_verify(struct mds_ckpt_reader *r, int64_t rank);

#endif
