/* SPDX-License-Identifier: BSD-3-Clause */
/* One process saves what many ranks would save. */
#include "ckpt/saving.h"

#include <string.h>

static enum mds_rc save_rank(struct mds_saving *w,
                             const struct mds_ckpt_serial_ranks *ranks,
                             struct mds_ckpt_index *ix)
{
    struct mds_ckpt_part *at;

    MDS_TRY(ranks->get_rank(ranks->ctx, w->rank, &w->spec.local, &w->spec.source));
    MDS_TRY(mds_saving_lay_out(w));
    MDS_TRY(mds_saving_add_rank(ix, w->rank, w->plan.parts, w->file_bytes, &at));
    if (w->plan.parts > 0)
        memcpy(at, w->plan.part, (size_t)w->plan.parts * sizeof *at);
    return mds_saving_write(w);
}

static enum mds_rc save_all_ranks(struct mds_saving *w,
                                  const struct mds_ckpt_serial_ranks *ranks)
{
    struct mds_ckpt_index *ix = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_saving_make_folder(w));
    rc = mds_ckpt_index_begin(w->folder, w->spec.whole, ranks->ranks, &ix);
    for (w->rank = 0; !rc && w->rank < ranks->ranks; w->rank++) {
        rc = save_rank(w, ranks, ix);
        mds_saving_release_file(w);
    }
    w->rank = 0;
    if (!rc)
        rc = mds_saving_write_index(w, ix);
    mds_ckpt_index_destroy(ix);
    return rc ? rc : mds_saving_commit(w);
}

enum mds_rc mds_ckpt_save_serial(const struct mds_ckpt_save *s,
                                 const struct mds_ckpt_serial_ranks *ranks,
                                 int64_t *bytes)
{
    struct mds_saving w = {.spec = *s};
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_path(s->dir, s->state.iteration, 1, w.folder));
    rc = save_all_ranks(&w, ranks);
    if (!rc)
        *bytes = w.bytes;
    mds_saving_end(&w, rc);
    return rc;
}
