/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a rank's file: whole blocks, compared with their checksums. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/folder.h"
#include "ckpt/rank_file.h"
#include "io/exact.h"
#include "io/h5_array.h"
#include "io/worker.h"
#include "io/xxh64.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* PAGE: O_DIRECT reads whole pages.  LARGE_PAGE: alignment of the buffers, because one
 * large page is one request to the disk, and 256 small ones halve its speed. */
enum { FETCHES = MDS_RANK_FILE_FETCHES, PAGE = 4096, LARGE_PAGE = 2 << 20 };

/* A block of the list that is being read or has been read. */
struct fetch {
    struct mds_task job;
    struct mds_worker *worker; /* the thread that reads it; NULL: none yet */
    const struct mds_rank_file_reader *reader;
    int64_t block; /* -1: none */
    float *values; /* [MDS_RANK_FILE_BLOCK] */
    enum mds_rc rc;
    char why[512];
};

struct mds_rank_file_reader {
    char path[MDS_PATH_SIZE];
    struct mds_h5 *h5;
    int fd, direct_fd; /* direct_fd: with O_DIRECT, or -1 */
    struct mds_rank_file_workers workers;
    uint64_t *checksum; /* [checksums] */
    int64_t checksums;
    /* the list last read */
    char list[96];
    int64_t n, offset, first_checksum;
    int in_order;  /* reads so far went from front to back */
    float *memory; /* [FETCHES * MDS_RANK_FILE_BLOCK] */
    struct fetch fetch[FETCHES];
};

/* ---- blocks ---- */

static enum mds_rc read_bytes(const struct mds_rank_file_reader *r, int64_t offset,
                              void *out, int64_t bytes)
{
    int err = mds_read_exact(r->fd, offset, out, bytes);

    if (err == ENODATA)
        return mds_fail(MDS_EUSER, "%s: cannot be read: the file is too short",
                        r->path);
    if (err)
        return mds_fail(MDS_EIO, "%s: cannot be read: %s", r->path, strerror(err));
    return MDS_OK;
}

static int64_t count_blocks(int64_t n)
{
    return mds_ceil_div(n, MDS_RANK_FILE_BLOCK);
}

static int64_t block_length(const struct mds_rank_file_reader *r, int64_t block)
{
    int64_t left = r->n - block * MDS_RANK_FILE_BLOCK;

    return mds_min(left, MDS_RANK_FILE_BLOCK);
}

static int64_t block_offset(const struct mds_rank_file_reader *r, int64_t block)
{
    return r->offset + block * MDS_RANK_FILE_BLOCK * (int64_t)sizeof(float);
}

/* Read with O_DIRECT, in whole pages.  Returns 0 if that fails for any reason: then
 * read_at reads it, or reports why not. */
static int read_direct(const struct mds_rank_file_reader *r, int64_t offset, void *out,
                       int64_t bytes)
{
    int64_t whole = mds_round_up(bytes, PAGE);

    return offset % PAGE == 0 &&
           pread(r->direct_fd, out, (size_t)whole, offset) >= bytes;
}

static enum mds_rc read_block(const struct fetch *f)
{
    const struct mds_rank_file_reader *r = f->reader;
    int64_t bytes = block_length(r, f->block) * (int64_t)sizeof *f->values;
    int64_t offset = block_offset(r, f->block);

    if (f->worker != r->workers.direct || !read_direct(r, offset, f->values, bytes))
        MDS_TRY(read_bytes(r, offset, f->values, bytes));
    if (mds_xxh64(f->values, (size_t)bytes) ==
        r->checksum[r->first_checksum + f->block])
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: %s is damaged: the checksum of its elements from %" PRId64
                    " on does not match",
                    r->path, r->list, f->block * MDS_RANK_FILE_BLOCK);
}

/* Runs in the worker's thread. */
static void run_fetch(struct mds_task *job)
{
    struct fetch *f = (struct fetch *)job;

    f->rc = read_block(f);
    if (f->rc)
        snprintf(f->why, sizeof f->why, "%s", mds_fail_text());
}

