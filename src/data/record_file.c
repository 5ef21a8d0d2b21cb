/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/record_file.h"

#include "base/str.h"
#include "io/exact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum mds_rc mds_record_file_init(const char *near, struct mds_record_file *s)
{
    struct mds_str name = {0};
    enum mds_rc rc = MDS_OK;

    mds_str_add(&name, "%s.XXXXXX", near);
    if (name.failed)
        return MDS_EMEM;
    s->near = near;
    s->length = 0;
    s->fd = mkostemp(name.s, O_CLOEXEC);
    if (s->fd < 0)
        rc = mds_fail(MDS_EIO, "%s: cannot be written: %s", name.s, strerror(errno));
    else
        unlink(name.s);
    mds_str_fini(&name);
    return rc;
}

void mds_record_file_fini(struct mds_record_file *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void mds_record_file_clear(struct mds_record_file *s)
{
    s->length = 0;
}

static enum mds_rc check_io(const struct mds_record_file *s, int err)
{
    if (err == 0)
        return MDS_OK;
    return mds_fail(MDS_EIO, "%s: temporary file beside it: %s", s->near,
                    err == ENODATA ? "fewer than were written" : strerror(err));
}

enum mds_rc mds_record_file_append(struct mds_record_file *s, const void *bytes,
                                   size_t n)
{
    MDS_TRY(check_io(s, mds_write_exact(s->fd, s->length, bytes, (int64_t)n)));
    s->length += (int64_t)n;
    return MDS_OK;
}

enum mds_rc mds_record_file_read(const struct mds_record_file *s, int64_t offset,
                                 void *bytes, size_t n)
{
    return check_io(s, mds_read_exact(s->fd, offset, bytes, (int64_t)n));
}
