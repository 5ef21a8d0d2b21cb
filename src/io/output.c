#include "io/output.h"
#include "base/alloc.h"
#include "base/str.h"
#include "io/durable.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void forget(struct mds_output *o)
{
    free(o->path);
    free(o->partial);
    *o = (struct mds_output){0};
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
    o.file = fopen(o.partial, "w+e");
    if (!o.file) {
        rc = mds_fail_write(MDS_EIO, path);
        goto forget_o;
    }
    *out = o;
    return MDS_OK;

forget_o:
    forget(&o);
    return rc;
}

void mds_output_abandon(struct mds_output *o)
{
    if (!o->file)
        return;
    fclose(o->file);
    unlink(o->partial);
    forget(o);
}

/* Make the new name itself survive a crash.  The file is there in any case, so what
 * cannot be synced is no failure. */
static void sync_folder_of(const char *path)
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
    int failed = fflush(o->file) || fsync(fileno(o->file));

    if (!failed)
        failed = rename(o->partial, o->path);
    if (failed) {
        enum mds_rc rc = mds_fail_write(MDS_EIO, o->path);

        mds_output_abandon(o);
        return rc;
    }
    sync_folder_of(o->path);
    fclose(o->file);
    forget(o);
    return MDS_OK;
}
