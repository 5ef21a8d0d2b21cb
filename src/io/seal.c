/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/seal.h"
#include "base/alloc.h"
#include "io/exact.h"
#include "io/xxh64.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 27 }; /* "mds xxh64 0123456789abcdef\n" */

static void format_line(const unsigned char *bytes, int64_t n, char line[LINE + 1])
{
    snprintf(line, LINE + 1, "mds xxh64 %016" PRIx64 "\n", mds_xxh64(bytes, (size_t)n));
}

/* All of an open file; owned by the caller. */
static enum mds_rc read_all(int fd, const char *path, unsigned char **bytes, int64_t *n)
{
    struct stat st;
    int failed;

    *bytes = NULL;
    if (fstat(fd, &st))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    *n = st.st_size;
    *bytes = mds_zalloc((size_t)*n + 1, 1);
    if (!*bytes)
        return MDS_EMEM;
    failed = mds_read_exact(fd, 0, *bytes, *n);
    if (!failed)
        return MDS_OK;
    free(*bytes);
    *bytes = NULL;
    return mds_fail(MDS_EIO, "%s: cannot be read: %s", path, strerror(failed));
}

enum mds_rc mds_seal_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC), failed;
    unsigned char *bytes = NULL;
    char line[LINE + 1];
    enum mds_rc rc;
    int64_t n;

    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    rc = read_all(fd, path, &bytes, &n);
    if (!rc) {
        format_line(bytes, n, line);
        failed = mds_write_exact(fd, n, line, LINE);
        if (failed)
            rc = mds_fail(MDS_EIO, "%s: cannot be written: %s", path, strerror(failed));
    }
    free(bytes);
    if (close(fd) && !rc)
        rc = mds_fail(MDS_EIO, "%s: cannot be written: %s", path, strerror(errno));
    return rc;
}

enum mds_rc mds_seal_check(const char *path)
{
    static const char start[] = "mds xxh64 ";
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    unsigned char *bytes = NULL;
    char line[LINE + 1];
    enum mds_rc rc;
    int64_t n;

    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    rc = read_all(fd, path, &bytes, &n);
    close(fd);
    if (!rc && n >= LINE && memcmp(bytes + n - LINE, start, strlen(start)) == 0) {
        format_line(bytes, n - LINE, line);
        if (memcmp(bytes + n - LINE, line, LINE) != 0)
            rc = mds_fail(MDS_EUSER, "%s: is damaged: the checksum does not match",
                          path);
    }
    free(bytes);
    return rc;
}
