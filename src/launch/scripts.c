/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands that read run folders for people are scripts: JSON lines become
 * text. */
#include "base/host.h"
#include "config/options.h"
#include "launch/argv.h"
#include "launch/submit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 4 };

/* This program becomes scripts/NAME, with at most so many words, and those of line. */
static enum mds_rc exec_script(const char *name, const char *const words[MOST_WORDS],
                               const struct mds_submit_line *line)
{
    char programs[PATH_MAX] = ".", source[PATH_MAX], script[PATH_MAX];
    struct mds_argv w = {0};

    mds_program_folder(programs, sizeof programs);
    snprintf(source, sizeof source, MDS_SRCDIR "/scripts/%s", name);
    mds_config_shipped_path(source, name, script);
    mds_argv_add(&w, "sh");
    mds_argv_add(&w, "%s", script);
    mds_argv_add(&w, "%s", programs);
    mds_argv_add(&w, "%s", mds_launch_options.version);
    for (int i = 0; i < MOST_WORDS && words[i]; i++)
        mds_argv_add(&w, "%s", words[i]);
    for (int i = 0; line && i < line->argc; i++)
        mds_argv_add(&w, "%s", line->argv[i]);
    fflush(NULL);
    if (!w.failed)
        execvp("sh", w.v);
    mds_argv_fini(&w);
    return w.failed ? MDS_EMEM : mds_fail(MDS_EIO, "sh: %s", strerror(errno));
}

enum mds_rc mds_report(const struct mds_launch_options *options, const char *folder)
{
    const char *const words[MOST_WORDS] = {folder, options->html ? options->html : ""};

    return exec_script("report", words, NULL);
}

enum mds_rc mds_status(const struct mds_launch_options *options, const char *folder)
{
    const char *const words[MOST_WORDS] = {
        "status", options->folder, folder ? folder : "", options->watch ? "1" : "0"};

    return exec_script("status", words, NULL);
}

enum mds_rc mds_continue(const struct mds_launch_options *options, const char *name)
{
    const char *const words[MOST_WORDS] = {"continue", options->folder, name,
                                           options->print ? "1" : "0"};

    return exec_script("status", words, NULL);
}

enum mds_rc mds_cancel(const struct mds_launch_options *options, const char *name)
{
    const char *const words[MOST_WORDS] = {"cancel", options->folder, name};

    return exec_script("status", words, NULL);
}

enum mds_rc mds_lr_find(const char *plot, const char *steps,
                        const struct mds_submit_line *line)
{
    const char *const words[MOST_WORDS] = {plot, steps};

    return exec_script("lr-find", words, line);
}
