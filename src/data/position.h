/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a run stands in each of its training files: what a checkpoint stores of the
 * data, as a text.  Its size depends on the number of files only.
 *
 * Sample i of a run is sample i - began of the mix, which is sample `start` + n of some
 * file, if that gave n samples to the mix before.  Where another mix begins, `began`
 * and `start` move, so that each file goes on where it stands. */
#ifndef MDS_DATA_POSITION_H
#define MDS_DATA_POSITION_H

#include "base/status.h"
#include "base/str.h"

#include <stdint.h>

struct mds_file_position {
    char *path;      /* as given */
    int64_t share;   /* slots in a period of the mix; 0: not in it any more */
    int64_t key;     /* the order of its samples follows from it */
    int64_t start;   /* its samples that were read before the mix began */
    int64_t samples; /* in an epoch */
    int64_t tokens, documents, hash; /* to tell it from others: data/fingerprint.h */
    int64_t modified;                /* when, in ns since 1970 */
};

struct mds_position {
    int64_t began; /* the run's sample with which the mix began */
    int n, mixed;  /* files, and how many of them are in the mix: the first */
    struct mds_file_position *file; /* [n] */
};

void mds_position_fini(struct mds_position *p);

/* A copy of f behind the others; MDS_EMEM. */
enum mds_rc mds_position_add(struct mds_position *p, const struct mds_file_position *f);

void mds_position_text(const struct mds_position *p, struct mds_str *out);

/* MDS_EUSER, naming `name`, for a text that mds_position_text cannot have written in a
 * run that had read `samples` samples. */
enum mds_rc mds_position_parse(const char *text, const char *name, int64_t samples,
                               struct mds_position *out);

/* Let the mix begin anew with the run's sample `sample`, after all before it. */
enum mds_rc mds_position_advance(struct mds_position *p, int64_t sample);

#endif
