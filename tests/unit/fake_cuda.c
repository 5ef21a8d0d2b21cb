/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_cuda.h"

#include <cuda_profiler_api.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST_WORK = 512, MOST_BLOCKS = 32 };

struct fake_cuda fake_cuda;

/* Recorded so often, by the host's order and on its stream. */
struct CUevent_st {
    int recorded, done;
    struct CUstream_st *stream;
};

enum kind { COPY, CLEAR, RECORD, WAIT };

struct work {
    enum kind kind;
    void *to;
    const void *from;
    size_t bytes;
    struct CUevent_st *event;
    int number; /* of the event's recordings: done, or waited for, by this */
};

struct CUgraph_st {
    struct work work[MOST_WORK];
    int n;
};

struct CUstream_st {
    struct work work[MOST_WORK];
    int first, n;
    struct CUgraph_st *records; /* what is queued; or NULL */
};

static struct {
    char *at;
    size_t bytes;
} block[MOST_BLOCKS];

static cudaError_t broken; /* the device: all that follows fails */

void fake_cuda_start(void)
{
    fake_cuda = (struct fake_cuda){.gpus = 1,
                                   .device = -1,
                                   .capability = 90,
                                   .has_kernels = 1,
                                   .memory = (size_t)8 << 30,
                                   .memory_left = (size_t)8 << 30};
    broken = cudaSuccess;
}

/* ---- streams ---- */

static void queue(cudaStream_t s, struct work w)
{
    assert_non_null(s);
    if (s->records) {
        assert_true(w.kind == COPY || w.kind == CLEAR);
        s->records->work[s->records->n++] = w;
        return;
    }
    assert_true(s->n < MOST_WORK);
    s->work[(s->first + s->n++) % MOST_WORK] = w;
}

/* One piece of a stream's work, or of that which it waits for. */
static void go_on(cudaStream_t s)
{
    struct work *w = &s->work[s->first];

    if (s->n == 0 || fake_cuda.stuck)
        return;
    if (w->kind == WAIT && w->event->done < w->number) {
        assert_ptr_not_equal(w->event->stream, s);
        assert_true(w->event->stream->n > 0);
        go_on(w->event->stream);
        return;
    }
    if (w->kind == COPY && fake_cuda.fault)
        broken = fake_cuda.fault;
    if (w->kind == COPY && !broken)
        memcpy(w->to, w->from, w->bytes);
    if (w->kind == CLEAR)
        memset(w->to, 0, w->bytes);
    if (w->kind == RECORD)
        w->event->done = w->number;
    s->first = (s->first + 1) % MOST_WORK;
    s->n--;
}

static int is_device(const void *p)
{
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (block[i].at && (const char *)p >= block[i].at &&
            (const char *)p < block[i].at + block[i].bytes)
            return 1;
    return 0;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    assert_int_equal(flags, cudaStreamNonBlocking);
    *out = calloc(1, sizeof **out);
    fake_cuda.streams++;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int order)
{
    assert_int_equal(order, 0);
    return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *most)
{
    *least = *most = 0;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    fake_cuda.streams--;
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    while (s->n > 0)
        go_on(s);
    return broken;
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    go_on(s);
    return s->n > 0 ? cudaErrorNotReady : broken;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void)flags;
    queue(s, (struct work){.kind = WAIT, .event = e, .number = e->recorded});
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    assert_int_equal(mode, cudaStreamCaptureModeThreadLocal);
    assert_null(s->records);
    s->records = calloc(1, sizeof *s->records);
    fake_cuda.graphs++;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    *out = s->records;
    s->records = NULL;
    return fake_cuda.fault;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out, cudaGraph_t graph,
                                          unsigned long long flags)
{
    struct CUgraph_st *copy = malloc(sizeof *copy);

    assert_int_equal(flags, 0);
    *copy = *graph;
    *out = (cudaGraphExec_t)copy;
    fake_cuda.graphs++;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
    const struct CUgraph_st *graph = (const struct CUgraph_st *)exec;

    for (int i = 0; i < graph->n; i++)
        queue(s, graph->work[i]);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    fake_cuda.graphs -= graph != NULL;
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    return cudaGraphDestroy((cudaGraph_t)exec);
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = calloc(1, sizeof **out);
    fake_cuda.events++;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    fake_cuda.events--;
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
    e->stream = s;
    queue(s, (struct work){.kind = RECORD, .event = e, .number = ++e->recorded});
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t e)
{
    if (e->done < e->recorded)
        go_on(e->stream);
    return e->done < e->recorded ? cudaErrorNotReady : broken;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    while (e->done < e->recorded)
        go_on(e->stream);
    return broken;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    assert_true(from->done == from->recorded && to->done == to->recorded);
    *ms = 1;
    return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    int i = 0;

    if (bytes > fake_cuda.memory_left)
        return cudaErrorMemoryAllocation;
    while (block[i].at)
        assert_true(++i < MOST_BLOCKS);
    block[i].at = aligned_alloc(256, (bytes + 255) / 256 * 256);
    block[i].bytes = bytes;
    memset(block[i].at, 0xa5, bytes);
    fake_cuda.memory_left -= bytes;
    fake_cuda.allocated++;
    *out = block[i].at;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    for (int i = 0; i < MOST_BLOCKS; i++)
        if (block[i].at == p) {
            fake_cuda.memory_left += block[i].bytes;
            fake_cuda.allocated--;
            free(p);
            block[i].at = NULL;
            return cudaSuccess;
        }
    return cudaErrorInvalidValue;
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    *out = malloc(bytes);
    fake_cuda.pinned++;
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *p)
{
    fake_cuda.pinned -= p != NULL;
    free(p);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    (void)p, (void)bytes, (void)flags;
    fake_cuda.pinned++;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    (void)p;
    fake_cuda.pinned--;
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
    *left = fake_cuda.memory_left;
    *total = fake_cuda.memory;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *at, const void *p)
{
    memset(at, 0, sizeof *at);
    at->type = is_device(p) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t s)
{
    int to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    int from_device =
        kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;

    assert_int_equal(is_device(to), to_device);
    assert_int_equal(is_device(from), from_device);
    queue(s, (struct work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s)
{
    assert_int_equal(value, 0);
    queue(s, (struct work){.kind = CLEAR, .to = p, .bytes = bytes});
    return cudaSuccess;
}

/* ---- the machine ---- */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = fake_cuda.gpus;
    return fake_cuda.count_code;
}

cudaError_t cudaSetDevice(int device)
{
    fake_cuda.device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "GPU %d", device);
    prop->major = fake_cuda.capability / 10;
    prop->minor = fake_cuda.capability % 10;
    prop->totalGlobalMem = fake_cuda.memory;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorInsufficientDriver ? "the driver is too old" : "a fault";
}

cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}
