/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a checkpoint into any layout: each rank reads the parts that it needs from
 * whichever files have them. */
#ifndef MDS_CKPT_READER_H
#define MDS_CKPT_READER_H

#include "ckpt/index.h"
#include "config/config.h"

struct mds_ckpt_reader;

/* The index is borrowed and must outlive the reader.  Files are opened on demand.
 * alone: no other process reads the same data now, so the page cache may be bypassed.
 */
enum mds_rc mds_ckpt_reader_create(const struct mds_ckpt_index *ix, int alone,
                                   struct mds_ckpt_reader **out);
void mds_ckpt_reader_destroy(struct mds_ckpt_reader *r); /* NULL is fine */
/* Host memory that a reader takes at most. */
int64_t mds_ckpt_reader_bytes(void);

/* Read for a model of `words` words.  If the checkpoint has less, rows of the others
 * have no moments, and begin as `how` says: by their initial values, or each with the
 * mean of the checkpoint's rows. */
void mds_ckpt_reader_resize(struct mds_ckpt_reader *r, int64_t words,
                            enum mds_resize how);

/* Read for a model in which parameters have other names, or that the checkpoint lacks:
 * `find` writes the checkpoint's name of one.  What is not there begins with its
 * initial values, without moments. */
typedef void mds_ckpt_find_name(const char *name, char out[64]);
void mds_ckpt_reader_rename(struct mds_ckpt_reader *r, mds_ckpt_find_name *find);

const struct mds_ckpt_index *mds_ckpt_reader_index(const struct mds_ckpt_reader *r);

/* Read elements first .. first + n - 1 of a unit of `local`, a registry that
 * mds_ckpt_index_check_model has accepted, as f32; gaps become 0.  Vocabulary padding
 * rows that the checkpoint does not have get initial values from `seed` and moments 0.
 *
 * MDS_EUSER names the file that is missing, damaged, or of another save. */
enum mds_rc mds_ckpt_reader_fill(struct mds_ckpt_reader *r,
                                 const struct mds_params *local, uint64_t seed,
                                 enum mds_ckpt_what what, int unit, int64_t first,
                                 int64_t n, float *out);

/* Read a rectangle of a whole tensor, row-major.  Of *part only row, rows, col and cols
 * are used. */
enum mds_rc mds_ckpt_reader_part(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                                 int64_t tensor, const struct mds_ckpt_part *part,
                                 float *out);

/* Iterate over a tensor by whole rows: advance *part (zeroed at first) to the next
 * rows, as many as fit into `elements` elements, but at least one.  Returns 0 after the
 * last. */
int mds_ckpt_next_rows(const struct mds_ckpt_tensor *t, int64_t elements,
                       struct mds_ckpt_part *part);

/* Size of a buffer for that, in elements: at least a row of every tensor, and enough
 * for efficient reads. */
int64_t mds_ckpt_rows_buffer(const struct mds_ckpt_index *ix);

/* Read all of a rank's file and compare every checksum. */
enum mds_rc mds_ckpt_reader_verify(struct mds_ckpt_reader *r, int64_t rank);

#endif
