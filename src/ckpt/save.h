/* Writing a checkpoint: every rank its own file, the first one the index. */
#ifndef MDS_CKPT_SAVE_H
#define MDS_CKPT_SAVE_H

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

/* Write dir/iter_*, durably, and let dir/latest name it.  Collective over the world;
 * all ranks succeed or fail alike.  After a failure of files what was there before is
 * there still, and `latest` names it.  *bytes: of all files, on the first rank. */
enum mds_rc mds_ckpt_save(const struct mds_ckpt_save *s, int64_t *bytes);

#endif
