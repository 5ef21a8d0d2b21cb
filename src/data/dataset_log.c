/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines about the data, before a run. */
#include "data/dataset_impl.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "io/h5.h"

#include <stdlib.h>
#include <string.h>

/* ---- files made from the same input ---- */

struct input {
    char *path, *sha256;
    int source;
};

struct inputs {
    struct input *list;
    size_t n;
};

static enum mds_rc add_input(struct inputs *all, char *path, char *sha256, int source)
{
    struct input *in;

    MDS_TRY(mds_grow(&all->list, all->n, sizeof *all->list));
    in = &all->list[all->n++];
    *in = (struct input){mds_strdup(path), mds_strdup(sha256), source};
    return in->path && in->sha256 ? MDS_OK : MDS_EMEM;
}

static enum mds_rc add_source_inputs(struct inputs *all, struct mds_source *s,
                                     int source)
{
    char **paths, **sums;
    int64_t n;
    enum mds_rc rc = MDS_OK;

    if (!s->ops->inputs || s->ops->inputs(s, &paths, &sums, &n))
        return MDS_OK;
    for (int64_t i = 0; i < n && !rc; i++)
        rc = add_input(all, paths[i], sums[i], source);
    mds_h5_free_strings(paths, n);
    mds_h5_free_strings(sums, n);
    return rc;
}

static int compare_by_sha256(const void *a, const void *b)
{
    const struct input *x = a, *y = b;
    int order = strcmp(x->sha256, y->sha256);

    return order ? order : x->source - y->source;
}

static void free_inputs(struct inputs *all)
{
    for (size_t i = 0; i < all->n; i++) {
        free(all->list[i].path);
        free(all->list[i].sha256);
    }
    free(all->list);
}

/* ---- lines ---- */

static int has_held_out_tokens(const struct mds_dataset *d)
{
    return mds_dataset_tokens(d, MDS_SPLIT_VALID) > 0 ||
           mds_dataset_tokens(d, MDS_SPLIT_TEST) > 0;
}

/* Say if --split cuts documents of text. */
static void log_split_documents(const struct mds_dataset *d, int k)
{
    const struct mds_source *s = d->sources[k];

    if (!d->blends[MDS_SPLIT_TRAIN].members[k].part.keeps_documents && !s->is_genome &&
        s->documents > 1)
        mds_info("data: %s: --split cuts it by tokens, so a document may be partly "
                 "held out; --split-at documents keeps them whole",
                 s->path);
}

static void log_splits(const struct mds_dataset *d)
{
    char count[MDS_SPLITS][32];
    int mirrored = 0;

    for (int s = 0; s < MDS_SPLITS; s++)
        mds_format_count((double)mds_dataset_tokens(d, (enum mds_split)s), count[s],
                         sizeof count[s]);
    mds_info("data: %s tokens for training, %s for validation, %s for test", count[0],
             count[1], count[2]);
    if (!mds_dataset_has_shared_files(d) || !has_held_out_tokens(d))
        return;
    for (int k = 0; k < d->n_sources; k++) {
        mirrored |= mds_reading_documents(&d->sources[k]->reading) > 1;
        log_split_documents(d, k);
    }
    if (mirrored)
        mds_info("data: a split holds the same bases on both strands and in all frames "
                 "that are in the file");
}

enum mds_rc mds_dataset_log_epochs(const struct mds_dataset *d, int64_t samples)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    int64_t *counts = mds_zalloc((size_t)mds_blend_members(b), sizeof *counts);

    if (!counts)
        return MDS_EMEM;
    mds_mix_count(b->files->mix, samples - d->order->began, counts);
    for (int k = 0; k < mds_blend_members(b); k++) {
        int64_t epoch = b->members[k].samples;
        double epochs = (double)(d->order->file[k].start + counts[k]) / (double)epoch;

        if (epochs > 1)
            mds_info("data: %s: %.*f epochs, each of %lld %s%s of %lld tokens",
                     mds_blend_source(d, b, k)->path, epochs < 10 ? 2 : 0, epochs,
                     (long long)epoch, d->packs ? "row" : "window", mds_plural(epoch),
                     (long long)d->seq_length);
    }
    free(counts);
    return MDS_OK;
}

/* Set *found if a training window of source k can hold parts of two documents. */
static enum mds_rc has_document_boundary(const struct mds_dataset *d, int k, int *found)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    struct mds_source *s = mds_blend_source(d, b, k);

    for (int i = 0; i < b->members[k].part.spans && !*found; i++) {
        const struct mds_span *span = &b->members[k].part.span[i];
        int64_t first, last;

        MDS_TRY(mds_source_document_at(s, span->first, &first));
        MDS_TRY(mds_source_document_at(s, span->first + span->tokens - 1, &last));
        *found = first != last;
    }
    return MDS_OK;
}

