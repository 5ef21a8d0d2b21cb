/* SPDX-License-Identifier: BSD-3-Clause */
#include "io/output.h"
#include "base/alloc.h"
#include "base/str.h"
#include "io/durable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void free_output(struct mds_output *o)
{
    free(o->path);
    free(o->partial);
    *o = (struct mds_output){0};
}

/* Whether no other process has begun to write it since; -1, and errno, where that
 * cannot be told. */
static int owns_partial_file(const struct mds_output *o)
{
    struct stat open, named;

    if (fstat(fileno(o->file), &open) || stat(o->partial, &named))
        return errno == ENOENT ? 0 : -1;
    return open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

enum mds_rc mds_output_check_new(const char *path, int overwrite)
{
    struct stat st;

    if (overwrite || stat(path, &st) || !S_ISREG(st.st_mode) || st.st_size == 0)
        return MDS_OK;
    return mds_fail(
        MDS_EUSER,
        "%s: exists already; give another name, or --overwrite to replace it", path);
}

enum mds_rc mds_output_check_apart(const char *path, const struct stat *inputs,
                                   size_t n)
{
    struct stat out;

    if (stat(path, &out) || !S_ISREG(out.st_mode))
        return MDS_OK;
    for (size_t i = 0; i < n; i++)
        if (inputs[i].st_dev == out.st_dev && inputs[i].st_ino == out.st_ino)
            return mds_fail(MDS_EUSER,
                            "%s: is an input and would be overwritten; give the output "
                            "another name",
                            path);
    return MDS_OK;
}

enum mds_rc mds_output_open(const char *path, struct mds_output *out)
{
    struct mds_output o = {0};
    struct mds_str partial = {0};
    struct stat st;
    enum mds_rc rc = MDS_EMEM;

    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return mds_fail(MDS_EIO, "%s: cannot be written: %s", path,
                        S_ISDIR(st.st_mode) ? "a folder; name a file in it"
                                            : "not a regular file");
    mds_str_add(&partial, "%s.partial", path);
    o.partial = partial.s;
    o.path = mds_strdup(path);
    if (partial.failed || !o.path)
        goto forget_o;
    unlink(o.partial); /* a dead process's; a living one's has no name now */
    o.file = fopen(o.partial, "w+xe");
    if (!o.file) {
        rc = mds_fail_write(path);
        goto forget_o;
    }
    *out = o;
    return MDS_OK;

forget_o:
    free_output(&o);
    return rc;
}

void mds_output_abandon(struct mds_output *o)
{
    if (!o->file)
        return;
    if (owns_partial_file(o) > 0)
        unlink(o->partial);
    fclose(o->file);
    free_output(o);
}

/* Make the new name itself survive a crash.  The file is there in any case, so what
 * cannot be synced is no failure. */
static void fsync_parent_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = mds_strdup(slash ? path : ".");

    if (!folder)
        return;
    if (slash)
        folder[slash == path ? 1 : slash - path] = '\0';
    (void)mds_durable_folder(folder);
    free(folder);
}

enum mds_rc mds_output_commit(struct mds_output *o)
{
    enum mds_rc rc = MDS_OK;
    int ours = 0;

    if (fflush(o->file) || fsync(fileno(o->file)) || (ours = owns_partial_file(o)) < 0)
        rc = mds_fail_write(o->path);
    else if (!ours)
        rc = mds_fail(MDS_EIO,
                      "%s: another process has started to write it, or %s was removed: "
                      "nothing was written; give each process its own file name",
                      o->path, o->partial);
    else if (rename(o->partial, o->path))
        rc = mds_fail_write(o->path);
    if (rc) {
        mds_output_abandon(o);
        return rc;
    }
    fsync_parent_folder(o->path);
    fclose(o->file);
    free_output(o);
    return MDS_OK;
}
