/* SPDX-License-Identifier: BSD-3-Clause */
/* The cuda device: memory of a GPU and kernels/cuda. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "device/backend.h"

#ifdef HAVE_CUDA

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "device/cuda_gpu.h"
#include "kernels/cuda/cuda.h"
#include "kernels/library.h"

#include <cuda_profiler_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPU memory left for libraries: their code, and workspaces of cuBLAS and cuDNN.  What
 * NCCL and attention need besides is computed from the calls. */
static const int64_t margin_bytes = INT64_C(1) << 30;

/* Copies to the GPU pass through these pinned buffers in turn, so that the caller need
 * not wait; those from it as well. */
enum { STAGES = 4, STAGE_BYTES = 1 << 20 };

/* Asynchronous copies in one direction, on a stream of their own.  Copy n records
 * done[n % MAX_COPIES]; if a later copy has reused that event, it implies copy n. */
enum { MAX_COPIES = 128 };
struct copy_stream {
    cudaStream_t stream;
    cudaEvent_t ready, done[MAX_COPIES];
};

/* The host is at most 2 MAX_AHEAD operations, of a few kernels each, ahead of the GPU.
 * With about 1024 kernels queued CUDA blocks inside a launch, and nobody would notice
 * that a peer that the queue waits for is lost. */
enum { MAX_AHEAD = 128 };

struct cuda_state {
    cudaError_t failed; /* the first failure; the next copy_out or wait reports it */
    const char *what;   /* the call that failed; a literal */
    enum mds_rc ended;  /* the watch's failure, which ended wait_for_event */
    char why[512];      /* and its error text */
    char *staging;      /* [STAGES, STAGE_BYTES] */
    cudaEvent_t used[STAGES];
    int stage;
    struct copy_stream copy[2]; /* to the host, from it */
    cudaEvent_t mark[2];        /* recorded in turn, after MAX_AHEAD operations each */
    int64_t launched;
    int records; /* the stream is being recorded: it cannot be asked how far it is */
};

const char *mds_cuda_why(void)
{
    return mdsk_cuda_error_text();
}

/* Keep the first error, for calls that return none; copy_out and wait report it. */
static void note_error(struct mds_dev *dev, const char *what, cudaError_t code)
{
    struct cuda_state *own = dev->own;

    if (code == cudaSuccess || own->failed != cudaSuccess)
        return;
    own->failed = code;
    own->what = what;
}

static enum mds_rc apply_memory_limit(struct mds_dev *dev)
{
    size_t left = 0, total = 0;
    int64_t most;

    MDS_TRY(mds_cuda_check("cudaMemGetInfo", cudaMemGetInfo(&left, &total)));
    most = (int64_t)left - margin_bytes;
    if (most < 0)
        most = 0;
    if (dev->memory_bytes <= 0 || dev->memory_bytes > most)
        dev->memory_bytes = most;
    return MDS_OK;
}

static void close_events(cudaEvent_t *e, int n)
{
    for (int i = 0; i < n; i++)
        if (e[i])
            cudaEventDestroy(e[i]);
}

static enum mds_rc open_events(cudaEvent_t *e, int n)
{
    for (int i = 0; i < n; i++)
        MDS_TRY(mds_cuda_check("cudaEventCreate", cudaEventCreateWithFlags(
                                                      &e[i], cudaEventDisableTiming)));
    return MDS_OK;
}

static void close_copy_stream(struct copy_stream *w)
{
    close_events(w->done, MAX_COPIES);
    close_events(&w->ready, 1);
    if (w->stream)
        cudaStreamDestroy(w->stream);
}

static enum mds_rc open_copy_stream(struct copy_stream *w)
{
    MDS_TRY(mds_cuda_check("cudaStreamCreate", cudaStreamCreateWithFlags(
                                                   &w->stream, cudaStreamNonBlocking)));
    MDS_TRY(open_events(&w->ready, 1));
    return open_events(w->done, MAX_COPIES);
}

static void close_state(struct cuda_state *own)
{
    close_copy_stream(&own->copy[0]);
    close_copy_stream(&own->copy[1]);
    close_events(own->used, STAGES);
    close_events(own->mark, 2);
    cudaFreeHost(own->staging);
    free(own);
}

