/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/scratch_file.h"
#include "base/alloc.h"
#include "base/str.h"
#include "base/units.h"
#include "io/exact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Some read while others write: with 2 a step of 120 million weights in a file took 8
 * to 29 % longer, three times in turns on two cores. */
enum { THREADS = 4 };

struct mds_scratch_file {
    char *folder; /* for messages */
    int fd;
    struct mds_worker *worker;
};

/* A file without a name, or -errno.  O_TMPFILE would do it in one step, but not on
 * every file system. */
static int open_unnamed_file(const char *folder)
{
    struct mds_str path = {0};
    int fd;

    mds_str_add(&path, "%s/mds-scratch-XXXXXX", folder);
    if (path.failed) {
        mds_str_fini(&path);
        return -ENOMEM;
    }
    fd = mkostemp(path.s, O_CLOEXEC);
    if (fd < 0)
        fd = -errno;
    else
        unlink(path.s);
    mds_str_fini(&path);
    return fd;
}

/* 0 or errno.  posix_fallocate is not for this: where it cannot reserve, it writes. */
static int reserve_disk_space(int fd, int64_t bytes)
{
    if (bytes == 0 || fallocate(fd, 0, 0, bytes) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return errno;
    return ftruncate(fd, bytes) == 0 ? 0 : errno;
}

static enum mds_rc open_and_reserve(struct mds_scratch_file *s, int64_t bytes)
{
    char size[32];
    int err;

    s->fd = open_unnamed_file(s->folder);
    if (s->fd < 0)
        return mds_fail(MDS_EUSER,
                        "%s: cannot create a file there: %s; choose another folder",
                        s->folder, strerror(-s->fd));
    err = reserve_disk_space(s->fd, bytes);
    if (err)
        return mds_fail(
            MDS_EUSER,
            "%s: not enough space for %s: %s; choose a folder on a larger disk",
            s->folder, mds_format_bytes((double)bytes, size, sizeof size),
            strerror(err));
    return MDS_OK;
}

enum mds_rc mds_scratch_file_create(const char *folder, int64_t bytes,
                                    struct mds_scratch_file **out)
{
    struct mds_scratch_file *s = mds_zalloc(1, sizeof *s);
    enum mds_rc rc = MDS_EMEM;

    if (!s)
        return rc;
    s->fd = -1;
    s->folder = mds_strdup(folder);
    if (s->folder)
        rc = open_and_reserve(s, bytes);
    if (!rc)
        rc = mds_worker_create(THREADS, &s->worker);
    if (rc) {
        mds_scratch_file_destroy(s);
        return rc;
    }
    *out = s;
    return MDS_OK;
}

void mds_scratch_file_destroy(struct mds_scratch_file *s)
{
    if (!s)
        return;
    mds_worker_destroy(s->worker);
    if (s->fd >= 0)
        close(s->fd);
    free(s->folder);
    free(s);
}

/* In a thread of the worker. */
static void run_transfer(struct mds_task *job)
{
    struct mds_scratch_request *r = (struct mds_scratch_request *)job;

    r->err = r->write ? mds_write_exact(r->file->fd, r->offset, r->buf, r->bytes)
                      : mds_read_exact(r->file->fd, r->offset, r->buf, r->bytes);
}

static void queue_transfer(struct mds_scratch_request *req)
{
    req->job.run = run_transfer;
    req->err = 0;
    mds_worker_start(req->file->worker, &req->job);
}

void mds_scratch_read_start(struct mds_scratch_file *s, int64_t offset, void *buf,
                            int64_t bytes, struct mds_scratch_request *req)
{
    *req = (struct mds_scratch_request){
        .file = s, .buf = buf, .offset = offset, .bytes = bytes};
    queue_transfer(req);
}

void mds_scratch_write_start(struct mds_scratch_file *s, int64_t offset,
                             const void *buf, int64_t bytes,
                             struct mds_scratch_request *req)
{
    *req = (struct mds_scratch_request){
        .file = s, .buf = (char *)buf, .offset = offset, .bytes = bytes, .write = 1};
    queue_transfer(req);
}

enum mds_rc mds_scratch_wait(struct mds_scratch_request *req)
{
    int err;

    if (!req->file)
        return MDS_OK;
    mds_worker_wait(req->file->worker, &req->job);
    err = req->err;
    req->err = 0;
    if (err)
        return mds_fail(MDS_EIO, "%s: %s of %lld bytes at %lld: %s%s",
                        req->file->folder, req->write ? "writing" : "reading",
                        (long long)req->bytes, (long long)req->offset, strerror(err),
                        err == ENOSPC ? "; choose a folder on a larger disk" : "");
    return MDS_OK;
}
