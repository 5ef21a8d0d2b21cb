/* SPDX-License-Identifier: BSD-3-Clause */
/* The MPI transport: messages by MPI_Isend and MPI_Irecv. */
#include "comm/internal.h"

#include "base/alloc.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* The messages of a slot, in the order they were added.  Finished ones are
 * MPI_REQUEST_NULL until the last one finishes and the slot is emptied. */
struct slot {
    MPI_Request *requests; /* [2 (size - 1)] */
    int *peers;            /* of each request: rank in the group, or ~rank for a send */
    int used, left;
};

struct mpi_comm {
    struct mds_comm base;
    MPI_Comm comm;
    int *indices;         /* [2 (size - 1)], MPI_Testsome's answer, */
    MPI_Status *statuses; /* and why it failed */
    struct slot slots[MDS_COMM_SLOTS];
};

/* code as returned by `call`, in words. */
static enum mds_rc fail_mpi(const struct mds_comm *c, const char *call, int code)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int len;

    if (code == MPI_SUCCESS)
        return MDS_OK;
    MPI_Error_string(code, text, &len);
    for (char *p = text; *p; p++)
        if (*p == '\n')
            *p = ' ';
    return mds_fail(MDS_ECOMM, "%s, rank %d of %d: %s: %s", c->tag, c->rank, c->size,
                    call, text);
}

static enum mds_rc add(struct mds_comm *c, int slot, int peer, int64_t bytes,
                       MPI_Request **request)
{
    struct slot *s = &((struct mpi_comm *)c)->slots[slot];

    if (s->used >= 2 * (c->size - 1) || bytes < 0 || bytes > INT_MAX)
        return mds_fail(MDS_EBUG, "%s: message %d of slot %d, %lld bytes", c->tag,
                        s->used, slot, (long long)bytes);
    s->peers[s->used] = peer;
    *request = &s->requests[s->used++];
    s->left++;
    return MDS_OK;
}

static enum mds_rc mpi_send(struct mds_comm *c, int slot, int tag, int peer,
                            const void *buf, int64_t bytes)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    MPI_Request *request = NULL;

    MDS_TRY(add(c, slot, ~peer, bytes, &request));
    return fail_mpi(c, "MPI_Isend",
                    MPI_Isend(buf, (int)bytes, MPI_BYTE, peer, tag, m->comm, request));
}

static enum mds_rc mpi_recv(struct mds_comm *c, int slot, int tag, int peer, void *buf,
                            int64_t bytes)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    MPI_Request *request = NULL;

    MDS_TRY(add(c, slot, peer, bytes, &request));
    return fail_mpi(c, "MPI_Irecv",
                    MPI_Irecv(buf, (int)bytes, MPI_BYTE, peer, tag, m->comm, request));
}

static enum mds_rc mpi_test(struct mds_comm *c, int slot, int *finished, int *left)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    struct slot *s = &m->slots[slot];
    int n = 0, code = MPI_SUCCESS;

    if (s->left > 0)
        code = MPI_Testsome(s->used, s->requests, &n, m->indices, m->statuses);
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < n; i++)
        if (m->statuses[i].MPI_ERROR != MPI_SUCCESS)
            code = m->statuses[i].MPI_ERROR;
    MDS_TRY(fail_mpi(c, "MPI_Testsome", code));
    *finished = n;
    s->left -= n;
    *left = s->left;
    if (s->left == 0)
        s->used = 0;
    return MDS_OK;
}

static int mpi_awaited(const struct mds_comm *c, int slot)
{
    const struct slot *s = &((const struct mpi_comm *)c)->slots[slot];
    int found = -1;

    for (int i = s->used - 1; i >= 0; i--) {
        if (s->requests[i] == MPI_REQUEST_NULL)
            continue;
        if (s->peers[i] >= 0)
            return s->peers[i];
        found = ~s->peers[i];
    }
    return found;
}

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "no room in mds_comm_p2p");

static enum mds_rc mpi_start_piece(struct mds_comm *c, struct mds_comm_p2p *p)
{
    struct mpi_comm *m = (struct mpi_comm *)c;
    int tag = MDS_COMM_TAG_P2P + p->call.tag, bytes = (int)p->piece;
    MPI_Request request = MPI_REQUEST_NULL;
    int code;

    if (p->call.kind == MDS_COMM_SEND)
        code = MPI_Isend(p->buf + p->at, bytes, MPI_BYTE, p->call.peer, tag, m->comm,
                         &request);
    else
        code = MPI_Irecv(p->buf + p->at, bytes, MPI_BYTE, p->call.peer, tag, m->comm,
                         &request);
    memcpy(&p->message, &request, sizeof request);
    return fail_mpi(c, p->call.kind == MDS_COMM_SEND ? "MPI_Isend" : "MPI_Irecv", code);
}

static enum mds_rc mpi_test_piece(struct mds_comm *c, struct mds_comm_p2p *p, int *done)
{
    MPI_Request request;
    MPI_Status status;
    int bytes = (int)p->piece, flag = 0, code;

