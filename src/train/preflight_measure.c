/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "base/status.h"
#include "device/arena.h"
#include "device/nvml.h"
#include "io/folder.h"
#include "parallel/group_tests.h"
#include "tensor/op.h"
#include "train/preflight.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- how fast a file is written ---- */

/* Measure how fast a file is written to a folder. */

enum { PART = 4 << 20, PARTS = 16 };

static enum mds_rc write_part(int fd, const char *part, const char *path)
{
    for (size_t at = 0; at < PART;) {
        ssize_t n = write(fd, part + at, PART - at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return mds_fail(MDS_EIO, "%s: %s", path, strerror(n < 0 ? errno : ENOSPC));
        at += (size_t)n;
    }
    return MDS_OK;
}

static enum mds_rc time_writing(int fd, const char *path, double *bytes_per_s)
{
    char *part = mds_zalloc(PART, 1);
    double begin = mds_clock_s(), bytes = 0;
    enum mds_rc rc = MDS_OK;

    if (!part)
        return MDS_EMEM;
    memset(part, 'm', PART); /* file systems skip zeros */
    for (int i = 0; i < PARTS && !rc && mds_clock_s() - begin < 2; i++) {
        rc = write_part(fd, part, path);
        bytes += PART;
    }
    if (!rc && fsync(fd))
        rc = mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    if (!rc)
        *bytes_per_s = bytes / (mds_clock_s() - begin);
    free(part);
    return rc;
}

/* Create the folder if it is missing, write a file of up to 64 MiB for up to two
 * seconds, fsync it, and remove it.  MDS_EIO if it cannot be written. */
static enum mds_rc write_speed(const char *folder, double *bytes_per_s)
{
    char host[MDS_HOST_SIZE], name[MDS_HOST_SIZE + 48], path[MDS_PATH_SIZE];
    enum mds_rc rc;
    int fd;

    mds_host_name(host);
    snprintf(name, sizeof name, ".mds-preflight-%s-%ld", host, (long)getpid());
    MDS_TRY(mds_folder_ensure(folder));
    MDS_TRY(mds_path_join(folder, name, path));
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    rc = time_writing(fd, path, bytes_per_s);
    close(fd);
    unlink(path);
    return rc;
}

static int is_gpu(const struct mds_dev *dev)
{
    return strcmp(mds_dev_name(dev), "cuda") == 0;
}

/* Keep the first fault: later ones often follow from it. */
static void note_fault(struct mds_preflight_record *out, const char *what)
{
    if (!*out->fault)
        snprintf(out->fault, sizeof out->fault, "%s: %s", what, mds_fail_text());
}

/* ---- computing ---- */

/* The fastest of the batches that fit into 0.3 s.  Other work on the host slows some of
 * them down; a slow processor slows all of them down. */
static enum mds_rc time_gemm(struct mds_dev *dev, const struct mdsk_linear_fwd *a,
                             double *flops)
{
    const int batch = is_gpu(dev) ? 10 : 1;
    double end = mds_clock_s() + 0.3, best = INFINITY;

    MDS_TRY(mds_op_linear_fwd(dev, a));
    MDS_TRY(mds_dev_wait(dev));
    do {
        double begin = mds_clock_s();

        for (int i = 0; i < batch; i++)
            MDS_TRY(mds_op_linear_fwd(dev, a));
        MDS_TRY(mds_dev_wait(dev));
        best = fmin(best, mds_clock_s() - begin);
    } while (mds_clock_s() < end);
    *flops = 2.0 * (double)a->R * (double)a->in * (double)a->out * batch / best;
    return MDS_OK;
}

static enum mds_rc measure_gemm(struct mds_dev *dev, double *flops)
{
    const int64_t n = is_gpu(dev) ? 8192 : 256;
    struct mdsk_linear_fwd a = {
        .R = n, .in = n, .out = n, .dtype = is_gpu(dev) ? MDSK_F16 : MDSK_F32};
    int64_t bytes = n * n * (int64_t)mdsk_dtype_size(a.dtype);
    struct mds_arena arena = {0};
    void *p[3];
    enum mds_rc rc;

    MDS_TRY(mds_arena_init(&arena, dev, "preflight", 3 * bytes));
    for (int i = 0; i < 3; i++) /* zeroed; cannot fail: the arena has this size */
        (void)mds_arena_alloc(&arena, MDS_MEM_WORK, bytes, &p[i]);
    a.x = p[0];
    a.w = p[1];
    a.y = p[2];
    rc = time_gemm(dev, &a, flops);
    mds_arena_fini(&arena);
    return rc;
}

/* ---- the link between host and GPU ---- */

static enum mds_rc time_copies(struct mds_dev *dev, void *on_device, void *on_host,
                               int64_t bytes, struct mds_preflight_record *out)
{
    for (int k = 0; k < 4; k++) { /* the first of each is a warm-up */
        double begin = mds_clock_s(), s;

        if (k % 2)
            mds_dev_wait_copy(dev,
                              mds_dev_reload_start(dev, on_device, on_host, bytes));
        else
            mds_dev_wait_copy(dev,
                              mds_dev_offload_start(dev, on_host, on_device, bytes));
        MDS_TRY(mds_dev_wait(dev));
        s = mds_clock_s() - begin;
        *(k % 2 ? &out->in_rate : &out->out_rate) = (double)bytes / s;
    }
    return MDS_OK;
}

static enum mds_rc measure_link(struct mds_dev *dev, struct mds_preflight_record *out)
{
    const int64_t bytes = INT64_C(256) << 20;
    struct mds_dev_spec spec = {.name = "cuda", .host_side = 1};
    struct mds_arena here = {0}, there = {0};
    struct mds_dev *host = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_dev_create(&spec, &host));
    rc = mds_arena_init(&here, host, "preflight, host", bytes);
    if (!rc)
        rc = mds_arena_init(&there, dev, "preflight", bytes);
    if (!rc)
        rc = time_copies(dev, there.base, here.base, bytes, out);
    mds_arena_fini(&there);
    mds_arena_fini(&here);
    mds_dev_destroy(host);
    return rc;
}

