#include "ckpt/save.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "ckpt/agree.h"
#include "ckpt/folder.h"
#include "io/durable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct writer {
    const struct mds_ckpt_save *spec;
    char folder[MDS_CKPT_PATH]; /* .partial */
    int64_t save, rank;
    struct mds_ckpt_written mine;
};

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
    struct summary s = {w->mine.parts, w->mine.bytes};

    MDS_TRY(send(world, &s, sizeof s));
    return s.parts ? send(world, w->mine.part, s.parts * (int64_t)sizeof *w->mine.part)
                   : MDS_OK;
}

/* Room for the parts of a rank at the end of the index's; *at is where they go. */
static enum mds_rc add_rank(struct mds_ckpt_index *ix, int64_t rank,
                            const struct summary *s, struct mds_part **at)
{
    struct mds_part *more;

    ix->bytes[rank] = s->bytes;
    more = mds_realloc(ix->part, (size_t)(ix->parts + s->parts + 1), sizeof *more);
    if (!more)
        return MDS_EMEM;
    ix->part = more;
    *at = more + ix->parts;
    ix->parts += s->parts;
    return MDS_OK;
}

static enum mds_rc add_written(struct mds_ckpt_index *ix, int64_t rank,
                               const struct mds_ckpt_written *w)
{
    const struct summary s = {w->parts, w->bytes};
    struct mds_part *at;

    MDS_TRY(add_rank(ix, rank, &s, &at));
    if (s.parts > 0)
        memcpy(at, w->part, (size_t)s.parts * sizeof *at);
    return MDS_OK;
}

/* The first rank's own, then the others' one after the other. */
static enum mds_rc receive_parts(const struct writer *w, struct mds_ckpt_index *ix)
{
    struct mds_comm *world = w->spec->world;

    MDS_TRY(add_written(ix, 0, &w->mine));
    for (int rank = 1; rank < ix->ranks; rank++) {
        struct summary s;
        struct mds_part *at;

        MDS_TRY(receive(world, &s, sizeof s, rank));
        MDS_TRY(add_rank(ix, rank, &s, &at));
        if (s.parts > 0)
            MDS_TRY(receive(world, at, s.parts * (int64_t)sizeof *at, rank));
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

static enum mds_rc begin_folder(struct writer *w)
{
    const struct mds_ckpt_save *s = w->spec;

    w->save = (int64_t)(mds_clock_wall_s() * 1e6) * 1000 + getpid() % 1000;
    return mds_ckpt_begin(s->dir, s->state.iteration);
}

static enum mds_rc begin(struct writer *w)
{
    const struct mds_ckpt_save *s = w->spec;
    enum mds_rc rc = MDS_OK;

    w->rank = mds_comm_rank(s->world);
    if (w->rank == 0)
        rc = begin_folder(w);
    if (!rc)
        rc = mds_ckpt_path(s->dir, s->state.iteration, 1, w->folder);
    MDS_TRY(mds_ckpt_agree(s->world, rc));
    return mds_comm_broadcast(s->world, &w->save, sizeof w->save, 0);
}

static enum mds_rc write_file(struct writer *w)
{
    const struct mds_ckpt_save *s = w->spec;
    const struct mds_ckpt_rank r = {.folder = w->folder,
                                    .save = w->save,
                                    .rank = w->rank,
                                    .iteration = s->state.iteration,
                                    .whole = s->whole,
                                    .local = s->local,
                                    .source = s->source};

    return mds_ckpt_rank_write(&r, &w->mine);
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
    free(w.mine.part);
    return rc;
}

/* ---- alone ---- */

static enum mds_rc play(struct writer *w, struct mds_ckpt_save *s,
                        const struct mds_ckpt_cast *cast, struct mds_ckpt_index *ix)
{
    enum mds_rc rc = MDS_OK;

    for (w->rank = 0; !rc && w->rank < cast->ranks; w->rank++) {
        rc = cast->play(cast->ctx, w->rank, &s->local, &s->source);
        if (!rc)
            rc = write_file(w);
        if (!rc)
            rc = add_written(ix, w->rank, &w->mine);
        free(w->mine.part);
        w->mine = (struct mds_ckpt_written){0};
    }
    return rc;
}

enum mds_rc mds_ckpt_save_alone(const struct mds_ckpt_save *s,
                                const struct mds_ckpt_cast *cast, int64_t *bytes)
{
    struct mds_ckpt_save part = *s;
    struct writer w = {.spec = &part};
    struct mds_ckpt_index *ix = NULL;
    enum mds_rc rc = mds_ckpt_path(s->dir, s->state.iteration, 1, w.folder);

    if (rc)
        return rc;
    rc = begin_folder(&w);
    if (!rc)
        rc = mds_ckpt_index_begin(w.folder, s->whole, cast->ranks, &ix);
    if (!rc)
        rc = play(&w, &part, cast, ix);
    if (!rc)
        rc = write_index(&w, ix, bytes);
    if (rc)
        mds_ckpt_abandon(s->dir, s->state.iteration);
    mds_ckpt_index_destroy(ix);
    return rc;
}
