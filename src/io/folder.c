/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/folder.h"
#include "base/alloc.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* A failure shows at the last one: those above may be there and not be ours to write.
 */
static enum mds_rc make_parents(const char *path)
{
    char *part = mds_strdup(path);

    if (!part)
        return MDS_EMEM;
    for (char *p = part + 1; *part && *p; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(part, 0777);
            *p = '/';
        }
    free(part);
    return MDS_OK;
}

enum mds_rc mds_folder_ensure(const char *path)
{
    struct stat st;

    MDS_TRY(make_parents(path));
    if (mkdir(path, 0777) && errno != EEXIST)
        return mds_fail(MDS_EIO, "%s: cannot create this folder: %s", path,
                        strerror(errno));
    if (stat(path, &st))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return mds_fail(MDS_EIO, "%s: a file; it must be a folder", path);
    return MDS_OK;
}

enum mds_rc mds_path_join(const char *dir, const char *name, char path[MDS_PATH_SIZE])
{
    if (snprintf(path, MDS_PATH_SIZE, "%s/%s", dir, name) >= MDS_PATH_SIZE)
        return mds_fail(MDS_EUSER, "the path is longer than %d bytes: %s/%s",
                        MDS_PATH_SIZE - 1, dir, name);
    return MDS_OK;
}

double mds_folder_free_bytes(const char *path)
{
    struct statvfs s;

    return statvfs(path, &s) == 0 ? (double)s.f_bavail * (double)s.f_frsize : -1;
}

int mds_path_is_same(const char *path, const char *other)
{
    struct stat a, b;

    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}
