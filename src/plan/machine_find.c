/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a profile by name or by host name. */
#include "base/str.h"
#include "config/options.h"
#include "plan/machine_impl.h"

#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_profile(const struct dirent *d)
{
    const char *dot = strrchr(d->d_name, '.');

    return dot && strcmp(dot, ".yaml") == 0;
}

static int matches_patterns(const char *patterns, const char *name)
{
    char pattern[256];

    while (patterns && *patterns) {
        size_t n = strcspn(patterns, " ");

        snprintf(pattern, sizeof pattern, "%.*s", (int)n, patterns);
        if (fnmatch(pattern, name, 0) == 0)
            return 1;
        patterns += n + strspn(patterns + n, " ");
    }
    return 0;
}

static enum mds_rc report_unknown_name(const char *name)
{
    struct dirent **files = NULL;
    int count = scandir(mds_machine_folder(), &files, is_profile, alphasort);
    const char *names[256], *near;
    char text[256][64], hint[MDS_HINT_SIZE];
    size_t n = 0;

    for (; n < 256 && (int)n < count; n++) {
        snprintf(text[n], sizeof text[n], "%.*s", (int)sizeof text[n] - 1,
                 files[n]->d_name);
        text[n][strcspn(text[n], ".")] = '\0';
        names[n] = text[n];
    }
    for (int i = 0; i < count; i++)
        free(files[i]);
    free(files);
    near = mds_str_nearest(name, names, n);
    return mds_fail(MDS_EUSER,
                    "machine '%s' has no profile in %s; %s (docs/new-machine.md says "
                    "how to write one)",
                    name, mds_machine_folder(),
                    mds_str_hint(near, "ls lists them", hint));
}

static enum mds_rc load_by_name(const char *name, struct mds_diag *diag,
                                struct mds_machine **out)
{
    struct mds_str path = {0};
    enum mds_rc rc;

    if (!mds_machine_path(name, &path))
        rc = report_unknown_name(name);
    else
        rc = path.failed ? MDS_EMEM : mds_machine_load(path.s, diag, out);
    mds_str_fini(&path);
    return rc;
}

/* Its patterns, the text at that offset. */
static const char *patterns_of(const struct mds_machine *m, size_t patterns)
{
    const char *text;

    memcpy(&text, (const char *)m + patterns, sizeof text);
    return text;
}

/* Whether machine.variable, if given, is set in the environment. */
static int environment_matches(const struct mds_machine *m)
{
    char name[64];
    const char *value;

    if (!m->variable)
        return 1;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(m->variable, "="), m->variable);
    value = getenv(name);
    return value && strcmp(value, m->variable + strcspn(m->variable, "=") + 1) == 0;
}

static int profile_matches(const struct mds_machine *m, size_t patterns,
                           const char *name)
{
    return matches_patterns(patterns_of(m, patterns), name) &&
           (patterns != offsetof(struct mds_machine, hosts) || environment_matches(m));
}

enum mds_rc mds_machine_find_matching(size_t patterns, const char *name,
                                      struct mds_diag *diag, struct mds_machine **out)
{
    struct dirent **files = NULL;
    int count = scandir(mds_machine_folder(), &files, is_profile, alphasort);
    struct mds_machine *m = NULL;
    enum mds_rc rc = MDS_OK;

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", mds_machine_folder(), files[i]->d_name);
        if (!rc && !m)
            rc = mds_machine_load(path, diag, &m);
        if (m && !profile_matches(m, patterns, name)) {
            mds_machine_destroy(m);
            m = NULL;
        }
        free(files[i]);
    }
    free(files);
    *out = m;
    return rc;
}

enum mds_rc mds_machine_find(const char *name, const char *host, struct mds_diag *diag,
                             struct mds_machine **out)
{
    if (name)
        return load_by_name(name, diag, out);
    MDS_TRY(mds_machine_find_matching(offsetof(struct mds_machine, hosts), host, diag,
                                      out));
    return *out ? MDS_OK : load_by_name("localhost", diag, out);
}

int mds_machine_is_local(const struct mds_machine *m)
{
    return m->batch.scheduler == MDS_SCHEDULER_NONE && m->node.count == 1;
}

int64_t mds_machine_ranks_per_node(const struct mds_machine *m)
{
    return m->node.ranks > 0 ? m->node.ranks : m->node.gpus;
}

const struct mds_queue *mds_machine_queue(const struct mds_machine *m, const char *name,
                                          int64_t nodes)
{
    for (size_t i = 0; i < m->queue_count; i++) {
        const struct mds_queue *q = &m->queues[i];

        if (strcmp(q->name, name) == 0 &&
            (nodes == 0 || (nodes >= q->min_nodes && nodes <= q->max_nodes)))
            return q;
    }
    return NULL;
}
