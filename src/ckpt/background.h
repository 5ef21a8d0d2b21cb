/* SPDX-License-Identifier: BSD-3-Clause */
/* Saving in the background (--async-save): each rank copies what it has to write to
 * host memory and goes on training, while a thread writes the copy without calling MPI
 * or HDF5.  Once a later poll finds that all ranks have written, the checkpoint is
 * renamed from .partial to its final name. */
#ifndef MDS_CKPT_BACKGROUND_H
#define MDS_CKPT_BACKGROUND_H

#include "ckpt/save.h"

struct mds_ckpt_background;

/* memory: 12 bytes for each element that this rank writes; borrowed. */
enum mds_rc mds_ckpt_background_create(void *memory, int64_t bytes,
                                       struct mds_ckpt_background **out);

/* Waits for the thread.  A save that is not complete is discarded.  NULL is fine. */
void mds_ckpt_background_destroy(struct mds_ckpt_background *b);

/* Begin a save; none may be in progress.  After it returns the source may change.
 * Collective; errors as for mds_ckpt_save. */
enum mds_rc mds_ckpt_background_start(struct mds_ckpt_background *b,
                                      const struct mds_ckpt_save *s);

/* Whether a save is in progress; the same on all ranks. */
int mds_ckpt_background_busy(const struct mds_ckpt_background *b);

/* Advance the save in progress, if there is one; wait: until it has finished.
 * *iteration: of the checkpoint that has just become complete and durable, or -1;
 * *bytes: its size, on rank 0.  Collective; errors as for mds_ckpt_save.  After an
 * error that is not a file error the thread may still be running: free neither b nor
 * its memory. */
enum mds_rc mds_ckpt_background_poll(struct mds_ckpt_background *b, int wait,
                                     int64_t *iteration, int64_t *bytes);

#endif
