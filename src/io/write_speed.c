/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/write_speed.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/host.h"
#include "io/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

enum mds_rc mds_write_speed(const char *folder, double *bytes_per_s)
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
