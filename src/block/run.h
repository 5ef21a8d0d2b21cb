/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a list.  The caller performs the operations; this file finds operands, gives
 * each operation the working memory above what is in use for its scratch, and waits for
 * messages. */
#ifndef MDS_BLOCK_RUN_H
#define MDS_BLOCK_RUN_H

#include "block/program.h"
#include "device/arena.h"

/* A step that runs: the addresses of its operands, NULL for what there is not.  In a
 * loop those of the slice's rows are the tile's, whether the tensor has all rows or
 * not; others are where the tensor begins. */
struct mds_block_call {
    const struct mds_step_list *list;
    const struct mds_step *step;
    void *in[MDS_STEP_IN], *out[MDS_STEP_OUT];
};

typedef enum mds_rc mds_perform_fn(void *ctx, const struct mds_block_call *call);

/* One run of a list. */
struct mds_block_frame {
    /* Of working memory: what is allocated here when the run begins stays; the list's
     * and the operations' is above it. */
    struct mds_arena *arena;
    char *saved; /* the block's, saved_bytes */
    void *arg[MDS_ARGS];
    /* Enter the tile whose first row of the slice is `row`, and return the row behind
     * it; behind the last tile leave the loop and return 0. */
    int64_t (*enter_tile)(void *ctx, int64_t row);
    /* Work on one group of heads; -1: on all. */
    void (*enter_group)(void *ctx, int group);
    /* set by mds_block_run: */
    int64_t row; /* of the tile */
    int is_last_group;
    int is_sum; /* the stream before the block is x already: there is no branch */
    mds_perform_fn *const *perform; /* [MDS_STEP_OPS] */
    enum mds_rc (*wait)(void *ctx, int message);
    void *ctx;
};

enum mds_rc mds_block_run(const struct mds_step_list *p,
                          const struct mds_block_frame *f);

/* Where a tensor of the list is if working memory begins at work. */
void *mds_block_address(const struct mds_step_list *p, const struct mds_block_frame *f,
                        char *work, mds_tid t);

#endif
