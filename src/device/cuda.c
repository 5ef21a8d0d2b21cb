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
#include "base/str.h"
#include "base/units.h"
#include "kernels/cuda/cuda.h"
#include "kernels/library.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For what libraries take of the GPU's memory by themselves: code, cuBLAS's and cuDNN's
 * workspaces.  What NCCL and attention take besides is known from the calls. */
static const int64_t margin_bytes = INT64_C(1) << 30;

/* Small copies go by pinned memory, in turns, so that the caller need not wait. */
enum { TURNS = 4, TURN_BYTES = 1 << 20 };

/* Copies of one direction beside the queue.  done[n % AT_ONCE] is copy n's; one that
 * has been taken over by a later copy tells of both. */
enum { AT_ONCE = 128 };
struct way {
    cudaStream_t stream;
    cudaEvent_t ready, done[AT_ONCE];
};

/* Operations, each of some kernels, of which the host is at most twice as many ahead of
 * the GPU: with about 1024 kernels in a queue CUDA keeps it inside of a launch, where
 * nobody looks after peers that the queue may wait for. */
enum { AHEAD = 128 };

struct own {
    cudaError_t failed; /* the first failure, told at the next copy_out */
    const char *what;   /* of what; a literal */
    enum mds_rc ended;  /* the watch's failure, in which a wait of await's ended; */
    char why[512];      /* its sentence */
    char *staging;      /* [TURNS, TURN_BYTES] */
    cudaEvent_t used[TURNS];
    int turn;
    struct way way[2];   /* to the host, from it */
    cudaEvent_t mark[2]; /* behind the last two AHEADs of operations */
    int64_t launched;
};

const char *mds_cuda_why(void)
{
    return mdsk_cuda_why();
}

/* Streams that share one of the GPU's queues wait for each other, and one may hold a
 * message for which a peer waits: 32 queues are the most there are, 8 what is made
 * unless asked. */
static const char queues_name[] = "CUDA_DEVICE_MAX_CONNECTIONS";

static void ask_for_queues(void)
{
    setenv(queues_name, "32", 0);
}

/* Scripts for Megatron ask for one, for the sake of an order that mds does not need. */
static void warn_of_few_queues(void)
{
    const char *queues = getenv(queues_name);

    if (queues && atoi(queues) < 8)
        mds_warn(
            "%s is %s: what should run side by side waits for each other; unset it",
            queues_name, queues);
}

/* No driver and no GPU are both answers, not failures. */
static cudaError_t count_gpus(int *n)
{
    cudaError_t code;

    ask_for_queues();
    *n = 0;
    code = cudaGetDeviceCount(n);
    if (code != cudaSuccess) {
        cudaGetLastError();
        *n = 0;
    }
    return code;
}

int mds_cuda_count(void)
{
    int n;

    count_gpus(&n);
    return n;
}

static enum mds_rc fail(const char *what, cudaError_t code)
{
    return mds_fail(MDS_EDEVICE, "cuda: %s: %s", what, cudaGetErrorString(code));
}

static enum mds_rc check(const char *what, cudaError_t code)
{
    return code == cudaSuccess ? MDS_OK : fail(what, code);
}

/* For calls that cannot fail towards their caller. */
static void note(struct mds_dev *dev, const char *what, cudaError_t code)
{
    struct own *own = dev->own;

    if (code == cudaSuccess || own->failed != cudaSuccess)
        return;
    own->failed = code;
    own->what = what;
}

/* "NVIDIA H200, NVIDIA H200" */
static void name_gpus(int count, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp prop;

        if (cudaGetDeviceProperties(&prop, i) != cudaSuccess || at >= size)
            break;
        at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", prop.name);
    }
}

/* Launchers may show each rank a GPU of its own; otherwise the ranks of a node take
 * them in order. */
