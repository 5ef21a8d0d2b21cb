/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of a split that is too short. */
#include "data/dataset_impl.h"

#include "base/minmax.h"

#include <math.h>
#include <stdio.h>

static int64_t longest_span(const struct mds_part *p)
{
    int64_t longest = 0;

    for (int i = 0; i < p->spans; i++)
        longest = mds_max(longest, p->span[i].tokens);
    return longest;
}

/* need / all in per cent, rounded up. */
static double percent_at_least(long long need, long long all)
{
    return ceil(1e4 * (double)need / (double)all) / 100;
}

/* With several strands or frames in a file, a split has a part of each. */
static enum mds_rc refuse_short_split(const struct mds_dataset *d,
                                      const struct mds_source *s,
                                      const struct member *m, enum mds_split split)
{
    const char *name = mds_split_names[split];
    int readings = mds_reading_documents(&s->reading);
    long long all = s->tokens, have = longest_span(&m->part), need = d->seq_length + 1;
    const char *without = split == MDS_SPLIT_VALID ? ", or --eval-iters 0" : "";
    int whole = m->part.keeps_documents;
    const char *least = whole ? "more than" : "at least";
    const char *divide = whole ? " (documents stay whole), or --split-at tokens" : "";
    char share[128] = "";
    double percent;

    if (all < 2)
        return mds_fail(MDS_EUSER,
                        "%s: has %s, too few for a window of tokens and their targets",
                        s->path, all ? "one token" : "no tokens");
    if (m->packing && m->part.tokens == all)
        return mds_fail(MDS_EUSER,
                        "%s: all of its documents have one token, so that there is "
                        "nothing to predict",
                        s->path);
    if (m->packing)
        return mds_fail(
            MDS_EUSER,
            "%s: --split %s leaves %lld tokens for %s, but no document of two "
            "tokens or more: give it a larger share%s",
            s->path, d->split, (long long)m->part.tokens, name, without);
    if (all < need)
        return mds_fail(MDS_EUSER,
                        "%s: %lld tokens in all, but a window takes %lld (--seq-length "
                        "%lld and its target): use --seq-length %lld or less%s",
                        s->path, all, need, need - 1, have > 1 ? have - 1 : all - 1,
                        have > 1 ? "" : " with --split 1,0,0");
    percent = percent_at_least(need * readings, all);
    if (have < 2)
        return mds_fail(MDS_EUSER,
                        "%s: --split %s leaves %lld tokens for %s, but a window takes "
                        "%lld: give %s %s %g %%%s%s",
                        s->path, d->split, have, name, need, name, least, percent,
                        divide, without);
    /* Training needs as many. */
    if (split == MDS_SPLIT_TRAIN || percent <= 50)
        snprintf(share, sizeof share, ", or give %s %s %g %%%s", name, least, percent,
                 divide);
    return mds_fail(MDS_EUSER,
                    "%s: --split %s leaves %lld tokens%s for %s, but a window takes "
                    "%lld (--seq-length %lld and its target): use --seq-length %lld or "
                    "less%s%s",
                    s->path, d->split, have,
                    readings > 1 ? " in its longest range" : "", name, need, need - 1,
                    have - 1, share, without);
}

/* The file of a split that is too short for a window, of several the shortest; -1: none
 * is. */
static int find_short(const struct mds_dataset *d, enum mds_split s)
{
    const struct blend *b = &d->blends[s];
    int found = -1;

    for (int k = 0; k < mds_blend_members(b); k++)
        if (b->members[k].samples == 0 &&
            (found < 0 ||
             longest_span(&b->members[k].part) < longest_span(&b->members[found].part)))
            found = k;
    return found;
}

enum mds_rc mds_dataset_require(const struct mds_dataset *d, enum mds_split s)
{
    const struct blend *b = &d->blends[s];
    int k = find_short(d, s);

    if (mds_blend_members(b) == 0)
        return mds_fail(MDS_EUSER, "no %s data: give %s%s", mds_split_names[s],
                        mds_split_options[s],
                        s == MDS_SPLIT_VALID ? ", or --eval-iters 0" : "");
    return k < 0 ? MDS_OK
                 : refuse_short_split(d, mds_blend_source(d, b, k), &b->members[k], s);
}

enum mds_rc mds_dataset_require_both(const struct mds_dataset *d)
{
    int train = find_short(d, MDS_SPLIT_TRAIN), valid = find_short(d, MDS_SPLIT_VALID);

    if (train >= 0 && valid >= 0) {
        int64_t have = longest_span(&d->blends[MDS_SPLIT_VALID].members[valid].part);

        if (have >= 2 &&
            have < longest_span(&d->blends[MDS_SPLIT_TRAIN].members[train].part))
            return mds_dataset_require(d, MDS_SPLIT_VALID);
    }
    MDS_TRY(mds_dataset_require(d, MDS_SPLIT_TRAIN));
    return mds_dataset_require(d, MDS_SPLIT_VALID);
}
