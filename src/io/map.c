/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/map.h"
#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum mds_rc mds_map_open(const char *path, struct mds_map *out)
{
    struct mds_map m = {0};
    enum mds_rc rc = MDS_OK;
    struct stat st;
    void *bytes;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return mds_fail_open(MDS_EUSER, path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        rc = mds_fail(MDS_EUSER, "%s: not a regular file", path);
        goto close_fd;
    }
    m.size = st.st_size;
    if (m.size > 0) {
        bytes = mmap(NULL, (size_t)m.size, PROT_READ, MAP_SHARED, fd, 0);
        if (bytes == MAP_FAILED) {
            rc = mds_fail(MDS_EIO, "%s: cannot be mapped: %s", path, strerror(errno));
            goto close_fd;
        }
        m.bytes = bytes;
    }
    m.path = mds_strdup(path);
    if (!m.path) {
        mds_map_close(&m);
        rc = MDS_EMEM;
        goto close_fd;
    }
    *out = m;

close_fd:
    close(fd);
    return rc;
}

void mds_map_close(struct mds_map *m)
{
    if (m->bytes)
        munmap((void *)m->bytes, (size_t)m->size);
    free(m->path);
    *m = (struct mds_map){0};
}
