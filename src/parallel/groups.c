/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/groups.h"
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "tp", or "tp-ring". */
static void join_tags(const struct mds_grid *grid, unsigned axes, char *tag,
                      size_t size)
{
    size_t at = 0;

    tag[0] = '\0';
    for (int i = 0; i < grid->axes && at < size; i++) {
        unsigned bits = mds_axis_bits(grid->axis, i);

        if ((axes & bits) != bits)
            continue;
        at += (size_t)snprintf(tag + at, size - at, "%s%s", at ? "-" : "",
                               grid->axis[i].tag);
        axes &= ~bits;
    }
}

/* The n members of a group: ranks first, first + step ... along its axes; `here` is
 * this rank's index. */
struct members {
    int first, step, n, here;
};

static struct members members_of(const struct mds_groups *g, unsigned axes)
{
    int n = mds_groups_size(g, axes), at = mds_groups_rank(g, axes);

    if (axes != MDS_GROUP_ENDS || n == 1)
        return (struct members){0, 1, n, at};
    if (at == 0 || at == n - 1)
        return (struct members){0, n - 1, 2, at > 0};
    return (struct members){at, 1, 1, 0};
}

static enum mds_rc create_group(const struct mds_groups *g, unsigned axes,
                                const char *tag, struct mds_comm **out)
{
    struct members s = members_of(g, axes);
    int *members;
    enum mds_rc rc;

    if (!g->dev)
        return mds_comm_create_dry(s.here, s.n, tag, out);
    members = mds_zalloc((size_t)s.n, sizeof *members);
    if (!members)
        return MDS_EMEM;
    for (int i = 0; i < s.n; i++)
        members[i] = mds_grid_member(&g->grid, g->rank, axes, s.first + i * s.step);
    if (strcmp(mds_dev_name(g->dev), "cuda") == 0)
        rc = mds_comm_create_nccl(members, s.n, tag, g->dev, out);
    else
        rc = mds_comm_create_mpi(members, s.n, tag, out);
    free(members);
    return rc;
}

void mds_groups_init(struct mds_groups *g, const struct mds_grid *grid, int rank,
                     struct mds_dev *dev)
{
    *g = (struct mds_groups){.grid = *grid, .rank = rank, .dev = dev};
}

/* tag NULL: that of its axes. */
static enum mds_rc add_group(struct mds_groups *g, unsigned axes, const char *tag)
{
    struct mds_comm *comm = NULL;
    char joined[64];

    if (mds_group(g, axes))
        return MDS_OK;
    if (g->n == MDS_GROUPS_MOST)
        return mds_fail(MDS_EBUG, "more than %d groups", g->n);
    join_tags(&g->grid, axes, joined, sizeof joined);
    MDS_TRY(create_group(g, axes, tag ? tag : joined, &comm));
    g->made[g->n++] = (struct mds_group){axes, comm};
    return MDS_OK;
}

enum mds_rc mds_groups_add(struct mds_groups *g, unsigned axes)
{
    return add_group(g, axes, NULL);
}

struct mds_comm *mds_group(const struct mds_groups *g, unsigned axes)
{
    for (int i = 0; i < g->n; i++)
        if (g->made[i].axes == axes)
            return g->made[i].comm;
    return NULL;
}

struct mds_rank_span mds_groups_span(const struct mds_groups *g,
                                     const struct mds_group *of)
{
    return (struct mds_rank_span){mds_comm_size(of->comm),
                                  mds_grid_stride(&g->grid, of->axes)};
}

int64_t mds_groups_nccl_bytes(const struct mds_groups *g, int per_node,
                              struct mds_comm_channels n)
{
    int64_t sum = g->grid.world > 1 ? MDS_COMM_NCCL_BYTES : 0;

    for (int i = 0; i < g->n; i++) {
        struct mds_rank_span span = mds_groups_span(g, &g->made[i]);

        sum +=
            mds_comm_nccl_bytes(g->made[i].comm, mds_span_in_node(span, per_node), n);
    }
    return sum;
}

/* What runs need, and what GPUs exchange there: collectives, or messages to the
 * next rank (1) and the previous one (-1) on two lanes: keys and values, and their
 * gradients, around the ring; activations to the next stage, their gradients back.  The
 * world exchanges host memory only; whether the ends need collectives depends on the
 * model, whether a stage does, on the optimizer, and those that split sequences do in
 * generation (engine.c).  Where experts are on
 * several ranks: these ranks, those with the same experts, and the latter's tensor
 * ranks, which are a stage of their own to the optimizer. */
static const struct need {
    unsigned axes;
    const char *tag; /* NULL: that of the axis */
    int collectives, lane[2];
    int of_experts;
} needs[] = {
    {MDS_AXIS_TENSOR, NULL, 1, {0}, 0},
    {MDS_AXIS_ULYSSES, NULL, 1, {0}, 0},
    {MDS_AXIS_RING, NULL, 0, {1, 1}, 0},
    {MDS_AXES_SEQUENCE, NULL, 0, {0}, 0},
    {MDS_AXES_TOKENS, "data", 1, {0}, 0},
    {MDS_AXIS_PIPELINE, NULL, 0, {1, -1}, 0},
    {MDS_GROUP_ENDS, "ends", 0, {0}, 0},
    {MDS_AXES_STAGE, "stage", 0, {0}, 0},
    {MDS_AXIS_EXPERT, NULL, 1, {0}, 1},
    {MDS_AXES_SAME_EXPERTS, "same ep", 1, {0}, 1},
    {MDS_AXES_STAGE_EXPERTS, "same ep tp", 0, {0}, 1},
    {MDS_AXES_ALL, "world", 0, {0}, 0},
};

enum { NEEDS = sizeof needs / sizeof *needs };

static enum mds_rc add_needed(struct mds_groups *g, const struct need *need)
{
    if (need->of_experts && mds_groups_size(g, MDS_AXIS_EXPERT) == 1)
        return MDS_OK;
    return add_group(g, need->axes, need->tag);
}

/* Exchanges of rows would take much of a GPU's memory with all channels (comm.h); with
 * few peers they do not. */
static int channels_of_experts(struct mds_comm *comm)
{
    return mds_comm_size(comm) <= 4 ? 32 : 16;
}

static enum mds_rc connect_group(const struct mds_groups *g, const struct need *need)
{
    struct mds_comm *comm = mds_group(g, need->axes);

    if (!comm)
        return MDS_OK;
    if (need->axes == MDS_AXIS_EXPERT)
        mds_comm_limit_channels(comm, channels_of_experts(comm));
    if (need->collectives)
        MDS_TRY(mds_comm_add_collectives(comm));
    for (int tag = 0; tag < 2; tag++)
        if (need->lane[tag])
            MDS_TRY(mds_comm_add_lane(comm, tag, need->lane[tag]));
    return MDS_OK;
}

enum mds_rc mds_groups_create(const struct mds_parallel_config *c, int world, int rank,
                              struct mds_dev *dev, struct mds_groups *out)
{
    struct mds_groups g;
    struct mds_grid grid;
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_grid_init(&grid, mds_axes, c->size, world));
    mds_groups_init(&g, &grid, rank, dev);
    for (int i = 0; i < NEEDS && !rc; i++)
        rc = add_needed(&g, &needs[i]);
    for (int i = 0; i < NEEDS && !rc; i++)
        rc = connect_group(&g, &needs[i]);
    if (rc)
        mds_groups_fini(&g);
    else
        *out = g;
    return rc;
}

void mds_groups_fini(struct mds_groups *g)
{
    while (g->n > 0)
        mds_comm_destroy(g->made[--g->n].comm);
    memset(g, 0, sizeof *g);
}
