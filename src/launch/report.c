/* SPDX-License-Identifier: BSD-3-Clause */
/* report: what run folders say, put together by a script (scripts/report). */
#include "base/host.h"
#include "config/options.h"
#include "launch/submit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum mds_rc mds_report(const struct mds_launch_options *options, const char *folder)
{
    char programs[PATH_MAX] = ".", script[PATH_MAX];

    mds_program_folder(programs, sizeof programs);
    mds_config_shipped_path(MDS_SRCDIR "/scripts/report", "report", script);
    fflush(NULL);
    execlp("sh", "sh", script, programs, mds_launch_options.version, folder,
           options->html ? options->html : "", (char *)NULL);
    return mds_fail(MDS_EIO, "sh: %s", strerror(errno));
}