static void wait_for_fetch(struct fetch *f)
{
    if (f->worker)
        mds_worker_wait(f->worker, &f->job);
}

static void forget_blocks(struct mds_rank_file_reader *r)
{
    for (int i = 0; i < FETCHES; i++) {
        wait_for_fetch(&r->fetch[i]);
        r->fetch[i].block = -1;
    }
}

static void start_fetch(struct mds_rank_file_reader *r, int64_t block)
{
    struct fetch *f = &r->fetch[block % FETCHES];

    if (f->block == block)
        return;
    wait_for_fetch(f);
    f->block = block;
    f->worker =
        r->in_order && r->direct_fd >= 0 ? r->workers.direct : r->workers.cached;
    mds_worker_start(f->worker, &f->job);
}

/* *out = a block's values, until the next call; starts to read the blocks after it. */
static enum mds_rc get_block(struct mds_rank_file_reader *r, int64_t block,
                             const float **out)
{
    struct fetch *f = &r->fetch[block % FETCHES];
    int64_t blocks = count_blocks(r->n);

    for (int64_t i = block; i < block + FETCHES && i < blocks; i++)
        start_fetch(r, i);
    wait_for_fetch(f);
    if (f->rc) {
        f->block = -1;
        return mds_fail(f->rc, "%s", f->why);
    }
    *out = f->values;
    return MDS_OK;
}

static enum mds_rc select_list(struct mds_rank_file_reader *r, const char *list)
{
    int64_t n, offset, checksum;

    if (strcmp(r->list, list) == 0)
        return MDS_OK;
    forget_blocks(r);
    r->list[0] = '\0';
    MDS_TRY(mds_h5_locate(r->h5, list, MDS_H5_F32, &n, &offset));
    MDS_TRY(mds_h5_get_list_attribute(r->h5, list, "checksum", &checksum));
    if (checksum < 0 || checksum > r->checksums - count_blocks(n))
        return mds_fail(MDS_EUSER, "%s: %s has no checksums", r->path, list);
    r->n = n;
    r->offset = offset;
    r->first_checksum = checksum;
    snprintf(r->list, sizeof r->list, "%s", list);
    return MDS_OK;
}

/* ---- opening ---- */

/* Fails unless the file is of this save: it may have been copied from another run or
 * iteration. */
static enum mds_rc check_id(const struct mds_rank_file_reader *r,
                            const struct mds_rank_file_id *want)
{
    struct mds_rank_file_id is;

    MDS_TRY(mds_h5_get_int(r->h5, "save", &is.save));
    MDS_TRY(mds_h5_get_int(r->h5, "iteration", &is.iteration));
    MDS_TRY(mds_h5_get_int(r->h5, "rank", &is.rank));
    if (is.iteration != want->iteration || is.rank != want->rank)
        return mds_fail(MDS_EUSER,
                        "%s: was written by rank %" PRId64 " at iteration %" PRId64,
                        r->path, is.rank, is.iteration);
    if (is.save != want->save)
        return mds_fail(MDS_EUSER, "%s: belongs to another save of this iteration",
                        r->path);
    return MDS_OK;
}

static enum mds_rc read_checksums(struct mds_rank_file_reader *r)
{
    int64_t offset;

    MDS_TRY(mds_h5_locate(r->h5, "/checksums", MDS_H5_U64, &r->checksums, &offset));
    r->checksum = mds_zalloc((size_t)r->checksums, sizeof *r->checksum);
    if (!r->checksum)
        return MDS_EMEM;
    return read_bytes(r, offset, r->checksum,
                      r->checksums * (int64_t)sizeof *r->checksum);
}

static enum mds_rc alloc_buffers(struct mds_rank_file_reader *r)
{
    size_t bytes = (size_t)FETCHES * MDS_RANK_FILE_BLOCK * sizeof *r->memory;

