#include "ckpt/save.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "ckpt/agree.h"
#include "ckpt/folder.h"
#include "io/durable.h"
#include "io/h5_array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 19 }; /* elements in memory at a time: whole chunks of a data set */

struct writer {
    const struct mds_ckpt_save *spec;
    char folder[MDS_CKPT_PATH]; /* .partial */
    int64_t save, rank;
    struct mds_h5 *file; /* NULL: nothing written yet */
    float *buf;          /* [PIECE] */
    struct mds_part *part;
    int64_t parts, cap, bytes;
};

/* ---- this rank's file ---- */

static enum mds_rc open_file(struct writer *w, char path[MDS_CKPT_PATH])
{
    MDS_TRY(mds_ckpt_file(w->folder, w->rank, path));
    if (w->file)
        return MDS_OK;
    MDS_TRY(mds_h5_create_checked(path, path, &w->file));
    MDS_TRY(mds_h5_put_int(w->file, "mds_checkpoint", MDS_CKPT_FORMAT));
    MDS_TRY(mds_h5_put_int(w->file, "save", w->save));
    MDS_TRY(mds_h5_put_int(w->file, "rank", w->rank));
    return mds_h5_put_int(w->file, "iteration", w->spec->state.iteration);
}

/* Elements first .. first + n - 1 of a parameter's share, of one state. */
static enum mds_rc write_set(struct writer *w, enum mds_ckpt_what what,
                             const struct mds_param *p, int64_t first, int64_t n)
{
    const struct mds_ckpt_source *from = &w->spec->source;
    int64_t begin = p->offset - mds_params_unit(w->spec->local, p->unit)->first;
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
    int tensor = mds_params_find(w->spec->whole, p->spec.name);
    struct mds_part *more;
    int count;

    if (tensor < 0)
        return mds_fail(MDS_EBUG, "checkpoint: the whole model has no %s",
                        p->spec.name);
    if (w->parts + MDS_PART_SPLIT > w->cap) {
        w->cap = 2 * w->cap + 64;
        more = mds_realloc(w->part, (size_t)w->cap, sizeof *more);
        if (!more)
            return MDS_EMEM;
        w->part = more;
    }
    count = mds_part_split(p, first, n, w->part + w->parts);
    for (int i = 0; i < count; i++, w->parts++) {
        w->part[w->parts].tensor = tensor;
        w->part[w->parts].file = w->rank;
    }
    return MDS_OK;
}

/* A parameter's elements within this rank's share of the unit. */
static enum mds_rc write_param(struct writer *w, const struct mds_param *p,
                               int64_t share_first, int64_t share_n)
{
    int64_t begin = p->offset - mds_params_unit(w->spec->local, p->unit)->first;
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
    const struct mds_params *ps = w->spec->local;

    for (int u = 0; u < mds_params_units(ps); u++) {
        const struct mds_param_unit *unit = mds_params_unit(ps, u);
        int64_t first, n;

        w->spec->source.share(w->spec->source.ctx, u, &first, &n);
        for (int i = 0; i < unit->params; i++)
            MDS_TRY(
                write_param(w, mds_params_get(ps, unit->first_param + i), first, n));
    }
    /* What the index says of this file, in case the index is lost. */
    return w->file ? mds_h5_put_table(w->file, "/index/parts", &w->part->tensor,
                                      w->parts, MDS_PART_COLUMNS)
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
    MDS_TRY(mds_ckpt_file(w->folder, w->rank, path));
    MDS_TRY(mds_durable_file(path));
    if (stat(path, &st))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    w->bytes = st.st_size;
    return MDS_OK;
}

static enum mds_rc write_file(struct writer *w)
{
    w->buf = mds_zalloc(PIECE, sizeof *w->buf);
    if (!w->buf)
        return MDS_EMEM;
    return finish_file(w, write_params(w));
}

/* ---- the index ---- */

struct summary {
    int64_t parts, bytes;
};

static enum mds_rc receive(struct mds_comm *world, void *buf, int64_t bytes, int from)
{
    struct mds_comm_p2p req = {0};

    MDS_TRY(mds_comm_recv_start(world, buf, bytes, from, 0, &req));
    return mds_comm_p2p_wait(&req);
}

static enum mds_rc send(struct mds_comm *world, const void *buf, int64_t bytes)
{
    struct mds_comm_p2p req = {0};

