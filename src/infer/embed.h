/* SPDX-License-Identifier: BSD-3-Clause */
/* Hidden states of sequences, as HDF5:
 *
 *   /hidden  f32 or f16 [rows, H]  of all sequences, one after the other
 *   /start   i64 [sequences+1]     the row where each begins, and the end
 *   /name    [sequences]           UTF-8 strings
 *
 * and attributes: model, layer, pool, pool_window.  A row is of a token; or of a window
 * of tokens, the last one shorter; or of a sequence, nan if that has no tokens. */
#ifndef MDS_INFER_EMBED_H
#define MDS_INFER_EMBED_H

#include "infer/model.h"

enum mds_infer_pool { MDS_INFER_POOL_MEAN, MDS_INFER_POOL_LAST, MDS_INFER_POOL_NONE };
extern const char *const mds_infer_pools[]; /* their names, and NULL */

struct mds_infer_embed {
    struct mds_infer_inputs inputs;
    const char *output;
    int pool;              /* enum mds_infer_pool */
    int64_t window;        /* tokens that are pooled; 0: the sequence */
    int half;              /* f16 */
    int overwrite, resume; /* resume: a complete output stays as it is */
};

/* Write them; rank 0 does.  The model is started, for hidden states.  Memory is that of
 * some steps, whatever the inputs' length.  Collective. */
enum mds_rc mds_infer_embed_run(const struct mds_infer_embed *s,
                                struct mds_infer_model *m);

/* Append what its output is of (infer/origin.h). */
void mds_infer_embed_origin(const struct mds_infer_embed *s,
                            const struct mds_infer_model *m, struct mds_str *lines);

#endif
