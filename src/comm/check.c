/* SPDX-License-Identifier: BSD-3-Clause */
/* The debug mode in which members compare their calls before they make them. */
#include "comm/internal.h"

#include "base/alloc.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What travels.  Zeroed before it is filled in, so that bytes can be compared. */
struct mds_comm_print {
    int kind, dtype, op, peer, line, world_rank;
    int64_t count;
    char file[96];
};

static int on;

void mds_comm_set_check(int check)
{
    on = check;
}

int mds_comm_checks(void)
{
    return on;
}

static void take_print(const struct mds_comm *c, const struct mds_comm_call *call,
                       struct mds_comm_print *p)
{
    memset(p, 0, sizeof *p);
    p->kind = (int)call->kind;
    p->dtype = call->dtype;
    p->op = call->op;
    p->peer = call->peer;
    p->line = call->line;
    p->world_rank = c->peers.world[c->peers.rank];
    p->count = call->count;
    snprintf(p->file, sizeof p->file, "%s", call->file);
}

/* Two lines may make the same call, in the branches of an if. */
static int same(const struct mds_comm_print *a, const struct mds_comm_print *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && a->op == b->op &&
           a->peer == b->peer && a->count == b->count;
}

static void put(const struct mds_comm_print *p, char *text, int size)
{
    const struct mds_comm_call call = {
        .kind = (enum mds_comm_kind)p->kind,
        .dtype = p->dtype,
        .op = p->op,
        .peer = p->peer,
        .line = p->line,
        .file = p->file,
        .count = p->count,
    };

    mds_watch_call_text(&call, text, size);
}

static enum mds_rc compare(struct mds_comm *c, const struct mds_comm_call *call)
{
    const struct mds_comm_print *first = &c->print[0], *p = first;
    char ours[256], theirs[256];

    while (p < first + c->peers.size && same(p, first))
        p++;
    if (p == first + c->peers.size)
        return MDS_OK;
    put(first, ours, sizeof ours);
    put(p, theirs, sizeof theirs);
    c->peers.broken = MDS_EBUG;
    return mds_fail(MDS_EBUG,
                    "%s: collective %lld is not the same on all ranks: rank %d: %s; "
                    "rank %d: %s",
                    c->peers.tag, (long long)call->number, first->world_rank, ours,
                    p->world_rank, theirs);
}

/* Under a tag of its own, so that the k-th print of one rank meets the k-th of the
 * others, whatever they are about to call. */
enum mds_rc mds_comm_check(struct mds_comm *c, const struct mds_comm_call *call)
{
    const int64_t bytes = sizeof *c->print;

    if (!c->print)
        c->print = mds_zalloc((size_t)c->peers.size, sizeof *c->print);
    if (!c->print)
        return MDS_EMEM;
    take_print(c, call, &c->print[c->peers.rank]);
    for (int i = 1; i < c->peers.size; i++) {
        int p = (c->peers.rank + i) % c->peers.size;

        MDS_TRY(mds_mpi_recv(c->mpi, 0, MDS_COMM_TAG_CHECK, p, &c->print[p], bytes));
        MDS_TRY(mds_mpi_send(c->mpi, 0, MDS_COMM_TAG_CHECK, p, &c->print[c->peers.rank],
                             bytes));
    }
    MDS_TRY(mds_comm_block(c, call, NULL));
    return compare(c, call);
}
