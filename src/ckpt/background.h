/* SPDX-License-Identifier: BSD-3-Clause */
/* Saving beside the training: the ranks copy what they will write to memory and go on;
 * a thread of each writes it, which calls neither MPI nor HDF5.  The checkpoint gets
 * its name when all ranks have found, at some later poll, that all have written. */
#ifndef MDS_CKPT_BACKGROUND_H
#define MDS_CKPT_BACKGROUND_H

#include "ckpt/save.h"

struct mds_ckpt_background;

/* memory: room for 12 bytes of each element that this rank writes; borrowed. */
enum mds_rc mds_ckpt_background_create(void *memory, int64_t bytes,
                                       struct mds_ckpt_background **out);

/* Waits for the thread; a save that has no name yet gets none.  NULL is fine. */
void mds_ckpt_background_destroy(struct mds_ckpt_background *b);

/* Begin a save, where none is under way.  On return the source may change.  Collective;
 * failures are as mds_ckpt_save's. */
enum mds_rc mds_ckpt_background_start(struct mds_ckpt_background *b,
                                      const struct mds_ckpt_save *s);

/* Whether a save is under way: the same on all ranks. */
int mds_ckpt_background_busy(const struct mds_ckpt_background *b);

/* Look after the save under way, if there is one; wait: until it is over.  *iteration:
 * of the checkpoint that is there now, durable and named, or -1; *bytes of it, on the
 * first rank.  Collective; failures are as mds_ckpt_save's.  After one that is not of
 * files the thread may be at work still: neither b nor its memory may go. */
enum mds_rc mds_ckpt_background_poll(struct mds_ckpt_background *b, int wait,
                                     int64_t *iteration, int64_t *bytes);

#endif
