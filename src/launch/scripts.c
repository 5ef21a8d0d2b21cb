/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands that read run folders for people are scripts: JSON lines become
 * text. */
#include "base/host.h"
#include "config/options.h"
#include "launch/submit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 4 };

/* This program becomes scripts/NAME, with at most so many words. */
static enum mds_rc exec_script(const char *name, const char *const words[MOST_WORDS])
{
    char programs[PATH_MAX] = ".", source[PATH_MAX], script[PATH_MAX];

    mds_program_folder(programs, sizeof programs);
    snprintf(source, sizeof source, MDS_SRCDIR "/scripts/%s", name);
    mds_config_shipped_path(source, name, script);
    fflush(NULL);
    execlp("sh", "sh", script, programs, mds_launch_options.version, words[0], words[1],
           words[2], words[3], (char *)NULL);
    return mds_fail(MDS_EIO, "sh: %s", strerror(errno));
}

enum mds_rc mds_report(const struct mds_launch_options *options, const char *folder)
{
    const char *const words[MOST_WORDS] = {folder, options->html ? options->html : ""};

    return exec_script("report", words);
}

enum mds_rc mds_status(const struct mds_launch_options *options, const char *folder)
{
    const char *const words[MOST_WORDS] = {
        "status", options->folder, folder ? folder : "", options->watch ? "1" : "0"};

    return exec_script("status", words);
}

enum mds_rc mds_continue(const struct mds_launch_options *options, const char *name)
{
    const char *const words[MOST_WORDS] = {"continue", options->folder, name,
                                           options->print ? "1" : "0"};

    return exec_script("status", words);
}

enum mds_rc mds_cancel(const struct mds_launch_options *options, const char *name)
{
    const char *const words[MOST_WORDS] = {"cancel", options->folder, name};

    return exec_script("status", words);
}
