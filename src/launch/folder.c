/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/folder.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum mds_rc mds_folder_make(const char *parent, const char *name,
                            char path[MDS_PATH_SIZE])
{
    MDS_TRY(mds_folder_ensure(parent));
    for (int i = 1; i < 10000; i++) {
        char numbered[NAME_MAX + 16];

        snprintf(numbered, sizeof numbered, i > 1 ? "%s-%d" : "%s", name, i);
        MDS_TRY(mds_path_join(parent, numbered, path));
        if (mkdir(path, 0777) == 0)
            return MDS_OK;
        if (errno != EEXIST)
            return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    }
    return mds_fail(MDS_EUSER, "%s/%s: 10000 folders of this name exist; give another",
                    parent, name);
}

void mds_folder_discard(const char *folder)
{
    static const char *const written[] = {"job.sh", "run.yaml", "files", "outputs"};
    char path[MDS_PATH_SIZE];

    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (mds_path_join(folder, written[i], path) == MDS_OK)
            unlink(path);
    rmdir(folder);
}

enum mds_rc mds_folder_write(const char *folder, const char *name, int append,
                             unsigned mode, const char *text)
{
    char path[MDS_PATH_SIZE];
    FILE *f;
    int bad;

    MDS_TRY(mds_path_join(folder, name, path));
    f = fopen(path, append ? "ae" : "we");
    if (!f)
        return mds_fail(MDS_EIO, "%s: %s", path, strerror(errno));
    bad = fputs(text, f) < 0;
    bad |= fclose(f) != 0;
    bad = bad || chmod(path, (mode_t)mode);
    return bad ? mds_fail(MDS_EIO, "%s: %s", path, strerror(errno)) : MDS_OK;
}
