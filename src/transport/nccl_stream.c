/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_stream.h. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_NCCL

#include "transport/nccl_stream.h"

#include "device/profile.h"

#include <string.h>

static const struct mds_nccl *const nccl = &mds_nccl;

enum mds_rc mds_nccl_check(const struct mds_direct *d, const char *call,
                           ncclComm_t comm, ncclResult_t code)
{
    if (code == ncclSuccess)
        return MDS_OK;
    return mds_fail(MDS_ECOMM, "%s, rank %d of %d: %s: %s (%s)", d->peers->tag,
                    d->peers->rank, d->peers->size, call,
                    nccl->ncclGetErrorString(code), nccl->ncclGetLastError(comm));
}

enum mds_rc mds_nccl_check_cuda(const struct mds_direct *d, const char *call,
                                cudaError_t code)
{
    if (code == cudaSuccess)
        return MDS_OK;
    return mds_fail(MDS_EDEVICE, "%s, rank %d of %d: %s: %s", d->peers->tag,
                    d->peers->rank, d->peers->size, call, cudaGetErrorString(code));
}

void mds_nccl_limit_start(const struct mds_direct *d, const struct mds_comm_call *call)
{
    mds_watch_begin(d->peers->tag, call);
    if (call->peer >= 0 && call->peer != d->peers->rank)
        mds_watch_awaited(d->peers->world[call->peer]);
    mds_watchdog_start(MDS_WATCHDOG_LINE("an NCCL call"), d->peers->rank > 0);
}

void mds_nccl_limit_stop(void)
{
    mds_watchdog_stop();
    mds_watch_end();
}

static enum mds_rc make_stream(const struct mds_direct *d, struct mds_nccl_stream *st)
{
    unsigned flags = cudaEventDisableTiming;
    int least = 0, most = 0;

    MDS_TRY(mds_nccl_check_cuda(d, "cudaDeviceGetStreamPriorityRange",
                                cudaDeviceGetStreamPriorityRange(&least, &most)));
    MDS_TRY(mds_nccl_check_cuda(
        d, "cudaStreamCreateWithPriority",
        cudaStreamCreateWithPriority(&st->stream, cudaStreamNonBlocking, most)));
    MDS_TRY(mds_nccl_check_cuda(d, "cudaEventCreate",
                                cudaEventCreateWithFlags(&st->ready, flags)));
    for (int i = 0; i < MDS_NCCL_EVENTS; i++)
        MDS_TRY(mds_nccl_check_cuda(d, "cudaEventCreate",
                                    cudaEventCreateWithFlags(&st->over[i], flags)));
    return MDS_OK;
}

enum mds_rc mds_nccl_stream_open(const struct mds_direct *d, struct mds_nccl_stream *st,
                                 const ncclUniqueId *id, int size, int rank, int ctas)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    if (ctas > 0)
        config.maxCTAs = ctas;
    MDS_TRY(make_stream(d, st));
    return mds_nccl_check(
        d, "ncclCommInitRankConfig", NULL,
        nccl->ncclCommInitRankConfig(&st->comm, size, *id, rank, &config));
}

void mds_nccl_stream_close(struct mds_nccl_stream *st, int broken)
{
    if (st->comm && broken)
        nccl->ncclCommAbort(st->comm);
    else if (st->comm && cudaStreamSynchronize(st->stream) == cudaSuccess)
        nccl->ncclCommDestroy(st->comm);
    st->comm = NULL;
    for (int i = 0; i < MDS_NCCL_EVENTS; i++)
        if (st->over[i])
            cudaEventDestroy(st->over[i]);
    if (st->ready)
        cudaEventDestroy(st->ready);
    if (st->stream)
        cudaStreamDestroy(st->stream);
    memset(st, 0, sizeof *st);
}

enum mds_rc mds_nccl_stream_begin_call(const struct mds_direct *d,
                                       struct mds_nccl_stream *st,
                                       const struct mds_comm_call *call)
{
    cudaStream_t compute = mds_dev_stream(d->dev);

    MDS_TRY(
        mds_nccl_check_cuda(d, "cudaEventRecord", cudaEventRecord(st->ready, compute)));
    MDS_TRY(mds_nccl_check_cuda(d, "cudaStreamWaitEvent",
                                cudaStreamWaitEvent(st->stream, st->ready, 0)));
    mds_range_begin(mds_comm_kind_name(call->kind));
    mds_profile_begin(d->dev, MDS_PROFILE_MOVE, (int)call->kind,
                      (struct mdsk_cost){0, (double)call->wire_bytes}, st->stream);
    mds_nccl_limit_start(d, call);
    return MDS_OK;
}

enum mds_rc mds_nccl_stream_end_call(const struct mds_direct *d,
                                     struct mds_nccl_stream *st,
                                     const struct mds_comm_call *call,
                                     ncclResult_t code)
{
    int at = (int)((st->queued + 1) % MDS_NCCL_EVENTS);

    mds_nccl_limit_stop();
    MDS_TRY(mds_nccl_check(d, mds_comm_kind_name(call->kind), st->comm, code));
    st->queued++;
    st->call[at] = *call;
    mds_profile_end(d->dev, MDS_PROFILE_MOVE, st->stream);
    mds_range_end();
    return mds_nccl_check_cuda(d, "cudaEventRecord",
                               cudaEventRecord(st->over[at], st->stream));
}

enum mds_rc mds_nccl_stream_wait_call(const struct mds_direct *d,
                                      const struct mds_nccl_stream *st, int64_t ticket)
{
    return mds_nccl_check_cuda(d, "cudaStreamWaitEvent",
                               cudaStreamWaitEvent(mds_dev_stream(d->dev),
                                                   st->over[ticket % MDS_NCCL_EVENTS],
                                                   0));
}

void mds_nccl_stream_update(struct mds_nccl_stream *st)
{
    if (st->completed < st->queued - MDS_NCCL_EVENTS)
        st->completed = st->queued - MDS_NCCL_EVENTS;
    while (st->completed < st->queued &&
           cudaEventQuery(st->over[(st->completed + 1) % MDS_NCCL_EVENTS]) ==
               cudaSuccess)
        st->completed++;
}

int mds_nccl_stream_test_call(const struct mds_nccl_stream *st, int64_t ticket)
{
    return cudaEventQuery(st->over[ticket % MDS_NCCL_EVENTS]) == cudaSuccess;
}

#else

typedef int mds_nccl_stream_needs_nccl; /* ISO C forbids an empty source */

#endif
