/* Reading a checkpoint, in any layout: each rank the parts that it needs, from the
 * files that have them. */
#ifndef MDS_CKPT_READER_H
#define MDS_CKPT_READER_H

#include "ckpt/index.h"

struct mds_ckpt_reader;

/* The index is borrowed and outlives the reader.  Files are opened as they are needed.
 */
enum mds_rc mds_ckpt_reader_create(const struct mds_ckpt_index *ix,
                                   struct mds_ckpt_reader **out);
void mds_ckpt_reader_destroy(struct mds_ckpt_reader *r); /* NULL is fine */

/* Elements first .. first + n - 1 of a unit of `local`, a registry that
 * mds_ckpt_index_check_model has passed; gaps 0.  Rows of a larger padding of the
 * vocabulary get the start values of `seed`; their moments are 0.
 *
 * MDS_EUSER names the file that is missing, damaged, or of another save. */
enum mds_rc mds_ckpt_reader_fill(struct mds_ckpt_reader *r,
                                 const struct mds_params *local, uint64_t seed,
                                 enum mds_ckpt_what what, int unit, int64_t first,
                                 int64_t n, float *out);

/* A whole tensor [rows, cols]. */
enum mds_rc mds_ckpt_reader_whole(struct mds_ckpt_reader *r, enum mds_ckpt_what what,
                                  int64_t tensor, float *out);

/* Read everything in a rank's file, so that all checksums are compared. */
enum mds_rc mds_ckpt_reader_verify(struct mds_ckpt_reader *r, int64_t rank);

#endif
