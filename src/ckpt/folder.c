/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/folder.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "ckpt/folder_lock.h"
#include "io/durable.h"
#include "io/folder.h"
#include "io/output.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- removing a checkpoint's folder, and nothing outside of it ---- */

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

/* MDS_EUSER unless path looks like a checkpoint: a folder without subfolders, or a
 * symbolic link (a user may have moved a checkpoint elsewhere).  MDS_OK if path does
 * not exist. */
static enum mds_rc ckpt_check_removable(const char *path)
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

/* Remove the folder and the files in it, if ckpt_check_removable permits.  Symbolic
 * links are never followed, neither path itself nor links in the folder: the link is
 * removed, its target stays.  empty: truncate each file first; HDF5 may still hold a
 * file open after a failed write, which would keep its disk space in use. */
static enum mds_rc ckpt_remove(const char *path, int empty)
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

static const char stem[] = "iter_", partial_end[] = ".partial", old_end[] = ".old",
                  latest_name[] = "latest", good_name[] = "good",
                  evaluated_name[] = "evaluated";

/* ---- names ---- */

enum mds_rc mds_ckpt_path(const char *dir, int64_t iteration, int partial,
                          char path[MDS_PATH_SIZE])
{
    char name[64];

    snprintf(name, sizeof name, "%s%07" PRId64 "%s", stem, iteration,
             partial ? partial_end : "");
    return mds_path_join(dir, name, path);
}

enum mds_rc mds_ckpt_file(const char *path, int64_t rank, char file[MDS_PATH_SIZE])
{
    char name[64] = "index.h5";

    if (rank >= 0)
        snprintf(name, sizeof name, "rank_%05" PRId64 ".h5", rank);
    return mds_path_join(path, name, file);
}

/* Why a path in dir cannot be opened, from errno. */
static enum mds_rc fail_to_open(const char *dir, const char *path)
{
    if (errno == ENOTDIR)
        return mds_fail(
            MDS_EUSER,
            "%s: not a folder; give the folder that --save named, or an iter_* in it",
            dir);
    return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
}

/* The iteration, if the name is a checkpoint's with this end ("": a complete one's);
 * else -1. */
static int64_t parse_name(const char *name, const char *end)
{
    const char *digits = name + strlen(stem);
    size_t n;

    if (strncmp(name, stem, strlen(stem)) != 0)
        return -1;
    n = strspn(digits, "0123456789");
    return n >= 7 && n <= 18 && strcmp(digits + n, end) == 0 ? strtoll(digits, NULL, 10)
                                                             : -1;
}

/* ---- what is there ---- */

static int compare_iterations(const void *a, const void *b)
{
    const int64_t *s = a, *t = b;

    return (*s > *t) - (*s < *t);
}

/* *name = the next entry of d, which was opened on dir; NULL after the last. */
static enum mds_rc next_name(DIR *d, const char *dir, const char **name)
{
    const struct dirent *e;

    errno = 0;
    e = readdir(d);
    *name = e ? e->d_name : NULL;
    return !e && errno ? mds_fail(MDS_EIO, "%s: %s", dir, strerror(errno)) : MDS_OK;
}

/* Append the iterations of complete checkpoints in d to *list, and count them in *n. */
static enum mds_rc collect_iterations(DIR *d, const char *dir, int64_t **list,
                                      int64_t *n)
{
    for (;;) {
        const char *name;
        int64_t iteration;

        MDS_TRY(next_name(d, dir, &name));
        if (!name)
            return MDS_OK;
        iteration = parse_name(name, "");
        if (iteration < 0)
            continue;
        MDS_TRY(mds_grow(list, (size_t)*n, sizeof **list));
        (*list)[(*n)++] = iteration;
    }
}

enum mds_rc mds_ckpt_list(const char *dir, int64_t **iterations, int64_t *n)
{
    DIR *d = opendir(dir);
    enum mds_rc rc;