static void read_gpu(const struct mds_world *w, struct mds_dev *dev,
                     struct mds_preflight_record *out)
{
    struct mds_gpu_state s;

    out->gpus = mds_gpu_count();
    if (mds_gpu_state(mds_dev_bus_id(dev), w->local_rank, &s))
        return;
    snprintf(out->gpu, sizeof out->gpu, "%.47s", s.name);
    snprintf(out->throttle, sizeof out->throttle, "%s",
             mds_gpu_throttle_text(s.throttle));
    out->sm_mhz = s.sm_mhz;
    out->most_sm_mhz = s.most_sm_mhz;
    out->celsius = s.celsius;
    out->ecc_errors = s.ecc_errors > 0 ? (double)s.ecc_errors : 0;
    out->gpu_bytes = (double)s.memory_bytes;
    if (is_gpu(dev)) /* a run on CPUs needs no GPU memory */
        out->gpu_free_bytes = (double)s.free_bytes;
}

/* ---- memory and folders ---- */

static void measure_writing(const char *folder, const char *option, double *rate,
                            struct mds_preflight_record *out)
{
    if (folder && write_speed(folder, rate))
        note_fault(out, option);
}

static void measure_host(const struct mds_world *w, const struct mds_config *c,
                         struct mds_preflight_record *out)
{
    out->host_bytes = (double)mds_host_memory_available();
    if (w->local_rank > 0)
        return;
    out->shm_bytes = fmax(0, mds_folder_free_bytes("/dev/shm"));
    measure_writing(c->checkpoint.save, "--save", &out->save_rate, out);
    measure_writing(c->parallel.nvme_path, "--nvme-path", &out->scratch_rate, out);
}

void mds_preflight_measure_rank(const struct mds_world *w, const struct mds_config *c,
                                struct mds_dev *dev, struct mds_preflight_record *out)
{
    measure_host(w, c, out);
    if (measure_gemm(dev, &out->flops))
        note_fault(out, "GEMMs");
    read_gpu(w, dev, out); /* right after load: throttled clocks recover soon */
    if (is_gpu(dev) && measure_link(dev, out))
        note_fault(out, "copies between host and GPU");
}

/* ---- groups ---- */

_Static_assert((int)MDS_GROUP_TESTS <= (int)MDS_PREFLIGHT_TESTS,
               "a record must hold all tests");

/* best_s = the fastest of three runs after one to warm up; *sent = bytes sent in
 * one. */
static enum mds_rc time_test(const struct mds_group_test *test, struct mds_comm *c,
                             struct mds_dev *dev, const struct mds_group_buffers *b,
                             int64_t bytes, double *best_s, int64_t *sent)
{
    *best_s = INFINITY;
    for (int i = 0; i < 4; i++) {
        double begin;

        MDS_TRY(mds_comm_barrier(c));
        begin = mds_clock_s();
        *sent = -mds_comm_stats(c)->wire_bytes;
        MDS_TRY(test->run(c, b, bytes));
        *sent += mds_comm_stats(c)->wire_bytes;
        MDS_TRY(mds_dev_wait(dev));
        if (i > 0)
            *best_s = fmin(*best_s, mds_clock_s() - begin);
    }
    return MDS_OK;
}

static enum mds_rc measure_group(const struct mds_group_test *test, struct mds_comm *c,
                                 struct mds_dev *dev, const struct mds_group_buffers *b,
                                 struct mds_preflight_record *out)
{
    struct mds_preflight_test *t = &out->test[out->tests];
    int64_t bytes = mds_group_test_long(is_gpu(dev)), sent;
    double s;

    snprintf(t->name, sizeof t->name, "%.12s %s", mds_comm_tag(c), test->name);
    t->size = mds_comm_size(c);
    t->here = mds_comm_rank(c);
    MDS_TRY(time_test(test, c, dev, b, MDS_GROUP_TEST_SHORT, &t->small_s, &sent));
    MDS_TRY(time_test(test, c, dev, b, bytes, &s, &sent));
    t->rate = (double)sent / s;
    out->tests++;
    return MDS_OK;
}

enum mds_rc mds_preflight_measure_groups(const struct mds_groups *g,
                                         struct mds_dev *dev,
                                         struct mds_preflight_record *out)
{
    int64_t bytes = mds_group_test_long(is_gpu(dev));
    struct mds_group_buffers b;
    struct mds_arena arena = {0};
    enum mds_rc rc;

    MDS_TRY(mds_arena_init(&arena, dev, "preflight",
                           2 * bytes + mds_group_test_work(g, bytes)));
    b.in = arena.base;
    b.out = b.in + bytes;
    b.work = b.out + bytes;
    rc = MDS_OK;
    for (const struct mds_group_test *test = mds_group_tests; test->name && !rc;
         test++) {
        struct mds_comm *c = mds_group(g, test->axes);

        if (c && mds_comm_size(c) > 1)
            rc = measure_group(test, c, dev, &b, out);
    }
    if (!rc) /* after a failure, messages may still arrive in these buffers */
        mds_arena_fini(&arena);
    return rc;
}
