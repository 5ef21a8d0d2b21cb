/* SPDX-License-Identifier: BSD-3-Clause */
/* A whole model's weights (or gradients) as one safetensors file in f32, with the
 * registry's names.  `whole` is the registry of the unsharded model, as a single rank
 * would have it. */
#ifndef MDS_CKPT_WEIGHTS_H
#define MDS_CKPT_WEIGHTS_H

#include "base/status.h"
#include "tensor/params.h"

struct mds_weights_writer;

enum mds_rc mds_weights_writer_create(const char *path, const struct mds_params *whole,
                                      struct mds_weights_writer **out);

/* Write the next parameter of the registry; values [rows, cols].  ctx is the writer. */
enum mds_rc mds_weights_writer_add(void *ctx, const struct mds_param *p,
                                   const float *values);

/* finish: complete the file.  abort: remove it; NULL is fine.  Both free w, also on
 * failure. */
enum mds_rc mds_weights_writer_finish(struct mds_weights_writer *w);
void mds_weights_writer_abort(struct mds_weights_writer *w);

struct mds_weights_reader;

/* MDS_EUSER names the first tensor that is missing, has the wrong shape or type, or is
 * not in the model.  Of rows of words `vocab` must be there: how many are padding
 * depends on the layout. */
enum mds_rc mds_weights_reader_open(const char *path, const struct mds_params *whole,
                                    int64_t vocab, struct mds_weights_reader **out);
void mds_weights_reader_close(struct mds_weights_reader *r); /* NULL is fine */

/* Read elements first .. first + n - 1 of a unit of `local`, one rank's registry; gaps
 * and padding become 0. */
void mds_weights_reader_fill(const struct mds_weights_reader *r,
                             const struct mds_params *local, int unit, int64_t first,
                             int64_t n, float *out);

#endif
