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

/* All of a file; owned by the caller. */
static enum mds_rc read_all(const char *path, unsigned char **bytes, int64_t *n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), failed = 0;
    struct stat st;

    *bytes = NULL;
    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st)) {
        failed = errno;
    } else {
        *n = st.st_size;
        *bytes = mds_zalloc((size_t)*n + 1, 1); /* a file may be empty */
    }
    if (*bytes)
        failed = mds_read_exact(fd, 0, *bytes, *n);
    close(fd);
    if (!failed)
        return *bytes ? MDS_OK : MDS_EMEM;
    free(*bytes);
    return mds_fail(MDS_EIO, "%s: cannot be read: %s", path, strerror(failed));
}

enum mds_rc mds_seal_file(const char *path)
{
    unsigned char *bytes;
    char line[LINE + 1];
    int fd, failed;
    int64_t n;

    MDS_TRY(read_all(path, &bytes, &n));
    format_line(bytes, n, line);
    free(bytes);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    failed = mds_write_exact(fd, n, line, LINE);
    if (close(fd) && !failed)
        failed = errno;
    return failed
               ? mds_fail(MDS_EIO, "%s: cannot be written: %s", path, strerror(failed))
               : MDS_OK;
}

enum mds_rc mds_seal_check(const char *path)
{
    static const char start[] = "mds xxh64 ";
    unsigned char *bytes;
    char line[LINE + 1];
    int damaged = 0;
    int64_t n;

    MDS_TRY(read_all(path, &bytes, &n));
    if (n >= LINE && memcmp(bytes + n - LINE, start, strlen(start)) == 0) {
        format_line(bytes, n - LINE, line);
        damaged = memcmp(bytes + n - LINE, line, LINE) != 0;
    }
    free(bytes);
    return damaged ? mds_fail(MDS_EUSER, "%s: is damaged: the checksum does not match",
                              path)
                   : MDS_OK;
}
