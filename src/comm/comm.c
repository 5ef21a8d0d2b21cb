/* SPDX-License-Identifier: BSD-3-Clause */
/* Creating and destroying groups. */
#include "comm/internal.h"

#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum mds_rc alloc_group(int rank, int n, const char *tag, struct mds_comm **out)
{
    struct mds_comm *c;

    if (n < 1 || rank < 0 || rank >= n)
        return mds_fail(MDS_EBUG, "%s: rank %d of a group of %d", tag, rank, n);
    c = mds_zalloc(1, sizeof *c);
    if (!c)
        return MDS_EMEM;
    c->f64 = mds_zalloc((size_t)n * MDS_COMM_BATCH, sizeof *c->f64);
    if (!c->f64) {
        free(c);
        return MDS_EMEM;
    }
    c->peers.rank = rank;
    c->peers.size = n;
    snprintf(c->peers.tag, sizeof c->peers.tag, "%s", tag);
    mds_comm_register(c);
    *out = c;
    return MDS_OK;
}

/* A group without a transport, which only counts what this rank would send. */
enum mds_rc mds_comm_create_dry(int rank, int n, const char *tag, struct mds_comm **out)
{
    MDS_TRY(alloc_group(rank, n, tag, out));
    (*out)->dry = 1;
    return MDS_OK;
}

/* Open MPI and, with dev, NCCL. */
static enum mds_rc open_transports(struct mds_comm *c, const int *ranks,
                                   struct mds_dev *dev)
{
    size_t n = (size_t)c->peers.size;

    c->dev = dev;
    if (n == 1)
        return MDS_OK;
    c->peers.world = mds_zalloc(n, sizeof *ranks);
    if (!c->peers.world)
        return MDS_EMEM;
    memcpy(c->peers.world, ranks, n * sizeof *ranks);
    if (dev)
        MDS_TRY(mds_direct_open(&c->peers, dev, &c->direct));
    return mds_mpi_open(&c->peers, &c->mpi);
}

enum mds_rc mds_comm_create_nccl(const int *ranks, int n, const char *tag,
                                 struct mds_dev *dev, struct mds_comm **out)
{
    int rank = mds_mpi_find_self(ranks, n);
    struct mds_comm *c;
    enum mds_rc rc;

    if (rank < 0)
        return mds_fail(MDS_EBUG, "%s: this rank is not one of the group's %d", tag, n);
    MDS_TRY(alloc_group(rank, n, tag, &c));
    rc = open_transports(c, ranks, dev);
    if (rc) {
        mds_comm_destroy(c);
        return rc;
    }
    *out = c;
    return MDS_OK;
}

enum mds_rc mds_comm_create_mpi(const int *ranks, int n, const char *tag,
                                struct mds_comm **out)
{
    return mds_comm_create_nccl(ranks, n, tag, NULL, out);
}

enum mds_rc mds_comm_create_world(int ranks, const char *tag, struct mds_comm **out)
{
    int *all = mds_zalloc((size_t)ranks, sizeof *all);
    enum mds_rc rc;

    if (!all)
        return MDS_EMEM;
    for (int i = 0; i < ranks; i++)
        all[i] = i;
    rc = mds_comm_create_mpi(all, ranks, tag, out);
    free(all);
    return rc;
}

void mds_comm_destroy(struct mds_comm *c)
{
    if (!c)
        return;
    mds_comm_unregister(c);
    if (c->direct)
        c->direct->ops->close(c->direct);
    if (c->mpi)
        mds_mpi_close(c->mpi);
    free(c->peers.world);
    free(c->f64);
    free(c->fingerprint);
    free(c);
}

void mds_comm_limit_channels(struct mds_comm *c, int n)
{
    c->channels = n;
    if (c->direct)
        c->direct->channels = n;
}

/* Rank 0 creates NCCL's id and broadcasts it over MPI.  That broadcast is not the
 * program's, so it is not counted. */
enum mds_rc mds_comm_add_collectives(struct mds_comm *c)
{
    struct mds_comm_stats before = c->stats;
    struct mds_direct_id id = {{0}};

    if (c->has_collectives)
        return MDS_OK;
    c->has_collectives = 1;
    if (!c->direct)
        return MDS_OK;
    if (c->peers.rank == 0)
        MDS_TRY(c->direct->ops->name(c->direct, &id));
    mds_comm_set_call_site(__FILE__, __LINE__);
    MDS_TRY(mds_comm_broadcast(c, &id, sizeof id, 0));
    c->stats = before;
    return c->direct->ops->join(c->direct, &id, &c->call);
}

/* A communicator for messages between this rank and a peer: the sender creates the id,
 * and sends it over MPI. */
static enum mds_rc join_pair(struct mds_comm *c, enum mds_comm_kind kind, int peer,
                             int tag)
{
    struct mds_direct_id id = {{0}};
    const struct mds_comm_call call = {.kind = kind,
                                       .dtype = -1,
                                       .op = -1,
                                       .peer = peer,
                                       .tag = tag,
                                       .line = __LINE__,
                                       .file = __FILE__,
                                       .count = sizeof id};

    if (c->peers.broken)
        return mds_comm_fail_broken(c, &call);
    if (kind == MDS_COMM_SEND) {
        MDS_TRY(c->direct->ops->name(c->direct, &id));
        MDS_TRY(mds_mpi_send(c->mpi, 0, 0, peer, &id, sizeof id));
    } else {
        MDS_TRY(mds_mpi_recv(c->mpi, 0, 0, peer, &id, sizeof id));
    }
    MDS_TRY(mds_comm_block(c, &call, NULL));
    return c->direct->ops->join_pair(c->direct, &id, &call);
}

/* The turn in which ranks e and e + 1 create their communicator, and later close it.
 * Both need the two ranks at once.  Pairs of the same turn have no rank in common, so
 * nobody waits for a rank that is busy with another pair. */
enum { TURNS = 3 };

static int join_turn(const struct mds_comm *c, int e)
{
    return e == c->peers.size - 1 && c->peers.size % 2 ? 2 : e % 2;
}

enum mds_rc mds_comm_add_lane(struct mds_comm *c, int tag, int step)
{
    int to = (c->peers.rank + step + c->peers.size) % c->peers.size;
    int from = (c->peers.rank - step + c->peers.size) % c->peers.size;
    int out_turn = join_turn(c, step > 0 ? c->peers.rank : to);
    int in_turn = join_turn(c, step > 0 ? from : c->peers.rank);

    if (step != 1 && step != -1)
        return mds_fail(MDS_EBUG, "%s: lane of tag %d with step %d, not 1 or -1",
                        c->peers.tag, tag, step);
    c->lanes++;
    for (int turn = 0; c->direct && turn < TURNS; turn++) {
        if (turn == out_turn)
            MDS_TRY(join_pair(c, MDS_COMM_SEND, to, tag));
        if (turn == in_turn)
            MDS_TRY(join_pair(c, MDS_COMM_RECV, from, tag));
    }
    return MDS_OK;
}

int mds_comm_rank(const struct mds_comm *c)
{
    return c->peers.rank;
}

int mds_comm_size(const struct mds_comm *c)
{
    return c->peers.size;
}

const char *mds_comm_tag(const struct mds_comm *c)
{
    return c->peers.tag;
}
