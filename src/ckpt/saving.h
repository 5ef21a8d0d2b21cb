/* SPDX-License-Identifier: BSD-3-Clause */
/* A save in progress: what the blocking, background and serial saves have in common.
 * Private to ckpt/. */
#ifndef MDS_CKPT_SAVING_H
#define MDS_CKPT_SAVING_H

#include "ckpt/folder.h"
#include "ckpt/rank_file.h"
#include "ckpt/save.h"

struct mds_saving {
    struct mds_ckpt_save spec;  /* its strings and registries are valid only in begin */
    char folder[MDS_PATH_SIZE]; /* .partial */
    int64_t save, rank;
    struct mds_rank_file_plan plan;
    struct mds_rank_file *file; /* NULL: this rank has nothing to write */
    int64_t file_bytes;         /* of this rank's file */
    int64_t bytes;              /* of all files; on the first rank */
};

/* Create the folder, the ranks' files (without their values) and the index.
 * Collective. After a failure mds_saving_end need not be called. */
enum mds_rc mds_saving_begin(const struct mds_ckpt_save *spec, struct mds_saving *w);

/* Read elements at .. at + n - 1 of a list from the source. */
enum mds_rc mds_saving_read(const struct mds_saving *w,
                            const struct mds_rank_file_list *list, int64_t at,
                            int64_t n, float *out);

/* Write all lists from the source to this rank's file, durably. */
enum mds_rc mds_saving_write(const struct mds_saving *w);

/* Give the checkpoint its final name, after all ranks have written.  Rank 0 only, any
 * thread. */
enum mds_rc mds_saving_commit(const struct mds_saving *w);

/* Release everything; if rc is a failure, rank 0 also removes what was written. */
void mds_saving_end(struct mds_saving *w, enum mds_rc rc);

/* ---- the parts of begin ---- */

/* Create the folder, and choose the number of this save.  Rank 0 only. */
enum mds_rc mds_saving_make_folder(struct mds_saving *w);

/* Make this rank's plan and create its file. */
enum mds_rc mds_saving_lay_out(struct mds_saving *w);
void mds_saving_release_file(struct mds_saving *w);

/* Extend the index by the parts of a rank's file; *at is where to write them. */
enum mds_rc mds_saving_add_rank(struct mds_ckpt_index *ix, int64_t rank, int64_t parts,
                                int64_t bytes, struct mds_ckpt_part **at);

/* Write index.h5 with the parts of all ranks. */
enum mds_rc mds_saving_write_index(struct mds_saving *w, struct mds_ckpt_index *ix);

#endif