static enum mds_rc open_state(struct cuda_state *own)
{
    MDS_TRY(
        mds_cuda_check("cudaMallocHost", cudaMallocHost((void **)&own->staging,
                                                        (size_t)STAGES * STAGE_BYTES)));
    MDS_TRY(open_events(own->used, STAGES));
    MDS_TRY(open_events(own->mark, 2));
    MDS_TRY(open_copy_stream(&own->copy[0]));
    return open_copy_stream(&own->copy[1]);
}

static enum mds_rc cuda_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    cudaStream_t stream = NULL;
    struct cuda_state *own;
    enum mds_rc rc;
    int gpu = 0;

    MDS_TRY(mds_cuda_pick(spec, &gpu));
    MDS_TRY(mds_cuda_check("cudaSetDevice", cudaSetDevice(gpu)));
    MDS_TRY(mds_cuda_describe(dev, gpu));
    if (mdsk_cuda_open())
        return mds_fail(MDS_EDEVICE,
                        "device cuda: %s; load the CUDA module, or add the "
                        "library's directory to LD_LIBRARY_PATH",
                        mdsk_library_error_text());
    MDS_TRY(apply_memory_limit(dev));
    own = mds_zalloc(1, sizeof *own);
    if (!own)
        return MDS_EMEM;
    rc = open_state(own);
    if (!rc)
        rc = mds_cuda_check("cudaStreamCreate",
                            cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (rc) {
        close_state(own);
        return rc;
    }
    dev->own = own;
    dev->stream = stream;
    mdsk_cuda_set_repeatable(spec->repeatable);
    if (spec->hot_after_s > 0)
        mdsk_cuda_set_hot_after(spec->hot_after_s);
    dev->kern = mdsk_cuda();
    return MDS_OK;
}

static void cuda_close(struct mds_dev *dev)
{
    cudaStreamSynchronize(dev->stream);
    cudaStreamDestroy(dev->stream);
    close_state(dev->own);
}

static void *cuda_alloc(struct mds_dev *dev, int64_t bytes)
{
    void *p = NULL;

    if (cudaMalloc(&p, bytes > 0 ? (size_t)bytes : 1) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    note_error(dev, "cudaMemsetAsync",
               cudaMemsetAsync(p, 0, (size_t)bytes, dev->stream));
    return p;
}

static void cuda_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)bytes;
    note_error(dev, "cudaFree", cudaFree(p));
}

static void cuda_zero(struct mds_dev *dev, void *p, int64_t bytes)
{
    note_error(dev, "cudaMemsetAsync",
               cudaMemsetAsync(p, 0, (size_t)bytes, dev->stream));
}

static void cuda_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    note_error(dev, "copy on the GPU",
               cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice,
                               dev->stream));
}

static int cuda_owns(const struct mds_dev *dev, const void *p)
{
    struct cudaPointerAttributes at;

    (void)dev;
    return cudaPointerGetAttributes(&at, p) == cudaSuccess &&
           at.type == cudaMemoryTypeDevice;
}

/* Wait until the GPU has reached event e.  Its queue may itself wait for a message of a
 * peer.  Once the watch reports that peer lost, later waits return at once. */
static void wait_for_event(struct mds_dev *dev, cudaEvent_t e, const char *what)
{
    struct cuda_state *own = dev->own;
    struct mds_dev_poll p = {0};
    cudaError_t code = cudaSuccess;
    double begin = mds_clock_s();

    while (!own->ended && (code = cudaEventQuery(e)) == cudaErrorNotReady) {
        own->ended = mds_dev_poll_pause(dev, &p);
        if (own->ended)
            snprintf(own->why, sizeof own->why, "%s", mds_fail_text());
    }
    mds_profile_host_wait(dev, mds_clock_s() - begin);
    if (!own->ended)
        note_error(dev, what, code);
}

static void cuda_launched(struct mds_dev *dev)
{
    struct cuda_state *own = dev->own;
    cudaEvent_t *mark = &own->mark[own->launched / MAX_AHEAD % 2];

    if (own->records || ++own->launched % MAX_AHEAD)
        return;
    wait_for_event(dev, *mark, "an earlier operation");
    note_error(dev, "cudaEventRecord", cudaEventRecord(*mark, dev->stream));
}

