/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/saving.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "ckpt/error_sync.h"
#include "io/durable.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the folder and this rank's file ---- */

enum mds_rc mds_saving_make_folder(struct mds_saving *w)
{
    const struct mds_ckpt_save *s = &w->spec;

    w->save = (int64_t)(mds_clock_wall_s() * 1e6) * 1000 + getpid() % 1000;
    return mds_ckpt_begin(s->dir, s->state.iteration);
}

static enum mds_rc create_folder(struct mds_saving *w)
{
    const struct mds_ckpt_save *s = &w->spec;
    enum mds_rc rc = MDS_OK;

    w->rank = mds_comm_rank(s->world);
    if (w->rank == 0)
        rc = mds_saving_make_folder(w);
    if (!rc)
        rc = mds_ckpt_path(s->dir, s->state.iteration, 1, w->folder);
    MDS_TRY(mds_ckpt_sync_error(s->world, rc));
    return mds_comm_broadcast(s->world, &w->save, sizeof w->save, 0);
}

enum mds_rc mds_saving_lay_out(struct mds_saving *w)
{
    const struct mds_ckpt_save *s = &w->spec;
    const struct mds_rank_file_id id = {
        .save = w->save, .rank = w->rank, .iteration = s->state.iteration};
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_rank_file_plan(s->local, s->whole, w->rank, &s->source, &w->plan));
    if (w->plan.lists == 0)
        return MDS_OK;
    MDS_TRY(mds_ckpt_file(w->folder, w->rank, path));
    return mds_rank_file_create(path, &id, &w->plan, &w->file, &w->file_bytes);
}

void mds_saving_release_file(struct mds_saving *w)
{
    mds_rank_file_destroy(w->file);
    mds_rank_file_plan_fini(&w->plan);
    w->file = NULL;
    w->file_bytes = 0;
}

/* ---- the index ---- */

struct summary {
    int64_t parts, bytes;
};

static enum mds_rc receive_from(struct mds_comm *world, void *buf, int64_t bytes,
                                int from)
{
    struct mds_comm_p2p req = {0};

    MDS_TRY(mds_comm_recv_start(world, buf, bytes, from, 0, &req));
    return mds_comm_p2p_wait(&req);
}

static enum mds_rc send_to_rank0(struct mds_comm *world, const void *buf, int64_t bytes)
{
    struct mds_comm_p2p req = {0};

    MDS_TRY(mds_comm_send_start(world, buf, bytes, 0, 0, &req));
    return mds_comm_p2p_wait(&req);
}

static enum mds_rc send_parts(const struct mds_saving *w)
{
    const struct mds_rank_file_plan *p = &w->plan;
    struct mds_comm *world = w->spec.world;
    struct summary s = {p->parts, w->file_bytes};

    MDS_TRY(send_to_rank0(world, &s, sizeof s));
    return s.parts ? send_to_rank0(world, p->part, s.parts * (int64_t)sizeof *p->part)
                   : MDS_OK;
}

enum mds_rc mds_saving_add_rank(struct mds_ckpt_index *ix, int64_t rank, int64_t parts,
                                int64_t bytes, struct mds_ckpt_part **at)
{
    ix->bytes[rank] = bytes;
    MDS_TRY(mds_resize(&ix->part, (size_t)(ix->parts + parts + 1), sizeof *ix->part));
    *at = ix->part + ix->parts;
    ix->parts += parts;
    return MDS_OK;
}

/* Rank 0's own parts, then those of the other ranks in order. */
static enum mds_rc receive_parts(const struct mds_saving *w, struct mds_ckpt_index *ix)
{
    struct mds_comm *world = w->spec.world;

    for (int rank = 0; rank < ix->ranks; rank++) {
        struct summary s = {w->plan.parts, w->file_bytes};
        struct mds_ckpt_part *at;

        if (rank > 0)
            MDS_TRY(receive_from(world, &s, sizeof s, rank));
        MDS_TRY(mds_saving_add_rank(ix, rank, s.parts, s.bytes, &at));
        if (s.parts == 0)
            continue;
        if (rank > 0)
            MDS_TRY(receive_from(world, at, s.parts * (int64_t)sizeof *at, rank));
        else
            memcpy(at, w->plan.part, (size_t)s.parts * sizeof *at);
    }
    return MDS_OK;
}

enum mds_rc mds_saving_write_index(struct mds_saving *w, struct mds_ckpt_index *ix)
{
    const struct mds_ckpt_save *s = &w->spec;
    char path[MDS_PATH_SIZE];
    struct stat st;

    ix->state = s->state;
    ix->save = w->save;
    MDS_TRY(mds_ckpt_index_sort_parts(ix));
    MDS_TRY(
        mds_ckpt_index_write(ix, w->folder, s->configuration, s->provenance, s->data));
    MDS_TRY(mds_ckpt_file(w->folder, -1, path));
    if (stat(path, &st))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    w->bytes = st.st_size;
    for (int64_t i = 0; i < ix->ranks; i++)
        w->bytes += ix->bytes[i];
    return MDS_OK;
}

static enum mds_rc build_index(struct mds_saving *w)
{
    const struct mds_ckpt_save *s = &w->spec;
    struct mds_ckpt_index *ix = NULL;
    enum mds_rc rc;

    if (w->rank > 0)
        return send_parts(w);
    rc = mds_ckpt_index_begin(w->folder, s->whole, mds_comm_size(s->world), &ix);
    if (!rc)
        rc = receive_parts(w, ix);
    if (!rc)
        rc = mds_saving_write_index(w, ix);
    mds_ckpt_index_destroy(ix);
    return rc;
}

/* ---- a whole save ---- */

enum mds_rc mds_saving_begin(const struct mds_ckpt_save *spec, struct mds_saving *w)
{
    enum mds_rc rc;

    *w = (struct mds_saving){.spec = *spec};
    rc = create_folder(w);
    if (!rc)
        rc = mds_ckpt_sync_error(spec->world, mds_saving_lay_out(w));
    if (!rc)
        rc = mds_ckpt_sync_error(spec->world, build_index(w));
    if (rc)
        mds_saving_end(w, rc);
    return rc;
}

enum mds_rc mds_saving_read(const struct mds_saving *w,
                            const struct mds_rank_file_list *list, int64_t at,
                            int64_t n, float *out)
{
    const struct mds_ckpt_source *from = &w->spec.source;

    return from->read(from->ctx, list->what, list->param->unit, list->first + at, n,
                      out);
}

enum mds_rc mds_saving_commit(const struct mds_saving *w)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_ckpt_file(w->folder, -1, path));
    MDS_TRY(mds_durable_file(path));
    return mds_ckpt_commit(w->spec.dir, w->spec.state.iteration);
}

void mds_saving_end(struct mds_saving *w, enum mds_rc rc)
{
    mds_saving_release_file(w);
    if (rc && rc != MDS_ECOMM && w->rank == 0 && w->folder[0])
        mds_ckpt_abandon(w->spec.dir, w->spec.state.iteration);
    *w = (struct mds_saving){0};
}
