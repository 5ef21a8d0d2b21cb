/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of host memory by MPI_Isend and MPI_Irecv. */
#include "transport/transport.h"

#include "base/alloc.h"

#include <limits.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* The messages of a slot, in the order they were added.  Finished ones are
 * MPI_REQUEST_NULL until the last one finishes and the slot is emptied. */
struct slot {
    MPI_Request *requests; /* [2 (size - 1)], in mds_mpi.requests */
    int *peers;            /* of each request: rank in the group, or ~rank for a send */
    int used, left;
};

struct mds_mpi {
    struct mds_peers *peers;
    MPI_Comm comm;
    int *indices;          /* [2 (size - 1)]: MPI_Testsome's results */
    MPI_Status *statuses;  /* [2 (size - 1)]: and errors */
    MPI_Request *requests; /* [slots, 2 (size - 1)] */
    int *peer_of;          /* [slots, 2 (size - 1)]: the slots' peers */
    struct slot slots[MDS_MPI_SLOTS];
};

/* Turn the code that `call` returned into a status, with MPI's error text. */
static enum mds_rc fail_mpi(const struct mds_mpi *m, const char *call, int code)
{
    const struct mds_peers *us = m->peers;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int len;

    if (code == MPI_SUCCESS)
        return MDS_OK;
    MPI_Error_string(code, text, &len);
    for (char *p = text; *p; p++)
        if (*p == '\n')
            *p = ' ';
    return mds_fail(MDS_ECOMM, "%s, rank %d of %d: %s: %s", us->tag, us->rank, us->size,
                    call, text);
}

static enum mds_rc post_message(struct mds_mpi *m, int sends, void *buf, int64_t bytes,
                                int peer, int tag, MPI_Request *r)
{
    int n = (int)bytes;

    return sends ? fail_mpi(m, "MPI_Isend",
                            MPI_Isend(buf, n, MPI_BYTE, peer, tag, m->comm, r))
                 : fail_mpi(m, "MPI_Irecv",
                            MPI_Irecv(buf, n, MPI_BYTE, peer, tag, m->comm, r));
}

static enum mds_rc add_to_slot(struct mds_mpi *m, int slot, int sends, void *buf,
                               int64_t bytes, int peer, int tag)
{
    struct slot *s = &m->slots[slot];

    if (s->used >= 2 * (m->peers->size - 1) || bytes < 0 || bytes > INT_MAX)
        return mds_fail(MDS_EBUG,
                        "%s: message %d of slot %d has %lld bytes, or the slot is full",
                        m->peers->tag, s->used, slot, (long long)bytes);
    s->peers[s->used] = sends ? ~peer : peer;
    s->left++;
    return post_message(m, sends, buf, bytes, peer, tag, &s->requests[s->used++]);
}

enum mds_rc mds_mpi_send(struct mds_mpi *m, int slot, int tag, int peer,
                         const void *buf, int64_t bytes)
{
    return add_to_slot(m, slot, 1, (void *)buf, bytes, peer, tag);
}

enum mds_rc mds_mpi_recv(struct mds_mpi *m, int slot, int tag, int peer, void *buf,
                         int64_t bytes)
{
    return add_to_slot(m, slot, 0, buf, bytes, peer, tag);
}

enum mds_rc mds_mpi_test(struct mds_mpi *m, int slot, int *finished, int *left)
{
    struct slot *s = &m->slots[slot];
    int n = 0, code = MPI_SUCCESS;

    if (s->left > 0)
        code = MPI_Testsome(s->used, s->requests, &n, m->indices, m->statuses);
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < n; i++)
        if (m->statuses[i].MPI_ERROR != MPI_SUCCESS)
            code = m->statuses[i].MPI_ERROR;
    MDS_TRY(fail_mpi(m, "MPI_Testsome", code));
    *finished = n;
    s->left -= n;
    *left = s->left;
    if (s->left == 0)
        s->used = 0;
    return MDS_OK;
}

int mds_mpi_awaited(const struct mds_mpi *m, int slot)
{
    const struct slot *s = &m->slots[slot];
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

_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t),
               "an MPI_Request fits into a handle");

enum mds_rc mds_mpi_start(struct mds_mpi *m, const struct mds_comm_call *call, int tag,
                          void *buf, int64_t bytes, uint64_t *handle)
{
    MPI_Request request = MPI_REQUEST_NULL;
    enum mds_rc rc = post_message(m, call->kind == MDS_COMM_SEND, buf, bytes,
                                  call->peer, tag, &request);

    memcpy(handle, &request, sizeof request);
    return rc;
}