static enum mds_rc pick(int local_rank, int *out)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count;
    cudaError_t code = count_gpus(&count);
    char found[192];

    if (count == 0)
        return mds_fail(MDS_EDEVICE, "device cuda: no GPU found%s%s; use --device cpu",
                        code ? ": " : "", code ? cudaGetErrorString(code) : "");
    if (local_rank < count) {
        *out = local_rank;
        return MDS_OK;
    }
    if (count == 1 && visible) {
        *out = 0;
        return MDS_OK;
    }
    name_gpus(count, found, sizeof found);
    return mds_fail(
        MDS_EUSER,
        "device cuda: rank %d of this node has no GPU: %d found (%s); start "
        "one rank for each GPU",
        local_rank, count, found);
}

/* "driver 580.159.04", or which CUDA it knows where that is not said. */
static void describe_driver(char *text, size_t size)
{
    FILE *f = fopen("/sys/module/nvidia/version", "re");
    char version[32] = "";
    int known = 0;

    if (f) {
        if (fscanf(f, "%31s", version) != 1)
            version[0] = '\0';
        fclose(f);
    }
    cudaDriverGetVersion(&known);
    if (version[0])
        snprintf(text, size, "driver %s", version);
    else
        snprintf(text, size, "driver for CUDA %d.%d", known / 1000, known % 1000 / 10);
}

static enum mds_rc describe(struct mds_dev *dev, int gpu)
{
    struct cudaDeviceProp prop;
    char memory[32], driver[64];

    MDS_TRY(check("properties of the GPU", cudaGetDeviceProperties(&prop, gpu)));
    if (prop.major < 7)
        return mds_fail(MDS_EDEVICE,
                        "device cuda: %s has compute capability %d.%d; 7.0 is needed, "
                        "use --device cpu",
                        prop.name, prop.major, prop.minor);
    if (!mdsk_cuda_fits())
        return mds_fail(MDS_EDEVICE,
                        "device cuda: this build has no kernels for %s: configure it "
                        "with CUDA_ARCHS=%d%d, or use --device cpu",
                        prop.name, prop.major, prop.minor);
    mds_format_bytes((double)prop.totalGlobalMem, memory, sizeof memory);
    describe_driver(driver, sizeof driver);
    snprintf(dev->description, sizeof dev->description, "cuda: %.48s, %s, %s",
             prop.name, memory, driver);
    return MDS_OK;
}

static enum mds_rc limit_memory(struct mds_dev *dev)
{
    size_t left = 0, total = 0;
    int64_t most;

    MDS_TRY(check("free memory of the GPU", cudaMemGetInfo(&left, &total)));
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
        MDS_TRY(
            check("an event", cudaEventCreateWithFlags(&e[i], cudaEventDisableTiming)));
    return MDS_OK;
}

static void close_way(struct way *w)
{
    close_events(w->done, AT_ONCE);
    close_events(&w->ready, 1);
    if (w->stream)
        cudaStreamDestroy(w->stream);
}

static enum mds_rc open_way(struct way *w)
{
    MDS_TRY(check("a stream",
                  cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking)));
    MDS_TRY(open_events(&w->ready, 1));
    return open_events(w->done, AT_ONCE);
}

static void close_own(struct own *own)
{
    close_way(&own->way[0]);
    close_way(&own->way[1]);
    close_events(own->used, TURNS);
    close_events(own->mark, 2);
    cudaFreeHost(own->staging);
    free(own);
}

static enum mds_rc open_own(struct own *own)
{
    MDS_TRY(check("pinned memory",
                  cudaMallocHost((void **)&own->staging, (size_t)TURNS * TURN_BYTES)));
    MDS_TRY(open_events(own->used, TURNS));
    MDS_TRY(open_events(own->mark, 2));
    MDS_TRY(open_way(&own->way[0]));
    return open_way(&own->way[1]);
}

static enum mds_rc cuda_open(struct mds_dev *dev, const struct mds_dev_spec *spec)
{
    cudaStream_t stream = NULL;
    struct own *own;
    enum mds_rc rc;
    int gpu = 0;