    memcpy(&request, &p->message, sizeof request);
    code = MPI_Test(&request, &flag, &status);
    memcpy(&p->message, &request, sizeof request);
    MDS_TRY(fail_mpi(c, "MPI_Test", code));
    if (flag && p->call.kind == MDS_COMM_RECV)
        MPI_Get_count(&status, MPI_BYTE, &bytes);
    if (bytes != (int)p->piece)
        return mds_fail(MDS_EBUG, "%s: rank %d awaits %lld bytes, rank %d sends %d",
                        c->tag, c->world_ranks[c->rank], (long long)p->piece,
                        c->world_ranks[p->call.peer], bytes);
    *done = flag;
    return MDS_OK;
}

static void free_arrays(struct mpi_comm *m)
{
    for (int i = 0; i < MDS_COMM_SLOTS; i++) {
        free(m->slots[i].requests);
        free(m->slots[i].peers);
    }
    free(m->indices);
    free(m->statuses);
    free(m->base.world_ranks);
}

/* A broken group's MPI communicator is left alone: freeing it may wait for peers that
 * are gone. */
static void mpi_close(struct mds_comm *c)
{
    struct mpi_comm *m = (struct mpi_comm *)c;

    if (!c->broken) {
        mds_watchdog_start(MDS_WATCHDOG_LINE("MPI_Comm_free"), c->rank > 0);
        MPI_Comm_free(&m->comm);
        mds_watchdog_stop();
    }
    free_arrays(m);
    free(m);
}

static const struct mds_comm_ops mpi_ops = {
    .name = "mpi",
    .send = mpi_send,
    .recv = mpi_recv,
    .test = mpi_test,
    .awaited = mpi_awaited,
    .start_piece = mpi_start_piece,
    .test_piece = mpi_test_piece,
    .close = mpi_close,
};

static enum mds_rc alloc_arrays(struct mpi_comm *m, const int *ranks, int n)
{
    size_t messages = 2 * (size_t)(n - 1);

    m->base.world_ranks = mds_zalloc((size_t)n, sizeof *m->base.world_ranks);
    m->indices = mds_zalloc(messages, sizeof *m->indices);
    m->statuses = mds_zalloc(messages, sizeof *m->statuses);
    if (!m->base.world_ranks || !m->indices || !m->statuses)
        return MDS_EMEM;
    for (int i = 0; i < n; i++)
        m->base.world_ranks[i] = ranks[i];
    for (int i = 0; i < MDS_COMM_SLOTS; i++) {
        struct slot *s = &m->slots[i];

        s->requests = mds_zalloc(messages, sizeof *s->requests);
        s->peers = mds_zalloc(messages, sizeof *s->peers);
        if (!s->requests || !s->peers)
            return MDS_EMEM;
    }
    return MDS_OK;
}

static enum mds_rc split_off(struct mpi_comm *m, const int *ranks, int n)
{
    const struct mds_comm *c = &m->base;
    MPI_Group world, group;
    int code;

    MDS_TRY(fail_mpi(c, "MPI_Comm_group", MPI_Comm_group(MPI_COMM_WORLD, &world)));
    code = MPI_Group_incl(world, n, ranks, &group);
    MPI_Group_free(&world);
    MDS_TRY(fail_mpi(c, "MPI_Group_incl", code));
    mds_watchdog_start(MDS_WATCHDOG_LINE("MPI_Comm_create_group"), c->rank > 0);
    code = MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &m->comm);
    mds_watchdog_stop();
    MPI_Group_free(&group);
    MDS_TRY(fail_mpi(c, "MPI_Comm_create_group", code));
    return fail_mpi(c, "MPI_Comm_set_errhandler",
                    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN));
}

/* This process's place among ranks[n], or -1. */
static int find_self(const int *ranks, int n)
{
    int self = -1;

    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    for (int i = 0; i < n; i++)
        if (ranks[i] == self)
            return i;
    return -1;
}

enum mds_rc mds_comm_create_mpi(const int *ranks, int n, const char *tag,
                                struct mds_comm **out)
{
    int rank = n > 0 ? find_self(ranks, n) : -1;
    struct mpi_comm *m;
    enum mds_rc rc;

    if (rank < 0)
        return mds_fail(MDS_EBUG, "%s: this rank is not one of the group's %d", tag, n);
    if (n == 1)
        return mds_comm_create_alone(tag, out);
    m = mds_zalloc(1, sizeof *m);
    if (!m)
        return MDS_EMEM;
    rc = alloc_arrays(m, ranks, n);
    if (rc)
        goto free_m;
    rc = mds_comm_init(&m->base, &mpi_ops, rank, n, tag);
    if (rc)
        goto free_m;
    rc = split_off(m, ranks, n);
    if (rc) {
        m->base.broken = rc;
        mds_comm_destroy(&m->base);
        return rc;
    }
    *out = &m->base;
    return MDS_OK;

free_m:
    free_arrays(m);
    free(m);
    return rc;
}
