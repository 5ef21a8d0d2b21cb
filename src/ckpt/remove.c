/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/remove.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL, with errno ENOTDIR or ELOOP, if path is a link. */
static DIR *open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);

    if (fd >= 0 && !d)
        close(fd);
    return d;
}

/* For a path that could not be opened as a folder (errno): *link = whether it is a
 * symbolic link; other files are MDS_EUSER. */
static enum mds_rc check_non_folder(const char *path, int *link)
{
    struct stat st;

    *link = 0;
    if (errno == ENOENT)
        return MDS_OK;
    if (errno != ENOTDIR && errno != ELOOP)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    if (lstat(path, &st))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    *link = S_ISLNK(st.st_mode);
    return *link ? MDS_OK
                 : mds_fail(MDS_EUSER,
                            "%s: neither a folder nor a link to one, so it is not "
                            "removed: move it elsewhere",
                            path);
}

static enum mds_rc check_file(DIR *d, const char *path, const char *name)
{
    struct stat st;

    if (fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT
                   ? MDS_OK
                   : mds_fail(MDS_EIO, "%s/%s: %s", path, name, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return mds_fail(
            MDS_EUSER,
            "%s/%s: a folder, and checkpoints have none in them, so nothing "
            "in %s is removed: move it elsewhere",
            path, name, path);
    return MDS_OK;
}

static enum mds_rc remove_file(DIR *d, const char *path, const char *name)
{
    if (unlinkat(dirfd(d), name, 0) && errno != ENOENT)
        return mds_fail(MDS_EIO, "%s/%s: cannot be removed: %s", path, name,
                        strerror(errno));
    return MDS_OK;
}

static enum mds_rc truncate_file(DIR *d, const char *path, const char *name)
{
    int fd = openat(dirfd(d), name,
                    O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    (void)path;
    if (fd >= 0)
        close(fd);
    return MDS_OK; /* the file is removed in any case */
}

static enum mds_rc for_each_file(DIR *d, const char *path,
                                 enum mds_rc (*act)(DIR *d, const char *path,
                                                    const char *name))
{
    const struct dirent *e;

    rewinddir(d);
    while (errno = 0, (e = readdir(d)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            MDS_TRY(act(d, path, e->d_name));
    return errno ? mds_fail(MDS_EIO, "%s: %s", path, strerror(errno)) : MDS_OK;
}

enum mds_rc mds_ckpt_check_removable(const char *path)
{
    DIR *d = open_folder(path);
    enum mds_rc rc;
    int link;

    if (!d)
        return check_non_folder(path, &link);
    rc = for_each_file(d, path, check_file);
    closedir(d);
    return rc;
}

static enum mds_rc remove_link(const char *path)
{
    if (unlink(path))
        return mds_fail(MDS_EIO, "%s: cannot be removed: %s", path, strerror(errno));
    mds_info("%s was a symbolic link: removed it, and left alone what it pointed to",
             path);
    return MDS_OK;
}

enum mds_rc mds_ckpt_remove(const char *path, int empty)
{
    DIR *d = open_folder(path);
    enum mds_rc rc;
    int link;

    if (!d) {
        MDS_TRY(check_non_folder(path, &link));
        return link ? remove_link(path) : MDS_OK;
    }
    rc = for_each_file(d, path, check_file);
    if (!rc && empty)
        rc = for_each_file(d, path, truncate_file);
    if (!rc)
        rc = for_each_file(d, path, remove_file);
    closedir(d);
    if (!rc && rmdir(path))
        rc = mds_fail(MDS_EIO, "%s: cannot be removed: %s", path, strerror(errno));
    return rc;
}