static enum mds_rc log_attention_across_documents(const struct mds_dataset *d)
{
    int found = 0;

    for (int k = 0; k < mds_blend_members(&d->blends[MDS_SPLIT_TRAIN]); k++)
        MDS_TRY(has_document_boundary(d, k, &found));
    if (found)
        mds_info("data: windows may cross from one document into the next; attention "
                 "does not stop there without --reset-attention-mask or "
                 "--pack-documents on");
    return MDS_OK;
}

static int file_list_of_source(const struct mds_dataset *d, int k)
{
    int list = 0;

    while (k >= d->files[list].first + d->files[list].paths.n)
        list++;
    return list;
}

/* Whether one source is trained on and the other evaluated on, so that they should have
 * no input in common.  Equal files are split equally, which is safe. */
static int must_not_share_input(const struct mds_dataset *d, int a, int b)
{
    const struct mds_source *x = d->sources[a], *y = d->sources[b];

    if (!mds_dataset_has_shared_files(d))
        return file_list_of_source(d, a) != file_list_of_source(d, b);
    return x->tokens != y->tokens || x->reading.frames != y->reading.frames ||
           x->reading.strands != y->reading.strands;
}

/* The first two inputs with the same contents that must not be shared; 0 if none. */
static int find_shared_input(const struct mds_dataset *d, const struct inputs *all,
                             const struct input **a, const struct input **b)
{
    for (size_t i = 0; i < all->n; i++)
        for (size_t j = i + 1; j < all->n; j++) {
            *a = &all->list[i];
            *b = &all->list[j];
            if (strcmp((*a)->sha256, (*b)->sha256) != 0)
                break;
            if ((*a)->source != (*b)->source &&
                must_not_share_input(d, (*a)->source, (*b)->source))
                return 1;
        }
    return 0;
}

/* By SHA-256.  Files without recorded inputs never match. */
static enum mds_rc warn_of_overlap(const struct mds_dataset *d)
{
    const struct input *one = NULL, *other = NULL;
    struct inputs all = {0};
    enum mds_rc rc = MDS_OK;

    if (d->n_sources < 2 || !has_held_out_tokens(d))
        return MDS_OK;
    for (int k = 0; k < d->n_sources && !rc; k++)
        rc = add_source_inputs(&all, d->sources[k], k);
    if (!rc && all.n > 1)
        qsort(all.list, all.n, sizeof *all.list, compare_by_sha256);
    if (!rc && find_shared_input(d, &all, &one, &other))
        mds_warn("%s and %s were both made from %s, so tokens held out of one may be "
                 "trained on in the other: give each file other inputs",
                 d->sources[one->source]->path, d->sources[other->source]->path,
                 one->path);
    free_inputs(&all);
    return rc;
}

/* Log how many rows the training documents of source k make, and how much is
 * padding. */
static void log_packing(const struct mds_dataset *d, int k)
{
    const struct member *m = &d->blends[MDS_SPLIT_TRAIN].members[k];
    const struct mds_packing_stats *s = mds_packing_stats(m->packing);
    struct mds_str more = {0};

    if (s->cut > 0)
        mds_str_add(&more, ", %lld longer than a row and cut into windows",
                    (long long)s->cut);
    if (s->left_out > 0)
        mds_str_add(&more, ", %lld of one token left out", (long long)s->left_out);
    mds_info("data: %s: %lld document%s in %lld row%s, %.2g %% padding%s",
             mds_blend_source(d, &d->blends[MDS_SPLIT_TRAIN], k)->path,
             (long long)s->documents, mds_plural(s->documents), (long long)s->rows,
             mds_plural(s->rows), 100 * mds_packing_padding(m->packing),
             more.s ? more.s : "");
    mds_str_fini(&more);
}

static void log_kinds(const struct mds_dataset *d)
{
    struct mds_str text = {0};

    for (int k = 0; k < d->n_kinds; k++)
        mds_str_add(&text, "%s %s (weight %g)", k > 0 ? "," : "", d->kind[k].name,
                    d->kind[k].weight);
    if (text.s)
        mds_info("data: kinds of tokens:%s", text.s);
    mds_str_fini(&text);
}

enum mds_rc mds_dataset_log(const struct mds_dataset *d, int trains)
{
    mds_info("data: %s", d->describe.s);
    log_splits(d);
    log_kinds(d);
    MDS_TRY(warn_of_overlap(d));
    if (trains && !d->documents_apart)
        return log_attention_across_documents(d);
    for (int k = 0;
         d->packs && trains && k < mds_blend_members(&d->blends[MDS_SPLIT_TRAIN]); k++)
        log_packing(d, k);
    return MDS_OK;
}
