/* SPDX-License-Identifier: BSD-3-Clause */
/* --comm-check: members compare their calls before they make them. */
#include "comm/internal.h"

#include "base/alloc.h"

#include <stddef.h>
#include <stdio.h>

/* What members tell each other about a call. */
struct mds_comm_fingerprint {
    struct mds_comm_call call; /* .file is valid at the sender only */
    int world_rank;
    char file[96];
};

static int enabled;

void mds_comm_set_check(int check)
{
    enabled = check;
}

/* Call sites may differ: the branches of an if may make the same call.  In an exchange
 * each rank sends what it has. */
static int same_call(const struct mds_comm_call *a, const struct mds_comm_call *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
           a->peer == b->peer && (a->count == b->count || a->kind == MDS_COMM_EXCHANGE);
}

static void format_call(const struct mds_comm_fingerprint *p, char *text, int size)
{
    struct mds_comm_call call = p->call;

    call.file = p->file;
    call.number = 0; /* the message starts with it */
    mds_watch_call_text(&call, text, size);
}

static enum mds_rc compare_calls(struct mds_comm *c, const struct mds_comm_call *call)
{
    const struct mds_comm_fingerprint *first = &c->fingerprint[0], *p = first;
    char ours[256], theirs[256];

    while (p < first + c->peers.size && same_call(&p->call, &first->call))
        p++;
    if (p == first + c->peers.size)
        return MDS_OK;
    format_call(first, ours, sizeof ours);
    format_call(p, theirs, sizeof theirs);
    c->peers.broken = MDS_EBUG;
    return mds_fail(MDS_EBUG,
                    "%s: collective %lld is not the same on all ranks: rank %d: %s; "
                    "rank %d: %s",
                    c->peers.tag, (long long)call->number, first->world_rank, ours,
                    p->world_rank, theirs);
}

/* Fingerprints have their own tag, so that the k-th of one rank is compared with the
 * k-th of the others, whatever each is about to call. */
enum mds_rc mds_comm_check(struct mds_comm *c, const struct mds_comm_call *call)
{
    const int64_t bytes = sizeof *c->fingerprint;
    struct mds_comm_fingerprint *own;

    if (!enabled)
        return MDS_OK;
    if (!c->fingerprint)
        c->fingerprint = mds_zalloc((size_t)c->peers.size, sizeof *c->fingerprint);
    if (!c->fingerprint)
        return MDS_EMEM;
    own = &c->fingerprint[c->peers.rank];
    own->call = *call;
    own->world_rank = c->peers.world[c->peers.rank];
    snprintf(own->file, sizeof own->file, "%s", call->file);
    for (int i = 1; i < c->peers.size; i++) {
        int p = (c->peers.rank + i) % c->peers.size;

        MDS_TRY(
            mds_mpi_recv(c->mpi, 0, MDS_COMM_TAG_CHECK, p, &c->fingerprint[p], bytes));
        MDS_TRY(mds_mpi_send(c->mpi, 0, MDS_COMM_TAG_CHECK, p,
                             &c->fingerprint[c->peers.rank], bytes));
    }
    MDS_TRY(mds_comm_block(c, call, NULL));
    return compare_calls(c, call);
}
