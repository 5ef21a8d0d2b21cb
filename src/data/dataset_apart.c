/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/minmax.h"
#include "config/options.h"
#include "data/dataset_impl.h"

#include <math.h>

static double pairs_of(double length)
{
    return length * (length + 1) / 2;
}

/* ---- windows across documents ---- */

/* The windows of a span, from its first token on. */
struct windows {
    int64_t first, end, seq_length;
    double pairs;
};

static enum mds_rc add_document_pairs(void *to, int64_t at, int64_t tokens)
{
    struct windows *w = to;
    int64_t end = mds_min(at + tokens, w->end), next;

    for (; at < end; at = next) {
        int64_t window = (at - w->first) / w->seq_length;

        next = mds_min(end, w->first + (window + 1) * w->seq_length);
        w->pairs += pairs_of((double)(next - at));
    }
    return MDS_OK;
}

static enum mds_rc count_window_pairs(const struct mds_dataset *d, struct mds_source *s,
                                      const struct mds_part *part, double *pairs)
{
    *pairs = 0;
    for (int i = 0; i < part->spans; i++) {
        const struct mds_span *span = &part->span[i];
        int64_t n = (span->tokens - 1) / d->seq_length;
        struct windows w = {span->first, span->first + n * d->seq_length, d->seq_length,
                            0};

        MDS_TRY(mds_source_each_document(s, span->first, span->tokens,
                                         add_document_pairs, &w));
        *pairs += w.pairs;
    }
    return MDS_OK;
}

/* ---- all files ---- */

static enum mds_rc share_apart(const struct mds_dataset *d, int k, double *share)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    const struct member *m = &b->members[k];
    double all = (double)m->samples * pairs_of((double)d->seq_length), pairs = all;

    if (m->packing)
        pairs = mds_packing_stats(m->packing)->pairs;
    else
        MDS_TRY(count_window_pairs(d, mds_blend_source(d, b, k), &m->part, &pairs));
    *share = all > 0 ? fmax(0, 1 - pairs / all) : 0;
    return MDS_OK;
}

static enum mds_rc mean_share(const struct mds_dataset *d, double *mean)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    double share;

    *mean = 0;
    for (int k = 0; k < mds_blend_members(b); k++) {
        MDS_TRY(share_apart(d, k, &share));
        *mean += b->files->paths.weight[k] / mds_blend_weight(b) * share;
    }
    return MDS_OK;
}

double mds_data_apart(const struct mds_data_config *c, int64_t seq_length)
{
    int apart = c->pack_documents == MDS_PACK_ON || c->reset_attention_mask;
    struct mds_dataset *d;
    double mean = 0;

    if (!apart || !mds_config_data_paths(c) || mds_dataset_open(c, seq_length, 0, &d))
        return 0;
    if (mean_share(d, &mean))
        mean = 0;
    mds_dataset_close(d);
    return mean;
}
