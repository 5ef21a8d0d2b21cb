/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/scan.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "data/paths.h"
#include "data/source.h"

#include <stdlib.h>

struct files {
    struct mds_source **source;
    int n;
};

static void close_files(struct files *f)
{
    for (int i = 0; i < f->n; i++)
        mds_source_close(f->source[i]);
    free(f->source);
}

static enum mds_rc open_paths(const struct mds_paths *paths, struct files *f)
{
    MDS_TRY(mds_resize(&f->source, (size_t)(f->n + paths->n), sizeof *f->source));
    for (int i = 0; i < paths->n; i++) {
        if (!mds_source_is_megatron(paths->path[i]))
            continue;
        MDS_TRY(mds_source_open(paths->path[i], &f->source[f->n]));
        f->n++;
    }
    return MDS_OK;
}

static enum mds_rc open_files(const struct mds_data_config *c, struct files *f)
{
    const char *const texts[] = {c->paths, c->train_paths, c->valid_paths,
                                 c->test_paths};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mds_paths paths;
        enum mds_rc rc;

        if (!texts[i])
            continue;
        MDS_TRY(mds_paths_parse("--data-path", texts[i], &paths));
        rc = open_paths(&paths, f);
        mds_paths_fini(&paths);
        MDS_TRY(rc);
    }
    return MDS_OK;
}

static int64_t count_tokens(const struct files *f, int64_t *longest)
{
    int64_t all = 0;

    *longest = 0;
    for (int i = 0; i < f->n; i++) {
        *longest = mds_max(*longest, f->source[i]->tokens);
        all += f->source[i]->tokens;
    }
    return all;
}

/* A part of each file in turn, so that a short time sees something of all. */
static enum mds_rc scan_files(const struct files *f, double budget_s,
                              struct mds_scan *out)
{
    enum { PART_TOKENS = 1 << 26 };
    struct mds_progress progress = mds_progress_begin();
    double end = mds_clock_s() + budget_s;
    int64_t longest, read = 0, all = count_tokens(f, &longest);
    int64_t parts = mds_max(longest / PART_TOKENS, 1);

    for (int64_t i = 0; i < parts * f->n && (i == 0 || mds_clock_s() < end); i++) {
        struct mds_source *s = f->source[i % f->n];
        int64_t part = i / f->n, each = s->tokens / parts, first = each * part;
        int64_t n = part + 1 < parts ? each : s->tokens - first;

        if (mds_progress_is_due(&progress))
            mds_info("vocabulary: %.0f %% of Megatron's files are read",
                     100 * (double)read / (double)all);
        MDS_TRY(mds_source_largest_id(s, first, n, &out->largest));
        read += n;
    }
    out->share = read == all ? 1 : (double)read / (double)all;
    return MDS_OK;
}

enum mds_rc mds_data_scan(const struct mds_data_config *c, double budget_s,
                          struct mds_scan *out)
{
    struct files f = {NULL, 0};
    struct mds_scan found = {.largest = -1, .share = 1};
    enum mds_rc rc = open_files(c, &f);

    if (!rc)
        rc = scan_files(&f, budget_s, &found);
    if (!rc)
        *out = found;
    close_files(&f);
    return rc;
}