    r->memory = aligned_alloc(LARGE_PAGE, bytes);
    if (!r->memory)
        return mds_fail(MDS_EMEM, "no host memory for %zu bytes", bytes);
    (void)madvise(r->memory, bytes, MADV_HUGEPAGE);
    for (int i = 0; i < FETCHES; i++)
        r->fetch[i] =
            (struct fetch){.job.run = run_fetch,
                           .reader = r,
                           .block = -1,
                           .values = r->memory + (size_t)i * MDS_RANK_FILE_BLOCK};
    return MDS_OK;
}

static enum mds_rc open_rank_file(struct mds_rank_file_reader *r,
                                  const struct mds_rank_file_id *id)
{
    MDS_TRY(mds_h5_open(r->path, NULL, &r->h5));
    MDS_TRY(check_id(r, id));
    r->fd = open(r->path, O_RDONLY | O_CLOEXEC);
    if (r->fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", r->path, strerror(errno));
    if (r->workers.direct)
        r->direct_fd = open(r->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    MDS_TRY(alloc_buffers(r));
    return read_checksums(r);
}

enum mds_rc mds_rank_file_open(const char *path, const struct mds_rank_file_id *id,
                               struct mds_rank_file_workers workers,
                               struct mds_rank_file_reader **out)
{
    struct mds_rank_file_reader *r = mds_zalloc(1, sizeof *r);
    enum mds_rc rc;

    if (!r)
        return MDS_EMEM;
    r->fd = r->direct_fd = -1;
    r->workers = workers;
    snprintf(r->path, sizeof r->path, "%s", path);
    rc = open_rank_file(r, id);
    if (rc)
        mds_rank_file_close(r);
    else
        *out = r;
    return rc;
}

void mds_rank_file_close(struct mds_rank_file_reader *r)
{
    if (!r)
        return;
    forget_blocks(r);
    if (r->fd >= 0)
        close(r->fd);
    if (r->direct_fd >= 0)
        close(r->direct_fd);
    (void)mds_h5_close(r->h5);
    free(r->memory);
    free(r->checksum);
    free(r);
}

/* ---- ranges of elements ---- */

/* Consecutive elements. */
static enum mds_rc read_range(struct mds_rank_file_reader *r, int64_t first, int64_t n,
                              float *out)
{
    for (int64_t done = 0, m; done < n; done += m) {
        int64_t at = first + done, block = at / MDS_RANK_FILE_BLOCK;
        int64_t in = at % MDS_RANK_FILE_BLOCK;
        const float *values;

        m = block_length(r, block) - in;
        if (m > n - done)
            m = n - done;
        MDS_TRY(get_block(r, block, &values));
        memcpy(out + done, values + in, (size_t)m * sizeof *out);
    }
    return MDS_OK;
}

enum mds_rc mds_rank_file_read(struct mds_rank_file_reader *r, const char *list,
                               const struct mds_strided_rows *from, float *out,
                               const struct mds_strided_rows *to)
{
    int64_t end = from->first + (from->count - 1) * from->step + from->n;

    MDS_TRY(select_list(r, list));
    if (from->first < 0 || end > r->n)
        return mds_fail(MDS_EUSER,
                        "%s: %s has %" PRId64 " elements, but %" PRId64 " are needed",
                        r->path, list, r->n, end);
    r->in_order = from->count == 1 || from->step == from->n;
    if (r->in_order && (from->count == 1 || to->step == to->n))
        return read_range(r, from->first, from->count * from->n, out + to->first);
    for (int64_t i = 0; i < from->count; i++)
        MDS_TRY(read_range(r, from->first + i * from->step, from->n,
                           out + to->first + i * to->step));
    return MDS_OK;
}

enum mds_rc mds_rank_file_verify(struct mds_rank_file_reader *r, const char *list,
                                 int64_t count)
{
    MDS_TRY(select_list(r, list));
    if (r->n != count)
        return mds_fail(MDS_EUSER,
                        "%s: %s has %" PRId64 " elements, but the index says %" PRId64,
                        r->path, list, r->n, count);
    r->in_order = 1;
    for (int64_t i = 0; i < count_blocks(count); i++) {
        const float *values;

        MDS_TRY(get_block(r, i, &values));
    }
    return MDS_OK;
}