    *iterations = NULL;
    *n = 0;
    if (!d && errno == ENOENT)
        return MDS_OK;
    if (!d)
        return fail_to_open(dir, dir);
    rc = collect_iterations(d, dir, iterations, n);
    closedir(d);
    if (rc) {
        free(*iterations);
        *iterations = NULL;
        *n = 0;
    }
    if (*n > 0)
        qsort(*iterations, (size_t)*n, sizeof **iterations, compare_iterations);
    return rc;
}

enum mds_rc mds_ckpt_count_to_store(const char *dir, int64_t keep_last, int64_t saves,
                                    int64_t *more)
{
    int64_t *list, n;

    *more = saves;
    if (keep_last == 0)
        return MDS_OK;
    MDS_TRY(mds_ckpt_list(dir, &list, &n));
    free(list);
    *more = mds_min(saves, mds_max(keep_last + 1 - n, 1));
    return MDS_OK;
}

enum mds_rc mds_ckpt_previous(const char *dir, int64_t iteration, int64_t *before)
{
    int64_t *list, n;

    MDS_TRY(mds_ckpt_list(dir, &list, &n));
    while (n > 0 && list[n - 1] >= iteration)
        n--;
    *before = n > 0 ? list[n - 1] : -1;
    free(list);
    return MDS_OK;
}

/* Once for a file: a run reads it several times. */
static void warn_of_pointer_file(const char *path, const char *line)
{
    static _Thread_local char warned[MDS_PATH_SIZE];

    if (strcmp(path, warned) == 0)
        return;
    snprintf(warned, sizeof warned, "%s", path);
    mds_warn("%s: '%s' is not the name of a checkpoint; ignored", path, line);
}

/* The iteration of the checkpoint that a file of the folder names; -1 without such a
 * file.  A crash can leave it empty, which costs nothing: it only points somewhere. */
static enum mds_rc read_pointer_file(const char *dir, const char *name,
                                     int64_t *iteration)
{
    char path[MDS_PATH_SIZE], line[64] = "";
    FILE *f;

    MDS_TRY(mds_path_join(dir, name, path));
    *iteration = -1;
    f = fopen(path, "re");
    if (!f && errno == ENOENT)
        return MDS_OK;
    if (!f)
        return fail_to_open(dir, path);
    if (fgets(line, sizeof line, f))
        line[strcspn(line, "\n")] = '\0';
    fclose(f);
    *iteration = parse_name(line, "");
    if (*iteration < 0)
        warn_of_pointer_file(path, line);
    return MDS_OK;
}

enum mds_rc mds_ckpt_latest(const char *dir, int64_t *iteration)
{
    MDS_TRY(read_pointer_file(dir, latest_name, iteration));
    return *iteration < 0 ? mds_ckpt_previous(dir, INT64_MAX, iteration) : MDS_OK;
}

enum mds_rc mds_ckpt_evaluated(const char *dir, int64_t *iteration)
{
    return read_pointer_file(dir, evaluated_name, iteration);
}

enum mds_rc mds_ckpt_good(const char *dir, int64_t *iteration)
{
    char path[MDS_PATH_SIZE];
    struct stat st;

    MDS_TRY(read_pointer_file(dir, good_name, iteration));
    if (*iteration < 0)
        return MDS_OK;
    MDS_TRY(mds_ckpt_path(dir, *iteration, 0, path));
    if (stat(path, &st))
        *iteration = -1; /* removed by hand */
    return MDS_OK;
}

/* ---- removing ---- */

/* Renamed first, so that a partly removed folder never looks like a checkpoint. */
static enum mds_rc remove_checkpoint(const char *dir, int64_t iteration)
{
    char path[MDS_PATH_SIZE], aside[MDS_PATH_SIZE];

    MDS_TRY(mds_ckpt_path(dir, iteration, 0, path));
    MDS_TRY(mds_ckpt_path(dir, iteration, 1, aside));
    MDS_TRY(ckpt_check_removable(path));
    MDS_TRY(ckpt_remove(aside, 0));
    if (rename(path, aside))
        return mds_fail(MDS_EIO, "%s: cannot be removed: %s", path, strerror(errno));
    return ckpt_remove(aside, 0);
}

