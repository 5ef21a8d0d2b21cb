/* SPDX-License-Identifier: BSD-3-Clause */
/* --stage: the program and its libraries on each node's own disk, so that a shared file
 * system serves each node once instead of each rank. */
#include "launch/capture.h"
#include "launch/launch.h"
#include "launch/supervise.h"

#include <stdio.h>
#include <string.h>

enum { LDD_S = 60 };

static int is_part_of_system(const char *path)
{
    return strncmp(path, "/lib", 4) == 0 || strncmp(path, "/usr/", 5) == 0;
}

/* The libraries that ldd lists as "NAME => PATH (address)", apart from the system's. */
static enum mds_rc add_libraries(const char *program, struct mds_argv *out)
{
    const char *const ldd[] = {"ldd", program, NULL};
    struct mds_str listed = {0};
    char path[4096];

    if (mds_capture_output(ldd, LDD_S, &listed))
        return mds_fail(MDS_EUSER, "--stage: 'ldd %s' does not list its libraries",
                        program);
    for (const char *at = listed.s; at && (at = strstr(at, " => /")); at++)
        if (sscanf(at, " => %4095s (", path) == 1 && !is_part_of_system(path))
            mds_argv_add(out, "%s", path);
    mds_str_fini(&listed);
    return MDS_OK;
}

/* install(1) makes the folder, and replaces a file that a process still runs. */
static enum mds_rc add_copy_command(const struct mds_launch *l, struct mds_argv *out)
{
    char install[] = "install";
    struct mds_launch_options options = *l->options;
    struct mds_launch once = *l;
    struct mds_argv words = {0};
    struct mds_str program = {0};
    enum mds_rc rc;

    options.program = install;
    options.stage = NULL;
    once.options = &options;
    once.per_node = 1;
    once.ranks = l->nodes;
    mds_launch_program(l, &program);
    mds_argv_add(&words, "-Dt");
    mds_argv_add(&words, "%s", l->options->stage);
    mds_argv_add(&words, "%s", program.s);
    rc = add_libraries(program.s, &words);
    if (!rc)
        rc = words.failed ? mds_fail(MDS_EMEM, "no host memory for a command")
                          : mds_launch_command(&once, &words, out);
    mds_argv_fini(&words);
    mds_str_fini(&program);
    return rc;
}

enum mds_rc mds_launch_stage(const struct mds_launch *l)
{
    struct mds_argv command = {0};
    struct mds_outcome outcome = {0};
    enum mds_rc rc;

    if (!l->options->stage)
        return MDS_OK;
    rc = add_copy_command(l, &command);
    if (!rc)
        rc = mds_launch_print_command(&command);
    if (!rc && !l->options->print)
        rc = mds_supervise(&command, -1, NULL, &outcome);
    if (!rc && outcome.status != 0)
        rc = mds_fail(MDS_EUSER,
                      "--stage %s: not every node has a copy of the program there, see "
                      "above; give a folder on the nodes' own disks",
                      l->options->stage);
    mds_argv_fini(&command);
    return rc;
}
