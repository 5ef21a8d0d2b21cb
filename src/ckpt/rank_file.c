/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing a rank's file. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "ckpt/folder.h"
#include "ckpt/rank_file.h"
#include "io/exact.h"
#include "io/h5_array.h"
#include "io/xxh64.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers go to files as they are in memory");

/* Start writing to disk whenever this much has been written to the page cache: the disk
 * then works all the time, not only in fsync. */
static const int64_t writeback_bytes = INT64_C(16) << 20;

struct mds_rank_file {
    char path[MDS_PATH_SIZE];
    int fd;
    uint64_t *checksum; /* [checksums] */
    int64_t checksums, checksums_offset;
    int64_t begin, end; /* of the bytes whose writeback has not been started */
};

/* ---- laying out ---- */

static enum mds_rc reserve_list(struct mds_h5 *h5, struct mds_rank_file_list *l)
{
    char name[96];

    mds_ckpt_set_name(l->what, l->param->spec.name, name);
    MDS_TRY(mds_h5_reserve(h5, name, MDS_H5_F32, l->n, &l->offset));
    return mds_h5_put_list_attribute(h5, name, "checksum", l->checksum);
}

static enum mds_rc write_layout(struct mds_rank_file *f, struct mds_h5 *h5,
                                const struct mds_rank_file_id *id,
                                struct mds_rank_file_plan *plan)
{
    MDS_TRY(mds_h5_put_int(h5, "mds_checkpoint", MDS_CKPT_FORMAT));
    MDS_TRY(mds_h5_put_int(h5, "save", id->save));
    MDS_TRY(mds_h5_put_int(h5, "rank", id->rank));
    MDS_TRY(mds_h5_put_int(h5, "iteration", id->iteration));
    /* a copy of this file's part of the index, in case the index is lost */
    MDS_TRY(mds_h5_put_table(h5, "/index/parts", &plan->part->tensor, plan->parts,
                             MDS_PART_COLUMNS));
    MDS_TRY(mds_h5_reserve(h5, "/checksums", MDS_H5_U64, f->checksums,
                           &f->checksums_offset));
    for (int64_t i = 0; i < plan->lists; i++)
        MDS_TRY(reserve_list(h5, &plan->list[i]));
    return MDS_OK;
}

static void assign_checksums(struct mds_rank_file *f, struct mds_rank_file_plan *plan)
{
    for (int64_t i = 0; i < plan->lists; i++) {
        plan->list[i].checksum = f->checksums;
        f->checksums += mds_ceil_div(plan->list[i].n, MDS_RANK_FILE_BLOCK);
    }
}

static enum mds_rc reopen_for_writing(struct mds_rank_file *f, int64_t *bytes)
{
    struct stat st;

    f->fd = open(f->path, O_WRONLY | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st))
        return mds_fail(MDS_EIO, "%s: %s", f->path, strerror(errno));
    *bytes = st.st_size;
    return MDS_OK;
}

static enum mds_rc create_file(struct mds_rank_file *f,
                               const struct mds_rank_file_id *id,
                               struct mds_rank_file_plan *plan, int64_t *bytes)
{
    struct mds_h5 *h5;
    enum mds_rc rc, closed;

    assign_checksums(f, plan);
    f->checksum = mds_zalloc((size_t)f->checksums, sizeof *f->checksum);
    if (!f->checksum)
        return MDS_EMEM;
    MDS_TRY(mds_h5_create_checked(f->path, f->path, &h5));
    rc = write_layout(f, h5, id, plan);
    closed = mds_h5_close(h5);
    if (rc || closed)
        return rc ? rc : closed;
    return reopen_for_writing(f, bytes);
}

enum mds_rc mds_rank_file_create(const char *path, const struct mds_rank_file_id *id,
                                 struct mds_rank_file_plan *plan,
                                 struct mds_rank_file **out, int64_t *bytes)
{
    struct mds_rank_file *f = mds_zalloc(1, sizeof *f);
    enum mds_rc rc;

    if (!f)
        return MDS_EMEM;
    f->fd = -1;
    snprintf(f->path, sizeof f->path, "%s", path);
    rc = create_file(f, id, plan, bytes);
    if (rc)
        mds_rank_file_destroy(f);
    else
        *out = f;
    return rc;
}

void mds_rank_file_destroy(struct mds_rank_file *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    free(f->checksum);
    free(f);
}

/* ---- filling ---- */

/* Start writing to disk, without waiting for it. */
static void start_writeback(struct mds_rank_file *f, int64_t offset, int64_t bytes)
{
    if (offset != f->end)
        f->begin = offset;
    f->end = offset + bytes;
    if (f->end - f->begin < writeback_bytes)
        return;
    (void)sync_file_range(f->fd, f->begin, f->end - f->begin, SYNC_FILE_RANGE_WRITE);
    f->begin = f->end;
}

static enum mds_rc write_bytes(struct mds_rank_file *f, int64_t offset,
                               const void *values, int64_t bytes)
{
    int err = mds_write_exact(f->fd, offset, values, bytes);

    if (err)
        return mds_fail(MDS_EIO, "%s: cannot be written: %s", f->path, strerror(err));
    start_writeback(f, offset, bytes);
    return MDS_OK;
}

enum mds_rc mds_rank_file_put(struct mds_rank_file *f,
                              const struct mds_rank_file_list *list, int64_t at,
                              int64_t n, const float *values)
{
    int64_t block = list->checksum + at / MDS_RANK_FILE_BLOCK;

    for (int64_t i = 0; i < n; i += MDS_RANK_FILE_BLOCK) {
        int64_t m = mds_min(n - i, MDS_RANK_FILE_BLOCK);

        f->checksum[block++] = mds_xxh64(values + i, (size_t)m * sizeof *values);
    }
    return write_bytes(f, list->offset + at * (int64_t)sizeof *values, values,
                       n * (int64_t)sizeof *values);
}

enum mds_rc mds_rank_file_seal(struct mds_rank_file *f)
{
    MDS_TRY(write_bytes(f, f->checksums_offset, f->checksum,
                        f->checksums * (int64_t)sizeof *f->checksum));
    if (fsync(f->fd))
        return mds_fail(MDS_EIO, "%s: cannot be flushed to disk: %s", f->path,
                        strerror(errno));
    return MDS_OK;
}
