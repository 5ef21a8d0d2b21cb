#include "data/spool.h"

#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum mds_rc mds_spool_init(const char *near, struct mds_spool *s)
{
    struct mds_str name = {0};
    enum mds_rc rc = MDS_OK;

    mds_str_add(&name, "%s.bases", near);
    if (name.failed)
        return MDS_EMEM;
    s->length = 0;
    s->fd = open(name.s, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (s->fd < 0)
        rc = mds_fail(MDS_EIO, "%s: cannot be written: %s", name.s, strerror(errno));
    else
        unlink(name.s);
    mds_str_fini(&name);
    return rc;
}

void mds_spool_fini(struct mds_spool *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

void mds_spool_rewind(struct mds_spool *s)
{
    s->length = 0;
}

enum mds_rc mds_spool_add(struct mds_spool *s, const void *bytes, size_t n)
{
    const char *p = bytes;

    while (n > 0) {
        ssize_t put = pwrite(s->fd, p, n, s->length);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return mds_fail(MDS_EIO, "bases of one record, kept beside the output: %s",
                            strerror(errno));
        p += put;
        n -= (size_t)put;
        s->length += put;
    }
    return MDS_OK;
}

enum mds_rc mds_spool_read(const struct mds_spool *s, int64_t offset, void *bytes,
                           size_t n)
{
    char *p = bytes;

    while (n > 0) {
        ssize_t got = pread(s->fd, p, n, offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return mds_fail(MDS_EIO, "bases of one record, kept beside the output: %s",
                            got < 0 ? strerror(errno) : "fewer than were written");
        p += got;
        n -= (size_t)got;
        offset += got;
    }
    return MDS_OK;
}
