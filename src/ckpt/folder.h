/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of a run's checkpoints:
 *
 *     latest                    one line: the name of the newest checkpoint
 *     good                      one line: the newest checkpoint after which a step had
 *                               finite loss and gradient; absent until there is one
 *     evaluated                 one line: the newest checkpoint with validation
 *     iter_0000100/             a complete checkpoint; never changed again
 *         index.h5              every tensor as a whole, and where its parts are
 *         rank_00000.h5 ...     the parts
 *     iter_0000200.partial/     being written, or left by a run that died; ignored by
 *                               readers
 *     iter_0000200.old/         was being replaced when a run died, on a file system
 *                               that cannot exchange two names atomically
 *     .lock                     which process saves here (ckpt/folder_lock.h)
 *
 * Functions that write must be called by one rank only. */
#ifndef MDS_CKPT_FOLDER_H
#define MDS_CKPT_FOLDER_H

#include "base/status.h"
#include "io/folder.h"

#include <stdint.h>

/* "dir/iter_0000100", "dir/iter_0000100.partial". */
enum mds_rc mds_ckpt_path(const char *dir, int64_t iteration, int partial,
                          char path[MDS_PATH_SIZE]);

/* "path/rank_00007.h5"; rank -1: "path/index.h5". */
enum mds_rc mds_ckpt_file(const char *path, int64_t rank, char file[MDS_PATH_SIZE]);

/* Iterations of the complete checkpoints, ascending; owned by the caller.  *n is 0 if
 * there is no folder. */
enum mds_rc mds_ckpt_list(const char *dir, int64_t **iterations, int64_t *n);

/* *more: how many more checkpoints the disk must have space for, if `saves` (at least
 * 1) will be written and the newest keep_last kept (0: all).  An old one is removed
 * only after the new one is complete. */
enum mds_rc mds_ckpt_count_to_store(const char *dir, int64_t keep_last, int64_t saves,
                                    int64_t *more);

/* Bytes of a checkpoint without its index: weights and both moments in f32. */
static inline double mds_ckpt_bytes(double parameters)
{
    return 3.0 * sizeof(float) * parameters;
}

/* The checkpoint that `latest` names; if it is missing or damaged, the newest; -1 if
 * there is none. */
enum mds_rc mds_ckpt_latest(const char *dir, int64_t *iteration);

/* The checkpoint that `good` names; -1 if there is none, or it is damaged. */
enum mds_rc mds_ckpt_good(const char *dir, int64_t *iteration);

/* Let `good` name this one: a step after it had a finite loss and gradient. */
enum mds_rc mds_ckpt_mark_good(const char *dir, int64_t iteration);

/* The same of `evaluated`: the run has evaluated validation there. */
enum mds_rc mds_ckpt_evaluated(const char *dir, int64_t *iteration);
enum mds_rc mds_ckpt_mark_evaluated(const char *dir, int64_t iteration);

/* The newest checkpoint before `iteration`; -1 if there is none. */
enum mds_rc mds_ckpt_previous(const char *dir, int64_t iteration, int64_t *before);

/* Create the folder if need be, check that it can be written, and lock it
 * (ckpt/folder_lock.h).  An iter_*.old gets its name back unless that is in use again.
 */
enum mds_rc mds_ckpt_prepare(const char *dir);

/* Create an empty iter_*.partial, and remove leftover ones; those that cannot be
 * removed only cause a warning.  dir is created again if it has disappeared. */
enum mds_rc mds_ckpt_begin(const char *dir, int64_t iteration);

/* Rename iter_*.partial to its final name, durably, and let `latest` name it.  An
 * existing checkpoint of that iteration is replaced; if the old files cannot be
 * removed, warn. */
enum mds_rc mds_ckpt_commit(const char *dir, int64_t iteration);

/* Remove iter_*.partial as far as possible.  Keeps mds_fail's message, which says why
 * the save failed. */
void mds_ckpt_abandon(const char *dir, int64_t iteration);

/* Remove all but the newest keep_last checkpoints (0: keep all), those whose iteration
 * is a multiple of keep_every (0: none is), and those that `latest` and `good` name.
 * *found and *removed (may be NULL): how many there were and how many were removed;
 * dry: only count.  If one cannot be removed, the others are, and then this fails. */
enum mds_rc mds_ckpt_prune(const char *dir, int64_t keep_last, int64_t keep_every,
                           int dry, int64_t *found, int64_t *removed);

#endif
