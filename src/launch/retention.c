/* SPDX-License-Identifier: BSD-3-Clause */
/* How many checkpoints a job keeps, and how many fit on the disk. */
#include "base/log.h"
#include "base/units.h"
#include "ckpt/folder.h"
#include "launch/folder.h"
#include "launch/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum mds_rc mds_job_add_keep_last(const struct mds_job *j, struct mds_argv *words,
                                  int64_t *kept)
{
    int64_t *list, n;

    MDS_TRY(mds_ckpt_list(j->checkpoints, &list, &n));
    free(list);
    *kept = n > MDS_JOB_KEPT ? 0 : MDS_JOB_KEPT;
    if (n > MDS_JOB_KEPT) {
        mds_info(
            "%s has %" PRId64
            " checkpoints already, so all are kept; --keep-last N keeps the newest N",
            j->checkpoints, n);
        return MDS_OK;
    }
    mds_argv_add_option(words, "--keep-last", "%d", MDS_JOB_KEPT);
    return MDS_OK;
}

/* Of the folder, or of the nearest above it that is there, which is left in path; -1 if
 * it cannot be told. */
static double free_bytes_of_nearest_folder(char path[MDS_PATH_SIZE])
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

enum mds_rc mds_job_log_disk_space(const struct mds_job *j,
                                   const struct mds_estimate *e, int64_t kept)
{
    enum {
        SAVES = 2
    }; /* at least, where all stay: how many a job makes is not known */
    double each = mds_ckpt_bytes(e->parameters), there;
    char path[MDS_PATH_SIZE], size[32], stay[96] = "all are kept", fitting[64] = "";
    int64_t more;
    int is_short = 0;

    MDS_TRY(mds_ckpt_count_to_store(j->checkpoints, kept, kept > 0 ? kept + 1 : SAVES,
                                    &more));
    snprintf(path, sizeof path, "%s", j->checkpoints);
    if (kept > 0)
        snprintf(stay, sizeof stay, "the newest %lld %s kept (--keep-last)",
                 (long long)kept, kept == 1 ? "is" : "are");
    if (each > 0 && (there = free_bytes_of_nearest_folder(path)) >= 0) {
        snprintf(fitting, sizeof fitting, "%.0f", (double)(int64_t)(there / each));
        is_short = there < each * (double)more;
    }
    mds_format_bytes(each, size, sizeof size);
    if (is_short)
        mds_warn("checkpoints: about %s each, %s, and one more while it is written; %s "
                 "has space for %s: free some, or give another --save",
                 size, stay, path, fitting);
    else
        mds_info(
            "checkpoints: about %s each, %s; %s has space for %s, not counting quotas",
            size, stay, path, *fitting ? fitting : "an unknown number");
    return MDS_OK;
}