    MDS_TRY(pick(spec->local_rank, &gpu));
    if (spec->local_rank == 0)
        warn_of_few_queues();
    MDS_TRY(check("choosing the GPU", cudaSetDevice(gpu)));
    MDS_TRY(describe(dev, gpu));
    if (mdsk_cuda_open())
        return mds_fail(MDS_EDEVICE,
                        "device cuda: %s; load the module of CUDA, or add the "
                        "library's folder to LD_LIBRARY_PATH",
                        mdsk_library_why());
    MDS_TRY(limit_memory(dev));
    own = mds_zalloc(1, sizeof *own);
    if (!own)
        return MDS_EMEM;
    rc = open_own(own);
    if (!rc)
        rc = check("a stream",
                   cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (rc) {
        close_own(own);
        return rc;
    }
    dev->own = own;
    dev->stream = stream;
    mdsk_cuda_set_repeatable(spec->repeatable);
    dev->kern = mdsk_cuda();
    return MDS_OK;
}

static void cuda_close(struct mds_dev *dev)
{
    cudaStreamSynchronize(dev->stream);
    cudaStreamDestroy(dev->stream);
    close_own(dev->own);
}

static void *cuda_alloc(struct mds_dev *dev, int64_t bytes)
{
    void *p = NULL;

    if (cudaMalloc(&p, bytes > 0 ? (size_t)bytes : 1) != cudaSuccess) {
        cudaGetLastError();
        return NULL;
    }
    note(dev, "clearing memory", cudaMemsetAsync(p, 0, (size_t)bytes, dev->stream));
    return p;
}

static void cuda_free(struct mds_dev *dev, void *p, int64_t bytes)
{
    (void)bytes;
    note(dev, "giving memory back", cudaFree(p));
}

static void cuda_zero(struct mds_dev *dev, void *p, int64_t bytes)
{
    note(dev, "clearing memory", cudaMemsetAsync(p, 0, (size_t)bytes, dev->stream));
}

static void cuda_copy(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    note(dev, "copying",
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

/* Until e is over.  It stands in a queue that may wait for a peer's message: if the
 * watch has that peer for lost, nothing is copied in any more, or waited for. */
static void await(struct mds_dev *dev, cudaEvent_t e, const char *what)
{
    struct own *own = dev->own;
    struct mds_dev_patience p = {0};
    cudaError_t code = cudaSuccess;
    double begin = mds_clock_s();

    while (!own->ended && (code = cudaEventQuery(e)) == cudaErrorNotReady) {
        own->ended = mds_dev_rest(dev, &p);
        if (own->ended)
            snprintf(own->why, sizeof own->why, "%s", mds_fail_text());
    }
    mds_profile_host_wait(dev, mds_clock_s() - begin);
    if (!own->ended)
        note(dev, what, code);
}

static void cuda_launched(struct mds_dev *dev)
{
    struct own *own = dev->own;
    cudaEvent_t *mark = &own->mark[own->launched / AHEAD % 2];

    if (++own->launched % AHEAD)
        return;
    await(dev, *mark, "something that was queued");
    note(dev, "an event", cudaEventRecord(*mark, dev->stream));
}

/* The piece goes to pinned memory now, and to the GPU in its turn. */
static void copy_in_turn(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    struct own *own = dev->own;
    char *stage = own->staging + (int64_t)own->turn * TURN_BYTES;

    await(dev, own->used[own->turn], "waiting for a copy");
    if (own->ended)
        return;
    memcpy(stage, from, (size_t)bytes);
    note(
        dev, "copying to the GPU",
        cudaMemcpyAsync(to, stage, (size_t)bytes, cudaMemcpyHostToDevice, dev->stream));
    note(dev, "an event", cudaEventRecord(own->used[own->turn], dev->stream));
    own->turn = (own->turn + 1) % TURNS;
}

static void cuda_copy_in(struct mds_dev *dev, void *to, const void *from, int64_t bytes)
{
    int64_t piece = TURN_BYTES;

    for (int64_t at = 0; at < bytes; at += piece)
        copy_in_turn(dev, (char *)to + at, (const char *)from + at,
                     bytes - at < piece ? bytes - at : piece);
}

/* Until all that was queued is done. */
static enum mds_rc cuda_wait(struct mds_dev *dev)
{
    const struct own *own = dev->own;
    struct mds_dev_patience p = {0};
    cudaError_t code;

    while ((code = cudaStreamQuery(dev->stream)) == cudaErrorNotReady)
        MDS_TRY(mds_dev_rest(dev, &p));
    note(dev, "something that was queued", code);
    if (own->ended)
        return mds_fail(own->ended, "%s", own->why);
    return check(own->what, own->failed);
}

static enum mds_rc cuda_copy_out(struct mds_dev *dev, void *to, const void *from,
                                 int64_t bytes)
{
    struct own *own = dev->own;

    note(dev, "copying from the GPU",
         cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, dev->stream));
    note(dev, "copying from the GPU", cudaStreamSynchronize(dev->stream));
    return check(own->what, own->failed);
}

/* ---- the profile ---- */

static void cuda_take_instant(struct mds_dev *dev, struct mds_instant *t, void *stream)
{
    cudaEvent_t event = t->event;

    if (!event)
        note(dev, "an event", cudaEventCreate(&event));
    t->event = event;
    note(dev, "an event", cudaEventRecord(event, stream ? stream : dev->stream));
}

static double cuda_between(struct mds_dev *dev, const struct mds_instant *a,
                           const struct mds_instant *b)
{
    float ms = 0;

    note(dev, "an event", cudaEventSynchronize(b->event));
    note(dev, "an event", cudaEventElapsedTime(&ms, a->event, b->event));
    return ms * 1e-3;
}

static void cuda_free_instant(struct mds_dev *dev, struct mds_instant *t)
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

static void cuda_start(struct mds_dev *dev, struct mds_dev_copying c, void *to,
                       const void *from, int64_t bytes)
{
    struct way *w = &((struct own *)dev->own)->way[c.way];
    enum cudaMemcpyKind kind =
        c.way == 0 ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;

    note(dev, "an event", cudaEventRecord(w->ready, dev->stream));
    note(dev, "waiting to copy", cudaStreamWaitEvent(w->stream, w->ready, 0));
    note(dev, "copying beside",
         cudaMemcpyAsync(to, from, (size_t)bytes, kind, w->stream));
    note(dev, "an event", cudaEventRecord(w->done[c.number % AT_ONCE], w->stream));
}

static void cuda_meet(struct mds_dev *dev, struct mds_dev_copying c)
{
    struct way *w = &((struct own *)dev->own)->way[c.way];

    note(dev, "waiting for a copy",
         cudaStreamWaitEvent(dev->stream, w->done[c.number % AT_ONCE], 0));
}

static int cuda_copied(struct mds_dev *dev, struct mds_dev_copying c)
{
    struct way *w = &((struct own *)dev->own)->way[c.way];
    cudaError_t code = cudaEventQuery(w->done[c.number % AT_ONCE]);

    if (code == cudaErrorNotReady)
        return 0;
    note(dev, "copying beside", code);
    return 1;
}

const struct mds_dev_ops mds_dev_cuda = {
    .name = "cuda",
    .beside = &mds_dev_pinned,
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
    .take_instant = cuda_take_instant,
    .between = cuda_between,
    .free_instant = cuda_free_instant,
    .capture = cuda_capture,
    .start = cuda_start,
    .meet = cuda_meet,
    .copied = cuda_copied,
};

#else

const char *mds_cuda_why(void)
{
    return "";
}

int mds_cuda_count(void)
{
    return 0;
}

const struct mds_dev_ops mds_dev_cuda = {
    .name = "cuda",
    .missing = "this build has no CUDA (configure --with-cuda); use --device cpu",
};

#endif
