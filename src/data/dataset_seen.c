/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/minmax.h"
#include "config/options.h"
#include "data/dataset_impl.h"

/* ---- windows of tokens, across documents ---- */

/* The samples of a span, from its first token on. */
struct samples {
    int64_t first, end, seq_length;
    int64_t window; /* of attention */
    struct mds_pairs pairs;
};

static enum mds_rc add_document_pairs(void *to, int64_t at, int64_t tokens)
{
    struct samples *w = to;
    int64_t end = mds_min(at + tokens, w->end), next;

    for (; at < end; at = next) {
        int64_t sample = (at - w->first) / w->seq_length;

        next = mds_min(end, w->first + (sample + 1) * w->seq_length);
        mds_pairs_add(&w->pairs, 1, mds_pairs_of_document(next - at, w->window));
    }
    return MDS_OK;
}

static enum mds_rc count_span_pairs(const struct mds_dataset *d, struct mds_source *s,
                                    const struct mds_part *part, int64_t window,
                                    struct mds_pairs *pairs)
{
    for (int i = 0; i < part->spans; i++) {
        const struct mds_span *span = &part->span[i];
        int64_t n = (span->tokens - 1) / d->seq_length;
        struct samples w = {.first = span->first,
                            .end = span->first + n * d->seq_length,
                            .seq_length = d->seq_length,
                            .window = window};

        MDS_TRY(mds_source_each_document(s, span->first, span->tokens,
                                         add_document_pairs, &w));
        mds_pairs_add(pairs, 1, w.pairs);
    }
    return MDS_OK;
}

/* ---- all files ---- */

static enum mds_rc share_seen(const struct mds_dataset *d, int k, int64_t window,
                              struct mds_pairs *share)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    const struct member *m = &b->members[k];
    struct mds_pairs pairs = {0, 0};

    if (m->packing)
        pairs = mds_packing_all_pairs(m->packing, window);
    else
        MDS_TRY(
            count_span_pairs(d, mds_blend_source(d, b, k), &m->part, window, &pairs));
    *share = m->samples > 0 ? mds_pairs_share(pairs, (double)m->samples, d->seq_length)
                            : mds_pairs_whole_row(d->seq_length, window);
    return MDS_OK;
}

static enum mds_rc mean_share(const struct mds_dataset *d, int64_t window,
                              struct mds_pairs *mean)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    struct mds_pairs share;

    for (int k = 0; k < mds_blend_members(b); k++) {
        MDS_TRY(share_seen(d, k, window, &share));
        mds_pairs_add(mean, b->files->paths.weight[k] / mds_blend_weight(b), share);
    }
    return MDS_OK;
}

struct mds_pairs mds_data_seen(const struct mds_data_config *c, int64_t seq_length,
                               int64_t window)
{
    const struct mds_pairs unknown = {0, 0};
    int apart = c->pack_documents == MDS_PACK_ON || c->reset_attention_mask;
    struct mds_pairs mean = unknown;
    struct mds_dataset *d;

    if (!apart || !mds_config_data_paths(c) || mds_dataset_open(c, seq_length, 0, &d))
        return unknown;
    if (mean_share(d, window, &mean))
        mean = unknown;
    mds_dataset_close(d);
    return mean;
}
