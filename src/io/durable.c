/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/durable.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static enum mds_rc fsync_path(const char *path, int flags)
{
    int fd = open(path, flags | O_RDONLY | O_CLOEXEC), failed;

    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    failed = fsync(fd) ? errno : 0;
    close(fd);
    if (failed && !(failed == EINVAL && flags & O_DIRECTORY))
        return mds_fail(MDS_EIO, "%s: cannot be flushed to disk: %s", path,
                        strerror(failed));
    return MDS_OK;
}

enum mds_rc mds_durable_file(const char *path)
{
    return fsync_path(path, 0);
}

enum mds_rc mds_durable_folder(const char *path)
{
    return fsync_path(path, O_DIRECTORY);
}

enum mds_rc mds_durable_stream(FILE *f, const char *path)
{
    if (fflush(f) || (fsync(fileno(f)) && errno != EINVAL && errno != EROFS))
        return mds_fail(MDS_EIO, "%s: cannot be flushed to disk: %s", path,
                        strerror(errno));
    return MDS_OK;
}