/* Copy to pinned memory now; the copy from there to the GPU is queued. */
static void copy_staged(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    struct cuda_state *own = dev->own;
    char *stage = own->staging + (int64_t)own->stage * STAGE_BYTES;

    wait_for_event(dev, own->used[own->stage], "waiting for a copy");
    if (own->ended)
        return;
    memcpy(stage, from, (size_t)bytes);
    note_error(
        dev, "copy to the GPU",
        cudaMemcpyAsync(to, stage, (size_t)bytes, cudaMemcpyHostToDevice, dev->stream));
    note_error(dev, "cudaEventRecord",
               cudaEventRecord(own->used[own->stage], dev->stream));
    own->stage = (own->stage + 1) % STAGES;
}

/* Of part k of a copy. */
static int64_t part_bytes(int64_t bytes, int64_t k)
{
    return mds_min(bytes - k * STAGE_BYTES, STAGE_BYTES);
}

static void cuda_copy_in(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    for (int64_t k = 0; k * STAGE_BYTES < bytes; k++)
        copy_staged(dev, (char *)to + k * STAGE_BYTES,
                    (const char *)from + k * STAGE_BYTES, part_bytes(bytes, k));
}

static enum mds_rc failure(const struct cuda_state *own)
{
    if (own->ended)
        return mds_fail(own->ended, "%s", own->why);
    return mds_cuda_check(own->what, own->failed);
}

/* Wait until everything queued is done. */
static enum mds_rc cuda_wait(struct mds_dev *dev)
{
    const struct cuda_state *own = dev->own;
    struct mds_dev_poll p = {0};
    cudaError_t code;

    while ((code = cudaStreamQuery(dev->stream)) == cudaErrorNotReady)
        MDS_TRY(mds_dev_poll_pause(dev, &p));
    note_error(dev, "an earlier operation", code);
    return failure(own);
}

/* Part k of a copy to the host, to a pinned buffer; queued. */
static void copy_part_out(struct mds_dev *dev, const void *from, int64_t k, int64_t n)
{
    struct cuda_state *own = dev->own;

    note_error(dev, "copy from the GPU",
               cudaMemcpyAsync(own->staging + k % STAGES * STAGE_BYTES,
                               (const char *)from + k * STAGE_BYTES, (size_t)n,
                               cudaMemcpyDeviceToHost, dev->stream));
    note_error(dev, "cudaEventRecord",
               cudaEventRecord(own->used[k % STAGES], dev->stream));
}

/* Through the same pinned buffers: the copy follows what is queued, so that the host
 * waits once, calling the watch. */
static enum mds_rc cuda_copy_out(struct mds_dev *dev, void *to, const void *from,
                                 int64_t bytes)
{
    struct cuda_state *own = dev->own;
    int64_t asked = 0;

    for (int64_t k = 0; k * STAGE_BYTES < bytes && !own->ended; k++) {
        for (; asked * STAGE_BYTES < bytes && asked < k + STAGES; asked++)
            copy_part_out(dev, from, asked, part_bytes(bytes, asked));
        wait_for_event(dev, own->used[k % STAGES], "an earlier operation");
        memcpy((char *)to + k * STAGE_BYTES, own->staging + k % STAGES * STAGE_BYTES,
               (size_t)part_bytes(bytes, k));
    }
    return failure(own);
}

/* ---- the profile ---- */

static void cuda_record_time(struct mds_dev *dev, struct mds_timestamp *t, void *stream)
{
    cudaEvent_t event = t->event;

    if (!event)
        note_error(dev, "cudaEventCreate", cudaEventCreate(&event));
    t->event = event;
    note_error(dev, "cudaEventRecord",
               cudaEventRecord(event, stream ? stream : dev->stream));
}

static double cuda_elapsed(struct mds_dev *dev, const struct mds_timestamp *a,
                           const struct mds_timestamp *b)
{
    float ms = 0;

    note_error(dev, "cudaEventSynchronize", cudaEventSynchronize(b->event));
    note_error(dev, "cudaEventElapsedTime",
               cudaEventElapsedTime(&ms, a->event, b->event));
    return ms * 1e-3;
}

static void cuda_free_time(struct mds_dev *dev, struct mds_timestamp *t)
{
    (void)dev;
    if (t->event)
        cudaEventDestroy(t->event);
    t->event = NULL;
}

