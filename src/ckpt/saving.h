/* SPDX-License-Identifier: BSD-3-Clause */
/* A save under way: what saving at once, alone and in the background share.  For ckpt/
 * alone. */
#ifndef MDS_CKPT_SAVING_H
#define MDS_CKPT_SAVING_H

#include "ckpt/folder.h"
#include "ckpt/rank_file.h"
#include "ckpt/save.h"

struct mds_saving {
    struct mds_ckpt_save spec;  /* of its strings and registries none outlives begin */
    char folder[MDS_PATH_SIZE]; /* .partial */
    int64_t save, rank;
    struct mds_rank_file_plan plan;
    struct mds_rank_file *file; /* NULL: this rank has nothing to write */
    int64_t file_bytes;         /* of this rank's file */
    int64_t bytes;              /* of all files; on the first rank */
};

/* All but the numbers: the folder, the ranks' files laid out, and the index.
 * Collective; after a failure there is nothing left to end. */
enum mds_rc mds_saving_begin(const struct mds_ckpt_save *spec, struct mds_saving *w);

/* Some elements of a list from the source. */
enum mds_rc mds_saving_read(const struct mds_saving *w,
                            const struct mds_rank_file_list *list, int64_t at,
                            int64_t n, float *out);

/* All lists from the source into this rank's file, durably. */
enum mds_rc mds_saving_write(const struct mds_saving *w);

/* Give the checkpoint its name, where all ranks have written.  For the first rank, in
 * any thread. */
enum mds_rc mds_saving_commit(const struct mds_saving *w);

/* Forget everything; after a failure, rc, the first rank removes what was written. */
void mds_saving_end(struct mds_saving *w, enum mds_rc rc);

/* ---- the parts of begin ---- */

/* The folder, and a number for this save.  For the first rank. */
enum mds_rc mds_saving_make_folder(struct mds_saving *w);

/* This rank's plan and file. */
enum mds_rc mds_saving_lay_out(struct mds_saving *w);
void mds_saving_forget_file(struct mds_saving *w);

/* Room at the end of the index for the parts of a rank's file; *at is where they go. */
enum mds_rc mds_saving_add_rank(struct mds_ckpt_index *ix, int64_t rank, int64_t parts,
                                int64_t bytes, struct mds_part **at);

/* The index with the parts of all ranks. */
enum mds_rc mds_saving_write_index(struct mds_saving *w, struct mds_ckpt_index *ix);

#endif
