/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the files that are installed with mds. */
#include "config/config_impl.h"

#include "base/host.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* `folder` is the name at build time, which may be a symbolic link. */
static int is_inside_folder(const char *path, const char *folder)
{
    char real[PATH_MAX];

    return realpath(folder, real) && mds_path_is_in(path, real);
}

/* The build tree may hold the installed program as well. */
static int is_uninstalled(const char *program)
{
    return is_inside_folder(program, MDS_BUILDDIR "/src") ||
           is_inside_folder(program, MDS_BUILDDIR "/tests") ||
           is_inside_folder(program, MDS_BUILDDIR "/bench");
}

/* Length of the longest folder prefix that two paths share. */
static size_t common_folder_length(const char *a, const char *b)
{
    size_t n = 0;

    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '/')
            n = i;
    return n;
}

/* What is at /usr/local/share/mds for programs in /usr/local/bin is at /opt/share/mds
 * for one in /opt/bin.  -1: this one is in no such folder. */
static int find_in_data_folder(const char *program, const char *name,
                               char path[PATH_MAX])
{
    static const char bin[] = MDS_BINDIR, data[] = MDS_PKGDATADIR;
    size_t common = common_folder_length(bin, data), all = strlen(program);
    size_t tail = sizeof bin - 1 - common;

    if (all < tail || strcmp(program + all - tail, bin + common) != 0)
        return -1;
    snprintf(path, PATH_MAX, "%.*s%s/%s", (int)(all - tail), program, data + common,
             name);
    return access(path, R_OK);
}

int mds_config_shipped_path(const char *in_source, const char *name,
                            char path[PATH_MAX])
{
    char program[PATH_MAX];
    int local;

    mds_program_folder(program, sizeof program);
    local = is_uninstalled(program);
    if (local)
        snprintf(path, PATH_MAX, "%s", in_source);
    else if (find_in_data_folder(program, name, path))
        snprintf(path, PATH_MAX, MDS_PKGDATADIR "/%s", name);
    return local;
}

const char *mds_machine_folder(void)
{
    static char folder[PATH_MAX];

    if (!*folder)
        mds_config_shipped_path(MDS_SRCDIR "/machines", "machines", folder);
    return folder;
}

int mds_machine_path(const char *name, struct mds_str *path)
{
    int is_path = strchr(name, '/') || strstr(name, ".yaml") || strstr(name, ".yml");

    if (is_path)
        mds_str_add(path, "%s", name);
    else
        mds_str_add(path, "%s/%s.yaml", mds_machine_folder(), name);
    return path->failed || is_path || access(path->s, R_OK) == 0;
}