static void cuda_capture(struct mds_dev *dev, int on)
{
    (void)dev;
    if (on)
        cudaProfilerStart();
    else
        cudaProfilerStop();
}

static void cuda_start_copy(struct mds_dev *dev, struct mds_dev_async_copy c, void *to,
                            const void *from, int64_t bytes)
{
    struct copy_stream *w = &((struct cuda_state *)dev->own)->copy[c.direction];
    enum cudaMemcpyKind kind =
        c.direction == 0 ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;

    note_error(dev, "cudaEventRecord", cudaEventRecord(w->ready, dev->stream));
    note_error(dev, "cudaStreamWaitEvent", cudaStreamWaitEvent(w->stream, w->ready, 0));
    note_error(dev, "asynchronous copy",
               cudaMemcpyAsync(to, from, (size_t)bytes, kind, w->stream));
    note_error(dev, "cudaEventRecord",
               cudaEventRecord(w->done[c.number % MAX_COPIES], w->stream));
}

static void cuda_wait_copy(struct mds_dev *dev, struct mds_dev_async_copy c)
{
    struct copy_stream *w = &((struct cuda_state *)dev->own)->copy[c.direction];

    note_error(dev, "waiting for a copy",
               cudaStreamWaitEvent(dev->stream, w->done[c.number % MAX_COPIES], 0));
}

static int cuda_copy_done(struct mds_dev *dev, struct mds_dev_async_copy c)
{
    struct copy_stream *w = &((struct cuda_state *)dev->own)->copy[c.direction];
    cudaError_t code = cudaEventQuery(w->done[c.number % MAX_COPIES]);

    if (code == cudaErrorNotReady)
        return 0;
    note_error(dev, "asynchronous copy", code);
    return 1;
}

/* ---- recordings ---- */

static enum mds_rc cuda_record(struct mds_dev *dev)
{
    struct cuda_state *own = dev->own;

    MDS_TRY(mds_cuda_check(
        "cudaStreamBeginCapture",
        cudaStreamBeginCapture(dev->stream, cudaStreamCaptureModeThreadLocal)));
    own->records = 1;
    return MDS_OK;
}

static enum mds_rc cuda_recorded(struct mds_dev *dev, void **out)
{
    struct cuda_state *own = dev->own;
    cudaGraphExec_t runs = NULL;
    cudaGraph_t graph = NULL;
    enum mds_rc rc = mds_cuda_check("cudaStreamEndCapture",
                                    cudaStreamEndCapture(dev->stream, &graph));

    own->records = 0;
    if (rc)
        return rc;
    rc = mds_cuda_check("cudaGraphInstantiate",
                        cudaGraphInstantiateWithFlags(&runs, graph, 0));
    cudaGraphDestroy(graph);
    *out = runs;
    return rc;
}

static void cuda_replay(struct mds_dev *dev, void *recording)
{
    note_error(dev, "cudaGraphLaunch", cudaGraphLaunch(recording, dev->stream));
}

static void cuda_free_recording(struct mds_dev *dev, void *recording)
{
    note_error(dev, "cudaGraphExecDestroy", cudaGraphExecDestroy(recording));
}

const struct mds_dev_ops mds_dev_cuda = {
    .name = "cuda",
    .host_ops = &mds_dev_pinned,
    .open = cuda_open,
    .close = cuda_close,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .zero = cuda_zero,
    .copy = cuda_copy,
    .owns = cuda_owns,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .wait = cuda_wait,
    .launched = cuda_launched,
    .record_time = cuda_record_time,
    .elapsed = cuda_elapsed,
    .free_time = cuda_free_time,
    .capture = cuda_capture,
    .start_copy = cuda_start_copy,
    .wait_copy = cuda_wait_copy,
    .copy_done = cuda_copy_done,
    .record = cuda_record,
    .recorded = cuda_recorded,
    .replay = cuda_replay,
    .free_recording = cuda_free_recording,
};

#else

const char *mds_cuda_why(void)
{
    return "";
}

const struct mds_dev_ops mds_dev_cuda = {
    .name = "cuda",
    .missing = "this build has no CUDA (configure --with-cuda); use --device cpu",
};

#endif
