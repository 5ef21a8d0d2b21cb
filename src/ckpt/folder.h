/* SPDX-License-Identifier: BSD-3-Clause */
/* The folder of a run's checkpoints:
 *
 *     latest                    a line: the name of the newest checkpoint
 *     good                      the same of the last one from which steps were seen to
 *                               be finite; not there until there is one
 *     iter_0000100/             complete; never changed again
 *         index.h5              every tensor whole, and where its parts are
 *         rank_00000.h5 ...     the parts
 *     iter_0000200.partial/     being written, or left by a run that died; nobody
 *                               looks at it
 *     iter_0000200.old/         was about to be replaced when a run died, on a file
 *                               system where names cannot change places
 *     .lock                     whose process saves here (ckpt/claim.h)
 *
 * Functions that write are for one rank. */
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

/* Iterations of the complete checkpoints, ascending; the caller's to free.  None, if
 * there is no folder. */
enum mds_rc mds_ckpt_list(const char *dir, int64_t **iterations, int64_t *n);

/* For how many more there must be room if `saves` are to come (at least 1) and the
 * newest keep_last stay (0: all do): a new one is complete before an old one goes. */
enum mds_rc mds_ckpt_to_come(const char *dir, int64_t keep_last, int64_t saves,
                             int64_t *more);

/* Bytes of one, but for its index: weights and both moments, f32. */
static inline double mds_ckpt_bytes(double parameters)
{
    return 3.0 * sizeof(float) * parameters;
}

/* The one that `latest` names, or without that the newest; -1 if there is none. */
enum mds_rc mds_ckpt_latest(const char *dir, int64_t *iteration);

/* The one that `good` names; -1 if there is none. */
enum mds_rc mds_ckpt_good(const char *dir, int64_t *iteration);

/* A step from this one had a finite loss and gradient. */
enum mds_rc mds_ckpt_mark_good(const char *dir, int64_t iteration);

/* The newest below `iteration`; -1 if there is none. */
enum mds_rc mds_ckpt_before(const char *dir, int64_t iteration, int64_t *before);

/* The folder is there and can be written, by this process alone (ckpt/claim.h): made if
 * need be.  An iter_*.old gets its name back, unless another has it now. */
enum mds_rc mds_ckpt_prepare(const char *dir);

/* An empty iter_*.partial, and no other, as far as others can be removed.  The folder
 * is made again if it is gone. */
enum mds_rc mds_ckpt_begin(const char *dir, int64_t iteration);

/* Give it its name, for good, and move `latest`.  A checkpoint of that iteration that
 * was there is replaced, and removed as far as that works. */
enum mds_rc mds_ckpt_commit(const char *dir, int64_t iteration);

/* Remove the .partial, as far as that works.  mds_fail's text, which says why there is
 * no checkpoint, stays. */
void mds_ckpt_abandon(const char *dir, int64_t iteration);

/* Remove all but the newest keep_last checkpoints (0: keep all), those whose iteration
 * is a multiple of keep_every (0: none is), and those that `latest` and `good` name.
 * *found, if not NULL, is how many there were, *removed how many of them went; dry:
 * only count.  One that cannot be removed is a failure after the others are. */
enum mds_rc mds_ckpt_prune(const char *dir, int64_t keep_last, int64_t keep_every,
                           int dry, int64_t *found, int64_t *removed);

#endif