/* Call act for each folder that a crashed run left under a name with this end.  Goes on
 * after a failure, and returns the first one. */
static enum mds_rc for_each_leftover(const char *dir, const char *end,
                                     enum mds_rc (*act)(const char *dir,
                                                        const char *path,
                                                        int64_t iteration))
{
    char path[MDS_PATH_SIZE];
    DIR *d = opendir(dir);
    enum mds_rc first = MDS_OK;

    if (!d)
        return mds_fail(MDS_EIO, "%s: %s", dir, strerror(errno));
    for (;;) {
        const char *name;
        enum mds_rc rc = next_name(d, dir, &name);
        int64_t iteration = rc || !name ? -1 : parse_name(name, end);

        if (iteration >= 0)
            rc = mds_path_join(dir, name, path);
        if (iteration >= 0 && !rc)
            rc = act(dir, path, iteration);
        first = first ? first : rc;
        if (!name)
            break;
    }
    closedir(d);
    return first;
}

static enum mds_rc remove_leftover(const char *dir, const char *path, int64_t iteration)
{
    (void)dir, (void)iteration;
    return ckpt_remove(path, 0);
}

/* A crashed run was replacing this checkpoint: give it its name back, unless the new
 * one already has it. */
static enum mds_rc restore_old(const char *dir, const char *path, int64_t iteration)
{
    char name[MDS_PATH_SIZE];

    MDS_TRY(mds_ckpt_path(dir, iteration, 0, name));
    if (rename(path, name) == 0)
        return MDS_OK;
    if (errno == EEXIST || errno == ENOTEMPTY || errno == EISDIR)
        return ckpt_remove(path, 0);
    return mds_fail(MDS_EIO, "%s: %s", name, strerror(errno));
}

enum mds_rc mds_ckpt_prune(const char *dir, int64_t keep_last, int64_t keep_every,
                           int dry, int64_t *found, int64_t *removed)
{
    int64_t *list, n, latest, good, count = 0;
    enum mds_rc failed = MDS_OK;

    MDS_TRY(read_pointer_file(dir, latest_name, &latest));
    MDS_TRY(mds_ckpt_good(dir, &good));
    MDS_TRY(mds_ckpt_list(dir, &list, &n));
    for (int64_t i = 0; keep_last > 0 && i < n - keep_last; i++) {
        enum mds_rc rc;

        if (list[i] == latest || list[i] == good ||
            (keep_every > 0 && list[i] % keep_every == 0))
            continue;
        rc = dry ? MDS_OK : remove_checkpoint(dir, list[i]);
        count += rc == MDS_OK;
        failed = rc ? rc : failed;
    }
    free(list);
    if (found)
        *found = n;
    if (removed)
        *removed = count;
    return failed;
}

/* ---- writing ---- */

enum mds_rc mds_ckpt_prepare(const char *dir)
{
    char path[MDS_PATH_SIZE];
    struct mds_output probe = {0};

    MDS_TRY(mds_folder_ensure(dir));
    MDS_TRY(mds_ckpt_lock_folder(dir));
    MDS_TRY(mds_path_join(dir, latest_name, path));
    MDS_TRY(mds_output_open(path, &probe));
    mds_output_abandon(&probe);
    return for_each_leftover(dir, old_end, restore_old);
}

enum mds_rc mds_ckpt_begin(const char *dir, int64_t iteration)
{
    char path[MDS_PATH_SIZE];

    MDS_TRY(mds_ckpt_check_lock(dir));
    MDS_TRY(mds_folder_ensure(dir)); /* it may have been moved away */
    if (for_each_leftover(dir, partial_end, remove_leftover))
        mds_warn("%s", mds_fail_text()); /* it only uses disk space */
    MDS_TRY(mds_ckpt_path(dir, iteration, 1, path));
    if (mkdir(path, 0777))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    return MDS_OK;
}

void mds_ckpt_abandon(const char *dir, int64_t iteration)
{
    char path[MDS_PATH_SIZE], why[2048];

    snprintf(why, sizeof why, "%s", mds_fail_text());
    if (!mds_ckpt_path(dir, iteration, 1, path))
        (void)ckpt_remove(path, 1);
    (void)mds_fail(MDS_EIO, "%s", why);
}

