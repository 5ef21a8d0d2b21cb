/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a checkpoint: every rank writes its own file, rank 0 also the index. */
#ifndef MDS_CKPT_SAVE_H
#define MDS_CKPT_SAVE_H

#include "ckpt/rank_file.h"

struct mds_ckpt_save {
    const char *dir;
    struct mds_comm *world;
    const struct mds_params *whole; /* registry of the unsharded model */
    const struct mds_params *local; /* this rank's registry */
    struct mds_ckpt_source source;
    struct mds_ckpt_state state;
    /* Texts of lines; only rank 0's are used, and data may be NULL. */
    const char *configuration, *provenance, *data;
};

/* Write dir/iter_* durably and let dir/latest name it.  Collective over the world.
 *
 * A file error is returned on all ranks; earlier checkpoints and `latest` are then
 * unchanged.  Any other error may be on this rank only, and the program has to end.
 * *bytes: size of all files, on rank 0. */
enum mds_rc mds_ckpt_save(const struct mds_ckpt_save *s, int64_t *bytes);

/* The ranks of a layout, for writing all their files one after the other in a single
 * process. */
struct mds_ckpt_serial_ranks {
    void *ctx;
    int64_t ranks;
    /* Get a rank's registry and values, which live until the next call. */
    enum mds_rc (*get_rank)(void *ctx, int64_t rank, const struct mds_params **local,
                            struct mds_ckpt_source *source);
};

/* Write the files that these ranks would write.  s->world, local and source are not
 * used. */
enum mds_rc mds_ckpt_save_serial(const struct mds_ckpt_save *s,
                                 const struct mds_ckpt_serial_ranks *ranks,
                                 int64_t *bytes);

#endif
