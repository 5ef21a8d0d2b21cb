/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/groups.h"
#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    struct mds_groups *g;
    int rank;
    struct mds_dev *dev; /* NULL: dry */
    int *members;        /* [world] */
};

static enum mds_rc create(const struct maker *m, int n, const char *tag,
                          struct mds_comm **out)
{
    int at = 0;

    if (m->dev && strcmp(mds_dev_name(m->dev), "cuda") == 0)
        return mds_comm_create_nccl(m->members, n, tag, m->dev, out);
    if (m->dev)
        return mds_comm_create_mpi(m->members, n, tag, out);
    while (m->members[at] != m->rank)
        at++;
    return mds_comm_create_dry(at, n, tag, out);
}

static enum mds_rc along(const struct maker *m, enum mds_axis axis, const char *tag,
                         struct mds_comm **out)
{
    int n = mds_grid_group(&m->g->grid, m->rank, axis, m->members);

    return create(m, n, tag, out);
}

/* The sequence axis holds rings of Ulysses groups, Ulysses fastest: keep every
 * stride-th of its ranks, n of them, from first on. */
static enum mds_rc within_sequence(const struct maker *m, int first, int stride, int n,
                                   const char *tag, struct mds_comm **out)
{
    mds_grid_group(&m->g->grid, m->rank, MDS_AXIS_SP, m->members);
    for (int i = 0; i < n; i++)
        m->members[i] = m->members[first + i * stride];
    return create(m, n, tag, out);
}

static enum mds_rc both_ends(const struct maker *m, struct mds_comm **out)
{
    const struct mds_groups *g = m->g;
    int n = mds_grid_group(&g->grid, m->rank, MDS_AXIS_PP, m->members);

    if (n > 1 && (mds_groups_first_stage(g) || mds_groups_last_stage(g))) {
        m->members[1] = m->members[n - 1];
        return create(m, 2, "ends", out);
    }
    m->members[0] = m->rank;
    return create(m, 1, "ends", out);
}

static enum mds_rc create_all(const struct maker *m)
{
    struct mds_groups *g = m->g;
    int u = g->ulysses_size, at = g->place.sp;

    MDS_TRY(along(m, MDS_AXIS_TP, "tp", &g->tp));
    MDS_TRY(within_sequence(m, at / u * u, 1, u, "ulysses", &g->ulysses));
    MDS_TRY(within_sequence(m, at % u, u, g->ring_size, "ring", &g->ring));
    MDS_TRY(along(m, MDS_AXIS_DPSP, "data", &g->data));
    MDS_TRY(along(m, MDS_AXIS_PP, "pipe", &g->pipe));
    MDS_TRY(both_ends(m, &g->ends));
    for (int i = 0; i < g->grid.world; i++)
        m->members[i] = i;
    return create(m, g->grid.world, "world", &g->world);
}

void mds_groups_list(const struct mds_groups *g, const struct mds_comm *of[MDS_GROUPS])
{
    of[MDS_GROUP_TP] = g->tp;
    of[MDS_GROUP_ULYSSES] = g->ulysses;
    of[MDS_GROUP_RING] = g->ring;
    of[MDS_GROUP_DATA] = g->data;
    of[MDS_GROUP_PIPE] = g->pipe;
    of[MDS_GROUP_ENDS] = g->ends;
    of[MDS_GROUP_WORLD] = g->world;
}

void mds_groups_spans(const struct mds_groups *g, struct mds_span of[MDS_GROUPS])
{
    int tp = g->grid.tp, u = g->ulysses_size, stage = g->grid.world / g->grid.pp;

    of[MDS_GROUP_TP] = (struct mds_span){tp, 1};
    of[MDS_GROUP_ULYSSES] = (struct mds_span){u, tp};
    of[MDS_GROUP_RING] = (struct mds_span){g->ring_size, tp * u};
    of[MDS_GROUP_DATA] = (struct mds_span){stage / tp, tp};
    of[MDS_GROUP_PIPE] = (struct mds_span){g->grid.pp, stage};
    of[MDS_GROUP_ENDS] = (struct mds_span){mds_comm_size(g->ends), stage};
    of[MDS_GROUP_WORLD] = (struct mds_span){g->grid.world, 1};
}

int64_t mds_groups_nccl_bytes(const struct mds_groups *g, int per_node,
                              struct mds_comm_channels n)
{
    int64_t sum = g->grid.world > 1 ? MDS_COMM_NCCL_BYTES : 0;
    const struct mds_comm *of[MDS_GROUPS];
    struct mds_span span[MDS_GROUPS];

    mds_groups_list(g, of);
    mds_groups_spans(g, span);
    for (int i = 0; i < MDS_GROUPS; i++)
        sum += mds_comm_nccl_bytes(of[i], mds_span_in_node(span[i], per_node), n);
    return sum;
}

/* What GPUs exchange.  Lanes: keys and values, and their gradients, to the next rank of
 * the ring; activations to the next stage, their gradients to the previous one.  The
 * world exchanges host memory only; whether `ends` needs collectives depends on the
 * model (engine.c). */
static enum mds_rc connect(const struct mds_groups *g)
{
    MDS_TRY(mds_comm_add_collectives(g->tp));
    MDS_TRY(mds_comm_add_collectives(g->ulysses));
    MDS_TRY(mds_comm_add_collectives(g->data));
    MDS_TRY(mds_comm_add_lane(g->ring, 0, 1));
    MDS_TRY(mds_comm_add_lane(g->ring, 1, 1));
    MDS_TRY(mds_comm_add_lane(g->pipe, 0, 1));
    return mds_comm_add_lane(g->pipe, 1, -1);
}

enum mds_rc mds_groups_create(const struct mds_parallel_config *c, int world, int rank,
                              struct mds_dev *dev, struct mds_groups *out)
{
    struct mds_groups g = {.ulysses_size = (int)c->ulysses, .ring_size = (int)c->ring};
    struct maker m = {.g = &g, .rank = rank, .dev = dev};
    enum mds_rc rc;

    MDS_TRY(mds_grid_init(&g.grid, world, (int)c->tensor, (int)(c->ulysses * c->ring),
                          (int)c->pipeline));
    g.place = mds_grid_place(&g.grid, rank);
    m.members = mds_zalloc((size_t)world, sizeof *m.members);
    if (!m.members)
        return MDS_EMEM;
    rc = create_all(&m);
    if (!rc)
        rc = connect(&g);
    free(m.members);
    if (rc)
        mds_groups_fini(&g);
    else
        *out = g;
    return rc;
}

void mds_groups_fini(struct mds_groups *g)
{
    mds_comm_destroy(g->world);
    mds_comm_destroy(g->ends);
    mds_comm_destroy(g->pipe);
    mds_comm_destroy(g->data);
    mds_comm_destroy(g->ring);
    mds_comm_destroy(g->ulysses);
    mds_comm_destroy(g->tp);
    memset(g, 0, sizeof *g);
}