static enum mds_rc write_pointer_file(const char *dir, const char *name,
                                      int64_t iteration)
{
    char path[MDS_PATH_SIZE], checkpoint[MDS_PATH_SIZE];
    struct mds_output out = {0};

    MDS_TRY(mds_path_join(dir, name, path));
    MDS_TRY(mds_ckpt_path(dir, iteration, 0, checkpoint));
    MDS_TRY(mds_output_open(path, &out));
    fprintf(out.file, "%s\n", strrchr(checkpoint, '/') + 1);
    return mds_output_commit(&out);
}

enum mds_rc mds_ckpt_mark_good(const char *dir, int64_t iteration)
{
    return write_pointer_file(dir, good_name, iteration);
}

enum mds_rc mds_ckpt_mark_evaluated(const char *dir, int64_t iteration)
{
    return write_pointer_file(dir, evaluated_name, iteration);
}

/* A checkpoint is about to be replaced: if the mark `name` is on it, remove the mark
 * and set *was. */
static enum mds_rc unmark(const char *dir, const char *name, int64_t iteration,
                          int *was)
{
    char path[MDS_PATH_SIZE];
    int64_t marked;

    MDS_TRY(read_pointer_file(dir, name, &marked));
    MDS_TRY(mds_path_join(dir, name, path));
    *was = marked == iteration;
    if (*was && unlink(path))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    return MDS_OK;
}

/* If it cannot be removed, it only uses disk space. */
static void remove_replaced(const char *replaced)
{
    if (ckpt_remove(replaced, 0))
        mds_warn("%s", mds_fail_text());
}

/* Whether rename failed because there is a checkpoint of that name: a folder, or a link
 * to one. */
static int name_is_taken(const char *path)
{
    struct stat st;

    return errno == EEXIST || errno == ENOTEMPTY ||
           (errno == ENOTDIR && lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
}

/* An existing checkpoint of this name is exchanged with the new one atomically, if the
 * file system supports that; otherwise it is renamed first. */
static enum mds_rc rename_into_place(const char *partial, const char *path)
{
    char old[MDS_PATH_SIZE];

    if (rename(partial, path) == 0)
        return MDS_OK;
    if (!name_is_taken(path))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    if (renameat2(AT_FDCWD, partial, AT_FDCWD, path, RENAME_EXCHANGE) == 0) {
        remove_replaced(partial);
        return MDS_OK;
    }
    if (snprintf(old, sizeof old, "%s%s", path, old_end) >= (int)sizeof old)
        return mds_fail(MDS_EUSER, "the path is longer than %d bytes: %s%s",
                        MDS_PATH_SIZE - 1, path, old_end);
    MDS_TRY(ckpt_remove(old, 0));
    if (rename(path, old))
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    if (rename(partial, path) == 0) {
        remove_replaced(old);
        return MDS_OK;
    }
    mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    (void)rename(old, path);
    return MDS_EIO;
}

enum mds_rc mds_ckpt_commit(const char *dir, int64_t iteration)
{
    char partial[MDS_PATH_SIZE], path[MDS_PATH_SIZE];
    int was_good, was_evaluated;
    enum mds_rc rc;

    MDS_TRY(mds_ckpt_path(dir, iteration, 1, partial));
    MDS_TRY(mds_ckpt_path(dir, iteration, 0, path));
    MDS_TRY(mds_durable_folder(partial));
    MDS_TRY(mds_ckpt_check_lock(dir));
    MDS_TRY(unmark(dir, evaluated_name, iteration, &was_evaluated));
    MDS_TRY(unmark(dir, good_name, iteration, &was_good));
    rc = rename_into_place(partial, path);
    if (rc && was_good)
        (void)write_pointer_file(dir, good_name, iteration);
    if (rc)
        return rc;
    MDS_TRY(mds_durable_folder(dir));
    return write_pointer_file(dir, latest_name, iteration);
}
