#include "ckpt/rank_file.h"
#include "base/alloc.h"
#include "ckpt/folder.h"
#include "io/durable.h"
#include "io/h5_array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE = 1 << 19 }; /* elements in memory at a time: whole chunks of a data set */

struct writer {
    const struct mds_ckpt_rank *is;
    struct mds_ckpt_written *out;
    struct mds_h5 *file; /* NULL: nothing written yet */
    float *buf;          /* [PIECE] */
    int64_t cap;         /* of out->part */
};

static enum mds_rc open_file(struct writer *w, char path[MDS_CKPT_PATH])
{
    MDS_TRY(mds_ckpt_file(w->is->folder, w->is->rank, path));
    if (w->file)
        return MDS_OK;
    MDS_TRY(mds_h5_create_checked(path, path, &w->file));
    MDS_TRY(mds_h5_put_int(w->file, "mds_checkpoint", MDS_CKPT_FORMAT));
    MDS_TRY(mds_h5_put_int(w->file, "save", w->is->save));
    MDS_TRY(mds_h5_put_int(w->file, "rank", w->is->rank));
    return mds_h5_put_int(w->file, "iteration", w->is->iteration);
}

/* Elements first .. first + n - 1 of a parameter's share, of one state. */
static enum mds_rc write_set(struct writer *w, enum mds_ckpt_what what,
                             const struct mds_param *p, int64_t first, int64_t n)
{
    const struct mds_ckpt_source *from = &w->is->source;
    int64_t begin = p->offset - mds_params_unit(w->is->local, p->unit)->first;
    struct mds_h5_floats *set;
    char name[96];
    enum mds_rc rc = MDS_OK, closed;

    mds_ckpt_set_name(what, p->spec.name, name);
    MDS_TRY(mds_h5_floats_create(w->file, name, n, &set));
    for (int64_t at = 0; !rc && at < n; at += PIECE) {
        int64_t count = n - at < PIECE ? n - at : PIECE;

        rc = from->read(from->ctx, what, p->unit, begin + first + at, count, w->buf);
        if (!rc)
            rc = mds_h5_floats_write(set, at, count, w->buf);
    }
    closed = mds_h5_floats_close(set);
    return rc ? rc : closed;
}

static enum mds_rc note_parts(struct writer *w, const struct mds_param *p,
                              int64_t first, int64_t n)
{
    int tensor = mds_params_find(w->is->whole, p->spec.name);
    struct mds_part *more;
    int count;

    if (tensor < 0)
        return mds_fail(MDS_EBUG, "checkpoint: the whole model has no %s",
                        p->spec.name);
    if (w->out->parts + MDS_PART_SPLIT > w->cap) {
        w->cap = 2 * w->cap + 64;
        more = mds_realloc(w->out->part, (size_t)w->cap, sizeof *more);
        if (!more)
            return MDS_EMEM;
        w->out->part = more;
    }
    count = mds_part_split(p, first, n, w->out->part + w->out->parts);
    for (int i = 0; i < count; i++, w->out->parts++) {
        w->out->part[w->out->parts].tensor = tensor;
        w->out->part[w->out->parts].file = w->is->rank;
    }
    return MDS_OK;
}

/* A parameter's elements within this rank's share of the unit. */
static enum mds_rc write_param(struct writer *w, const struct mds_param *p,
                               int64_t share_first, int64_t share_n)
{
    int64_t begin = p->offset - mds_params_unit(w->is->local, p->unit)->first;
    int64_t from = begin > share_first ? begin : share_first;
    int64_t to = begin + p->count < share_first + share_n ? begin + p->count
                                                          : share_first + share_n;
    char path[MDS_CKPT_PATH];

    if (from >= to || p->spec.duplicate)
        return MDS_OK;
    MDS_TRY(open_file(w, path));
    for (int what = 0; what < MDS_CKPT_STATES; what++)
        MDS_TRY(write_set(w, what, p, from - begin, to - from));
    return note_parts(w, p, from - begin, to - from);
}

static enum mds_rc write_params(struct writer *w)
{
    const struct mds_params *ps = w->is->local;

    for (int u = 0; u < mds_params_units(ps); u++) {
        const struct mds_param_unit *unit = mds_params_unit(ps, u);
        int64_t first, n;

        w->is->source.share(w->is->source.ctx, u, &first, &n);
        for (int i = 0; i < unit->params; i++)
            MDS_TRY(
                write_param(w, mds_params_get(ps, unit->first_param + i), first, n));
    }
    /* What the index says of this file, in case the index is lost. */
    return w->file ? mds_h5_put_table(w->file, "/index/parts", &w->out->part->tensor,
                                      w->out->parts, MDS_PART_COLUMNS)
                   : MDS_OK;
}

static enum mds_rc finish_file(struct writer *w, enum mds_rc rc)
{
    char path[MDS_CKPT_PATH];
    struct stat st;
    enum mds_rc closed = mds_h5_close(w->file);

    if (rc || closed || !w->file)
        return rc ? rc : closed;
    w->file = NULL;
    MDS_TRY(mds_ckpt_file(w->is->folder, w->is->rank, path));
    MDS_TRY(mds_durable_file(path));
    if (stat(path, &st))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    w->out->bytes = st.st_size;
    return MDS_OK;
}

enum mds_rc mds_ckpt_rank_write(const struct mds_ckpt_rank *r,
                                struct mds_ckpt_written *out)
{
    struct writer w = {.is = r, .out = out};
    enum mds_rc rc;

    *out = (struct mds_ckpt_written){0};
    w.buf = mds_zalloc(PIECE, sizeof *w.buf);
    if (!w.buf)
        return MDS_EMEM;
    rc = finish_file(&w, write_params(&w));
    free(w.buf);
    return rc;
}
