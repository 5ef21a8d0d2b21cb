/* SPDX-License-Identifier: BSD-3-Clause */
/* The subcommands that read run folders for people are scripts: JSON lines become
 * text. */
#include "base/host.h"
#include "base/scheduler.h"
#include "config/options.h"
#include "launch/argv.h"
#include "launch/submit.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 5 };

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
    if (line)
        mds_argv_add_words(&w, (size_t)line->argc, line->argv);
    fflush(NULL);
    if (!w.failed)
        execvp("sh", w.v);
    mds_argv_fini(&w);
    return w.failed ? MDS_EMEM : mds_fail(MDS_EIO, "sh: %s", strerror(errno));
}

/* What scripts/status.awk needs of the batch systems, which it describes. */
static void describe_schedulers(struct mds_str *out)
{
    for (int i = 0; mds_scheduler_names[i]; i++) {
        const struct mds_scheduler *d = mds_scheduler_at(i);

        mds_str_add(out, "%s\t%s\t%s\t%s\t%s\t%s\n", mds_scheduler_names[i], d->submit,
                    d->cancel ? d->cancel : "false", d->state ? d->state : "true",
                    d->runs ? d->runs : "", d->waits ? d->waits : "");
    }
}

/* status, continue and cancel. */
static enum mds_rc exec_status(const char *action, const char *runs, const char *name,
                               const char *flag)
{
    struct mds_str systems = {0};
    enum mds_rc rc;

    describe_schedulers(&systems);
    rc = systems.failed ? MDS_EMEM
                        : exec_script("status",
                                      (const char *const[MOST_WORDS]){systems.s, action,
                                                                      runs, name, flag},
                                      NULL);
    mds_str_fini(&systems);
    return rc;
}

enum mds_rc mds_report(const struct mds_launch_options *options, const char *folder)
{
    const char *const words[MOST_WORDS] = {folder, options->html ? options->html : ""};

    return exec_script("report", words, NULL);
}

enum mds_rc mds_status(const struct mds_launch_options *options, const char *folder)
{
    return exec_status("status", options->folder, folder ? folder : "",
                       options->watch ? "1" : "0");
}

enum mds_rc mds_continue(const struct mds_launch_options *options, const char *name)
{
    return exec_status("continue", options->folder, name, options->print ? "1" : "0");
}

enum mds_rc mds_cancel(const struct mds_launch_options *options, const char *name)
{
    return exec_status("cancel", options->folder, name, NULL);
}

enum mds_rc mds_lr_find(const char *plot, const char *steps,
                        const struct mds_submit_line *line)
{
    const char *const words[MOST_WORDS] = {plot, steps};

    return exec_script("lr-find", words, line);
}
