/* Where the files lie that come with mds. */
#include "config/config_impl.h"

#include "base/str.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* folder as it was named when mds was built: maybe by a symbolic link. */
static int is_below(const char *path, const char *folder)
{
    char real[PATH_MAX];

    return realpath(folder, real) && mds_path_is_in(path, real);
}

/* Whether this program, or this test, runs from where it was built.  The build tree may
 * hold the installed one as well. */
static int is_uninstalled(void)
{
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    if (n < 0)
        return 0;
    exe[n] = '\0';
    return is_below(exe, MDS_BUILDDIR "/src") || is_below(exe, MDS_BUILDDIR "/tests");
}

int mds_config_is_in_source(const char *installed, const char *in_source)
{
    return is_uninstalled() ||
           (access(installed, R_OK) != 0 && access(in_source, R_OK) == 0);
}

const char *mds_machine_folder(void)
{
    static const char in_source[] = MDS_SRCDIR "/machines";
    static const char installed[] = MDS_PKGDATADIR "/machines";

    return mds_config_is_in_source(installed, in_source) ? in_source : installed;
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
