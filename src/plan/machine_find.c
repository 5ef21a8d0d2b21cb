/* Which profile is meant. */
#include "base/str.h"
#include "config/tree.h"
#include "plan/machine.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where profiles lie: those of the source tree for a program that runs from its build
 * folder, or where none are installed. */
static const char *folder(void)
{
    static const char in_source[] = MDS_SRCDIR "/machines";
    static const char installed[] = MDS_PKGDATADIR "/machines";
    static const char build[] = MDS_BUILDDIR "/";
    char exe[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

    exe[n > 0 ? n : 0] = '\0';
    if (strncmp(exe, build, sizeof build - 1) == 0 || access(installed, R_OK) != 0)
        return in_source;
    return installed;
}

static int is_profile(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');

    return dot && strcmp(dot, ".yaml") == 0;
}

static int matches(const char *patterns, const char *host)
{
    char pattern[256];

    while (patterns && *patterns) {
        size_t n = strcspn(patterns, " ");

        snprintf(pattern, sizeof pattern, "%.*s", (int)n, patterns);
        if (fnmatch(pattern, host, 0) == 0)
            return 1;
        patterns += n + strspn(patterns + n, " ");
    }
    return 0;
}

static enum mds_rc unknown(const char *name, struct dirent **files, int count)
{
    const char *names[256], *near;
    char text[256][64];
    size_t n = 0;

    for (; n < 256 && (int)n < count; n++) {
        snprintf(text[n], sizeof text[n], "%.*s", (int)sizeof text[n] - 1,
                 files[n]->d_name);
        text[n][strcspn(text[n], ".")] = '\0';
        names[n] = text[n];
    }
    near = mds_str_nearest(name, names, n);
    return mds_fail(MDS_EUSER,
                    "machine '%s' has no profile in %s; %s%s%s (docs/new-machine.md "
                    "tells how to write one)",
                    name, folder(), near ? "did you mean " : "ls lists them",
                    near ? near : "", near ? "?" : "");
}

/* The profile whose host patterns match, read; *out stays NULL if there is none. */
static enum mds_rc by_host(const char *host, struct dirent **files, int count,
                           struct mds_diag *diag, struct mds_machine **out)
{
    for (int i = 0; i < count && !*out; i++) {
        struct mds_machine *m = NULL;
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", folder(), files[i]->d_name);
        MDS_TRY(mds_machine_load(path, diag, &m));
        if (matches(m->hosts, host))
            *out = m;
        else
            mds_machine_destroy(m);
    }
    return MDS_OK;
}

static enum mds_rc by_name(const char *name, struct dirent **files, int count,
                           struct mds_diag *diag, struct mds_machine **out)
{
    char path[PATH_MAX];

    if (strchr(name, '/') || strstr(name, ".yaml"))
        return mds_machine_load(name, diag, out);
    snprintf(path, sizeof path, "%s/%s.yaml", folder(), name);
    return access(path, R_OK) == 0 ? mds_machine_load(path, diag, out)
                                   : unknown(name, files, count);
}

enum mds_rc mds_machine_find(const char *name, const char *host, struct mds_diag *diag,
                             struct mds_machine **out)
{
    struct dirent **files = NULL;
    int count = scandir(folder(), &files, is_profile, alphasort);
    enum mds_rc rc = MDS_OK;

    *out = NULL;
    if (name)
        rc = by_name(name, files, count, diag, out);
    else
        rc = by_host(host, files, count, diag, out);
    if (!rc && !*out)
        rc = by_name("localhost", files, count, diag, out);
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    return rc;
}

int64_t mds_machine_ranks(const struct mds_machine *m)
{
    return m->node.ranks > 0 ? m->node.ranks : m->node.gpus;
}

const struct mds_queue *mds_machine_queue(const struct mds_machine *m, const char *name)
{
    for (size_t i = 0; i < m->queue_count; i++)
        if (strcmp(m->queues[i].name, name) == 0)
            return &m->queues[i];
    return NULL;
}
