/* SPDX-License-Identifier: BSD-3-Clause */
/* How many checkpoints a job keeps, and for how many there is room. */
#include "base/log.h"
#include "base/units.h"
#include "io/folder.h"
#include "launch/folder.h"
#include "launch/job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 3 };

double mds_job_checkpoint_bytes(const struct mds_estimate *e)
{
    return 12 * e->parameters;
}

static int is_checkpoint(const struct dirent *d)
{
    static const char begin[] = "iter_";
    const char *number = d->d_name + sizeof begin - 1;

    return strncmp(d->d_name, begin, sizeof begin - 1) == 0 && *number &&
           !number[strspn(number, "0123456789")];
}

static int count_checkpoints(const char *folder)
{
    struct dirent **found = NULL;
    int n = scandir(folder, &found, is_checkpoint, NULL);

    for (int i = 0; i < n; i++)
        free(found[i]);
    free(found);
    return n > 0 ? n : 0;
}

int64_t mds_job_keep(const struct mds_job *j, struct mds_words *words)
{
    int n = count_checkpoints(j->checkpoints);

    if (n > KEPT) {
        mds_info("%s has %d checkpoints: all stay, unless --keep-last says how many",
                 j->checkpoints, n);
        return 0;
    }
    mds_words_add(words, "--keep-last");
    mds_words_add(words, "%d", KEPT);
    return KEPT;
}

/* Of the folder, or of the nearest above it that is there, which is left in path; -1 if
 * it cannot be told. */
static double free_bytes(char path[MDS_PATH_SIZE])
{
    double bytes;

    while ((bytes = mds_folder_free_bytes(path)) < 0) {
        char *slash = strrchr(path, '/');

        if (!*path || strcmp(path, ".") == 0 || strcmp(path, "/") == 0)
            return -1;
        if (!slash)
            strcpy(path, ".");
        else
            slash[slash == path] = '\0';
    }
    return bytes;
}

/* A new checkpoint is complete before an old one goes. */
void mds_job_tell_room(const struct mds_job *j, const struct mds_estimate *e,
                       int64_t kept)
{
    double each = mds_job_checkpoint_bytes(e), there;
    char path[MDS_PATH_SIZE], size[32], stay[96] = "all stay", room[64] = "";
    int is_short = 0;

    snprintf(path, sizeof path, "%s", j->checkpoints);
    if (kept > 0)
        snprintf(stay, sizeof stay, "the newest %lld stay%s (--keep-last)",
                 (long long)kept, kept == 1 ? "s" : "");
    if (each > 0 && (there = free_bytes(path)) >= 0) {
        snprintf(room, sizeof room, "%.0f", (double)(int64_t)(there / each));
        is_short = there < each * (double)(kept > 0 ? kept + 1 : 2);
    }
    mds_format_bytes(each, size, sizeof size);
    if (is_short)
        mds_warn("checkpoints: about %s each, %s, and one more while it is "
                 "written; %s has room for %s: free some, or give another --save",
                 size, stay, path, room);
    else
        mds_info("checkpoints: about %s each, %s; %s has room for %s, quotas "
                 "aside",
                 size, stay, path, *room ? room : "an unknown number");
}