    MDS_TRY(mds_comm_send_start(world, buf, bytes, 0, 0, &req));
    return mds_comm_p2p_wait(&req);
}

static enum mds_rc send_parts(const struct writer *w)
{
    struct mds_comm *world = w->spec->world;
    struct summary s = {w->parts, w->bytes};

    MDS_TRY(send(world, &s, sizeof s));
    return s.parts ? send(world, w->part, s.parts * (int64_t)sizeof *w->part) : MDS_OK;
}

/* The first rank's own, then the others' one after the other. */
static enum mds_rc receive_parts(const struct writer *w, struct mds_ckpt_index *ix)
{
    struct mds_comm *world = w->spec->world;

    for (int rank = 0; rank < ix->ranks; rank++) {
        struct summary s = {w->parts, w->bytes};
        struct mds_part *more;

        if (rank > 0)
            MDS_TRY(receive(world, &s, sizeof s, rank));
        ix->bytes[rank] = s.bytes;
        if (s.parts == 0)
            continue;
        more = mds_realloc(ix->part, (size_t)(ix->parts + s.parts), sizeof *more);
        if (!more)
            return MDS_EMEM;
        ix->part = more;
        if (rank > 0)
            MDS_TRY(receive(world, more + ix->parts, s.parts * (int64_t)sizeof *more,
                            rank));
        else
            memcpy(more, w->part, (size_t)s.parts * sizeof *more);
        ix->parts += s.parts;
    }
    return MDS_OK;
}

static enum mds_rc write_index(const struct writer *w, struct mds_ckpt_index *ix,
                               int64_t *bytes)
{
    const struct mds_ckpt_save *s = w->spec;
    char path[MDS_CKPT_PATH];
    struct stat st;

    ix->state = s->state;
    ix->save = w->save;
    MDS_TRY(mds_ckpt_index_arrange(ix));
    MDS_TRY(mds_ckpt_index_write(ix, w->folder, s->configuration, s->provenance));
    MDS_TRY(mds_ckpt_file(w->folder, -1, path));
    MDS_TRY(mds_durable_file(path));
    *bytes = stat(path, &st) ? 0 : st.st_size;
    for (int64_t i = 0; i < ix->ranks; i++)
        *bytes += ix->bytes[i];
    return mds_ckpt_commit(s->dir, s->state.iteration);
}

static enum mds_rc finish(const struct writer *w, int64_t *bytes)
{
    const struct mds_ckpt_save *s = w->spec;
    struct mds_ckpt_index *ix = NULL;
    enum mds_rc rc;

    if (w->rank > 0)
        return send_parts(w);
    rc = mds_ckpt_index_begin(w->folder, s->whole, mds_comm_size(s->world), &ix);
    if (!rc)
        rc = receive_parts(w, ix);
    if (!rc)
        rc = write_index(w, ix, bytes);
    mds_ckpt_index_destroy(ix);
    return rc;
}

/* ---- all together ---- */

static enum mds_rc begin(struct writer *w)
{
    const struct mds_ckpt_save *s = w->spec;
    enum mds_rc rc = MDS_OK;

    w->rank = mds_comm_rank(s->world);
    if (w->rank == 0) {
        w->save = (int64_t)(mds_clock_wall_s() * 1e6) * 1000 + getpid() % 1000;
        rc = mds_ckpt_begin(s->dir, s->state.iteration);
    }
    if (!rc)
        rc = mds_ckpt_path(s->dir, s->state.iteration, 1, w->folder);
    MDS_TRY(mds_ckpt_agree(s->world, rc));
    return mds_comm_broadcast(s->world, &w->save, sizeof w->save, 0);
}

enum mds_rc mds_ckpt_save(const struct mds_ckpt_save *s, int64_t *bytes)
{
    struct writer w = {.spec = s};
    enum mds_rc rc = begin(&w);

    if (!rc)
        rc = mds_ckpt_agree(s->world, write_file(&w));
    if (!rc)
        rc = mds_ckpt_agree(s->world, finish(&w, bytes));
    if (rc && rc != MDS_ECOMM && w.rank == 0 && w.folder[0])
        mds_ckpt_abandon(s->dir, s->state.iteration);
    free(w.part);
    free(w.buf);
    return rc;
}
