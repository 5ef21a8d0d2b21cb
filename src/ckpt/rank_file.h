/* One rank's file of a checkpoint: its share of the weights and moments. */
#ifndef MDS_CKPT_RANK_FILE_H
#define MDS_CKPT_RANK_FILE_H

#include "ckpt/index.h"

/* Where a rank's values come from. */
struct mds_ckpt_source {
    void *ctx;
    /* The elements of a unit that are this rank's to write; n may be 0. */
    void (*share)(void *ctx, int unit, int64_t *first, int64_t *n);
    /* Some of them, in f32. */
    enum mds_rc (*read)(void *ctx, enum mds_ckpt_what what, int unit, int64_t first,
                        int64_t n, float *out);
};

struct mds_ckpt_rank {
    const char *folder; /* being written: iter_*.partial; borrowed, as is the rest */
    int64_t save, rank, iteration;  /* what the file says that it is of */
    const struct mds_params *whole; /* registry of the whole model */
    const struct mds_params *local; /* this rank's; duplicates are not written */
    struct mds_ckpt_source source;
};

/* What is in a rank's file. */
struct mds_ckpt_written {
    struct mds_part *part; /* the caller's to free */
    int64_t parts, bytes;  /* 0: there is no file, nothing was this rank's */
};

/* Write the file, durably.  out is set in any case. */
enum mds_rc mds_ckpt_rank_write(const struct mds_ckpt_rank *r,
                                struct mds_ckpt_written *out);

#endif
