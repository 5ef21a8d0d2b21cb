/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/exact.h"

#include <errno.h>
#include <unistd.h>

int mds_read_exact(int fd, int64_t at, void *buf, int64_t bytes)
{
    char *to = buf;

    while (bytes > 0) {
        ssize_t n = pread(fd, to, (size_t)bytes, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENODATA;
        to += n;
        at += n;
        bytes -= n;
    }
    return 0;
}

int mds_write_exact(int fd, int64_t at, const void *buf, int64_t bytes)
{
    const char *from = buf;

    while (bytes > 0) {
        ssize_t n = pwrite(fd, from, (size_t)bytes, at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        from += n;
        at += n;
        bytes -= n;
    }
    return 0;
}