enum mds_rc mds_mpi_finish(struct mds_mpi *m, const struct mds_comm_call *call,
                           int64_t bytes, uint64_t *handle, int *done)
{
    const struct mds_peers *us = m->peers;
    MPI_Request request;
    MPI_Status status;
    int received = (int)bytes, code;

    memcpy(&request, handle, sizeof request);
    code = MPI_Test(&request, done, &status);
    memcpy(handle, &request, sizeof request);
    MDS_TRY(fail_mpi(m, "MPI_Test", code));
    if (*done && call->kind == MDS_COMM_RECV)
        MPI_Get_count(&status, MPI_BYTE, &received);
    if (received != (int)bytes)
        return mds_fail(MDS_EBUG, "%s: rank %d expects %lld bytes, but rank %d sent %d",
                        us->tag, us->world[us->rank], (long long)bytes,
                        us->world[call->peer], received);
    return MDS_OK;
}

/* A broken group's MPI communicator is not freed: MPI_Comm_free may wait for peers that
 * are gone. */
void mds_mpi_close(struct mds_mpi *m)
{
    if (!m->peers->broken && m->comm != MPI_COMM_NULL) {
        mds_watchdog_start(MDS_WATCHDOG_LINE("MPI_Comm_free"), m->peers->rank > 0);
        MPI_Comm_free(&m->comm);
        mds_watchdog_stop();
    }
    free(m->requests);
    free(m->peer_of);
    free(m->indices);
    free(m->statuses);
    free(m);
}

static enum mds_rc alloc_arrays(struct mds_mpi *m)
{
    size_t messages = 2 * (size_t)(m->peers->size - 1);

    m->requests = mds_zalloc(MDS_MPI_SLOTS * messages, sizeof *m->requests);
    m->peer_of = mds_zalloc(MDS_MPI_SLOTS * messages, sizeof *m->peer_of);
    m->indices = mds_zalloc(messages, sizeof *m->indices);
    m->statuses = mds_zalloc(messages, sizeof *m->statuses);
    if (!m->requests || !m->peer_of || !m->indices || !m->statuses)
        return MDS_EMEM;
    for (int i = 0; i < MDS_MPI_SLOTS; i++) {
        m->slots[i].requests = m->requests + (size_t)i * messages;
        m->slots[i].peers = m->peer_of + (size_t)i * messages;
    }
    return MDS_OK;
}

static enum mds_rc create_communicator(struct mds_mpi *m)
{
    MPI_Group world, group;
    int code;

    MDS_TRY(fail_mpi(m, "MPI_Comm_group", MPI_Comm_group(MPI_COMM_WORLD, &world)));
    code = MPI_Group_incl(world, m->peers->size, m->peers->world, &group);
    MPI_Group_free(&world);
    MDS_TRY(fail_mpi(m, "MPI_Group_incl", code));
    mds_watchdog_start(MDS_WATCHDOG_LINE("MPI_Comm_create_group"), m->peers->rank > 0);
    code = MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &m->comm);
    mds_watchdog_stop();
    MPI_Group_free(&group);
    MDS_TRY(fail_mpi(m, "MPI_Comm_create_group", code));
    return fail_mpi(m, "MPI_Comm_set_errhandler",
                    MPI_Comm_set_errhandler(m->comm, MPI_ERRORS_RETURN));
}

int mds_mpi_find_self(const int *ranks, int n)
{
    int self = -1;

    MPI_Comm_rank(MPI_COMM_WORLD, &self);
    for (int i = 0; i < n; i++)
        if (ranks[i] == self)
            return i;
    return -1;
}

enum mds_rc mds_mpi_open(struct mds_peers *peers, struct mds_mpi **out)
{
    struct mds_mpi *m = mds_zalloc(1, sizeof *m);
    enum mds_rc rc;

    if (!m)
        return MDS_EMEM;
    m->peers = peers;
    m->comm = MPI_COMM_NULL;
    rc = alloc_arrays(m);
    if (!rc)
        rc = create_communicator(m);
    if (rc) {
        peers->broken = rc;
        mds_mpi_close(m);
        return rc;
    }
    *out = m;
    return MDS_OK;
}
