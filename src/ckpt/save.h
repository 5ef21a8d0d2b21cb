/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a checkpoint: every rank its own file, the first one the index. */
#ifndef MDS_CKPT_SAVE_H
#define MDS_CKPT_SAVE_H

#include "ckpt/rank_file.h"

struct mds_ckpt_save {
    const char *dir;
    struct mds_comm *world;
    const struct mds_params *whole; /* registry of the whole model */
    const struct mds_params *local; /* this rank's; duplicates are not written */
    struct mds_ckpt_source source;
    struct mds_ckpt_state state;
    /* Texts of lines; the first rank's count. */
    const char *configuration, *provenance;
};

/* Write dir/iter_*, durably, and let dir/latest name it.  Collective over the world.
 * Where files fail all ranks do, and what was there before is there still, and `latest`
 * names it; any other failure may be this rank's alone, and is for ending the program.
 * *bytes: of all files, on the first rank. */
enum mds_rc mds_ckpt_save(const struct mds_ckpt_save *s, int64_t *bytes);

/* The ranks of a layout, played one after the other by a single process. */
struct mds_ckpt_cast {
    void *ctx;
    int64_t ranks;
    /* A rank's registry and values, which live until the next call. */
    enum mds_rc (*play)(void *ctx, int64_t rank, const struct mds_params **local,
                        struct mds_ckpt_source *source);
};

/* The same files without the ranks; s->world, local and source are not looked at. */
enum mds_rc mds_ckpt_save_alone(const struct mds_ckpt_save *s,
                                const struct mds_ckpt_cast *cast, int64_t *bytes);

#endif
