/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/dataset_impl.h"

#include "base/alloc.h"
#include "base/units.h"
#include "config/options.h"
#include "data/complement.h"
#include "data/permute.h"
#include "data/window.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_windows(const struct mds_dataset *d, const struct mds_span *span)
{
    return (span->tokens - 1) / d->seq_length;
}

static int same_vocabulary(const struct mds_source *a, const struct mds_source *b)
{
    if (a->vocab != b->vocab)
        return 0;
    for (int64_t i = 0; a->words && b->words && i < a->vocab; i++)
        if (strcmp(a->words[i], b->words[i]) != 0)
            return 0;
    return 1;
}

/* Files that state a vocabulary must state the same one, and it must hold all ids of
 * the other files. */
static enum mds_rc check_vocabularies(struct mds_dataset *d)
{
    const struct mds_source *stated = NULL;

    for (int k = 0; k < d->n_sources; k++) {
        const struct mds_source *s = d->sources[k];

        if (stated && !s->vocab_seen && !same_vocabulary(stated, s))
            return mds_fail(MDS_EUSER,
                            "%s (%s, %lld words) and %s (%s, %lld words) differ in "
                            "vocabulary: use files of one tokenizer",
                            stated->path, stated->tokenizer, (long long)stated->vocab,
                            s->path, s->tokenizer, (long long)s->vocab);
        if (!stated && !s->vocab_seen)
            stated = s;
        if (s->vocab > d->vocab)
            d->vocab = s->vocab;
    }
    if (stated && d->vocab > stated->vocab)
        return mds_fail(MDS_EUSER,
                        "%s: vocabulary of %lld words, but another file has "
                        "token ids up to %lld: use files of one tokenizer",
                        stated->path, (long long)stated->vocab,
                        (long long)d->vocab - 1);
    return MDS_OK;
}

struct mds_vocabulary mds_dataset_vocabulary(const struct mds_dataset *d)
{
    struct mds_vocabulary v = {mds_tokenizer_find(d->sources[0]->tokenizer), d->vocab,
                               (int32_t)d->sources[0]->eod};

    for (int k = 1; k < d->n_sources; k++) {
        if (mds_tokenizer_find(d->sources[k]->tokenizer) != v.tokenizer)
            v.tokenizer = MDS_TOKENIZER_IDS;
        if (d->sources[k]->eod != v.eod)
            v.eod = -1;
    }
    return v;
}

static enum mds_rc open_files(struct mds_dataset *d, struct files *f,
                              const char *option, const char *text)
{
    f->first = d->n_sources;
    MDS_TRY(mds_paths_parse(option, text, &f->paths));
    MDS_TRY(mds_mix_create(f->paths.weight, f->paths.n, &f->mix));
    MDS_TRY(mds_resize(&d->sources, (size_t)(d->n_sources + f->paths.n),
                       sizeof *d->sources));
    for (int k = 0; k < f->paths.n; k++) {
        MDS_TRY(mds_source_open(f->paths.path[k], &d->sources[d->n_sources]));
        d->n_sources++;
    }
    return MDS_OK;
}

static enum mds_rc set_member_part(struct mds_dataset *d, struct blend *b, int k,
                                   const struct mds_part *part)
{
    struct member *m = &b->members[k];

    m->part = *part;
    if (d->packs) {
        MDS_TRY(mds_packing_create(mds_blend_source(d, b, k), part, d->seq_length,
                                   d->window_stride, &m->packing));
        m->samples = mds_packing_stats(m->packing)->rows;
        return MDS_OK;
    }
    for (int i = 0; i < part->spans; i++)
        m->samples += count_windows(d, &part->span[i]);
    return MDS_OK;
}

/* Split every file among training, validation and test. */
static enum mds_rc split_shared_files(struct mds_dataset *d, const double *shares,
                                      enum mds_split_at at)
{
    struct mds_part parts[MDS_SPLITS];

    for (int k = 0; k < d->n_sources; k++) {
        MDS_TRY(mds_split_cut(d->sources[k], shares, at, parts));
        for (int s = 0; s < MDS_SPLITS; s++)
            MDS_TRY(set_member_part(d, &d->blends[s], k, &parts[s]));
    }
    return MDS_OK;
}

/* Every split has files of its own, used whole. */
static enum mds_rc use_whole_files(struct mds_dataset *d)
{
    static const double whole[MDS_SPLITS] = {1, 0, 0};
    struct mds_part parts[MDS_SPLITS];

    for (int s = 0; s < MDS_SPLITS; s++)
        for (int k = 0; k < mds_blend_members(&d->blends[s]); k++) {
            MDS_TRY(mds_split_cut(mds_blend_source(d, &d->blends[s], k), whole,
                                  MDS_SPLIT_AT_TOKENS, parts));
            MDS_TRY(set_member_part(d, &d->blends[s], k, &parts[0]));
        }
    return MDS_OK;
}

static enum mds_rc open_all_files(struct mds_dataset *d,
                                  const struct mds_data_config *c)
{
    const char *own[MDS_SPLITS] = {c->train_paths, c->valid_paths, c->test_paths};
    int shared = !c->train_paths && !c->valid_paths && !c->test_paths;

    if (shared)
        MDS_TRY(open_files(d, &d->files[0], "--data-path", c->paths));
    for (int s = 0; s < MDS_SPLITS; s++) {
        struct blend *b = &d->blends[s];

        b->files = &d->files[shared ? 0 : s];
        if (!shared && own[s])
            MDS_TRY(open_files(d, b->files, mds_split_options[s], own[s]));
        b->members = mds_zalloc((size_t)mds_blend_members(b), sizeof *b->members);
        if (!b->members)
            return MDS_EMEM;
    }
    return MDS_OK;
}

static void describe_files(struct mds_dataset *d, const struct files *f)
{
    for (int k = 0; k < f->paths.n; k++) {
        const char *path = d->sources[f->first + k]->path, *slash = strrchr(path, '/');

        if (f->paths.n > 1)
            mds_str_add(&d->describe, "%s%.3g ", k > 0 ? " + " : "",
                        f->paths.weight[k]);
        mds_str_add(&d->describe, "%s", slash ? slash + 1 : path);
    }
}

static enum mds_rc describe_dataset(struct mds_dataset *d)
{
    const char *tokenizer = d->sources[0]->tokenizer;
    int64_t tokens = 0;
    char count[32];

    for (int s = 0; s < (mds_dataset_has_shared_files(d) ? 1 : MDS_SPLITS); s++) {
        if (d->files[s].paths.n == 0)
            continue;
        if (s > 0)
            mds_str_add(&d->describe, "%s%s ", d->describe.s ? ", " : "",
                        mds_split_names[s]);
        describe_files(d, &d->files[s]);
    }
    for (int k = 0; k < d->n_sources; k++)
        tokens += d->sources[k]->tokens;
    mds_str_add(&d->describe, ": %s, %s tokens, %lld words",
                tokenizer ? tokenizer : "Megatron ids",
                mds_format_count((double)tokens, count, sizeof count),
                (long long)d->vocab);
    return d->describe.failed ? MDS_EMEM : MDS_OK;
}

/* There must be something to reverse. */
static enum mds_rc check_reverses(const struct mds_dataset *d)
{
    int any = 0;

    for (int k = 0; k < d->n_sources; k++)
        any |= d->sources[k]->is_genome;
    if (!d->reverses || any)
        return MDS_OK;
    return mds_fail(
        MDS_EUSER,
        "--random-reverse-complement: %s is not made from FASTA by mds_data "
        "make, so its tokens have no reverse complement",
        d->sources[0]->path);
}

static enum mds_rc open_and_split(struct mds_dataset *d,
                                  const struct mds_data_config *c)
{
    double shares[MDS_SPLITS];

    if (!mds_split_shares(c->split, shares))
        return mds_fail(MDS_EUSER, "--split '%s': must be proportions such as 949,50,1",
                        c->split);
    d->split = mds_strdup(c->split);
    if (!d->split)
        return MDS_EMEM;
    MDS_TRY(open_all_files(d, c));
    MDS_TRY(mds_dataset_start_order(d));
    MDS_TRY(check_reverses(d));
    MDS_TRY(mds_dataset_merge_kinds(d));
    return mds_dataset_has_shared_files(d)
               ? split_shared_files(d, shares, (enum mds_split_at)c->split_at)
               : use_whole_files(d);
}

enum mds_rc mds_dataset_open(const struct mds_data_config *c, int64_t seq_length,
                             uint64_t seed, struct mds_dataset **out)
{
    struct mds_dataset *d;
    enum mds_rc rc;

    if (seq_length < 1)
        return mds_fail(MDS_EBUG, "data set with windows of %lld tokens",
                        (long long)seq_length);
    d = mds_zalloc(1, sizeof *d);
    if (!d)
        return MDS_EMEM;
    d->seq_length = seq_length;
    d->seed = seed;
    d->packs = c->pack_documents == MDS_PACK_ON;
    d->window_stride = c->window_stride;
    d->documents_apart = c->reset_attention_mask;
    d->reverses = c->random_reverse_complement;
    rc = open_and_split(d, c);
    if (rc) {
        mds_dataset_close(d);
        return rc;
    }
    *out = d;
    return MDS_OK;
}

void mds_dataset_close(struct mds_dataset *d)
{
    if (!d)
        return;
    for (int k = 0; k < d->n_sources; k++)
        mds_source_close(d->sources[k]);
    for (int s = 0; s < MDS_SPLITS; s++) {
        for (int k = 0; d->blends[s].members && k < mds_blend_members(&d->blends[s]);
             k++)
            mds_packing_destroy(d->blends[s].members[k].packing);
        free(d->blends[s].members);
    }
    for (int s = 0; s < MDS_SPLITS; s++) {
        mds_mix_destroy(d->files[s].mix);
        mds_paths_fini(&d->files[s].paths);
    }
    mds_position_fini(&d->position);
    free(d->order);
    mds_str_fini(&d->describe);
    free(d->kind_of);
    free(d->sources);
    free(d->split);
    free(d);
}

enum mds_rc mds_dataset_largest_id(struct mds_dataset *d, int part, int parts,
                                   int64_t *largest)
{
    *largest = -1;
    for (int k = 0; k < d->n_sources; k++) {
        struct mds_source *s = d->sources[k];
        int64_t first = s->tokens * part / parts;

        if (s->vocab_seen)
            MDS_TRY(mds_source_largest_id(
                s, first, s->tokens * (part + 1) / parts - first, largest));
    }
    return MDS_OK;
}

enum mds_rc mds_dataset_set_vocab(struct mds_dataset *d, int64_t largest)
{
    for (int k = 0; k < d->n_sources; k++)
        if (d->sources[k]->vocab_seen)
            d->sources[k]->vocab = largest + 1;
    MDS_TRY(check_vocabularies(d));
    return describe_dataset(d);
}

int64_t mds_dataset_vocab(const struct mds_dataset *d)
{
    return d->vocab;
}

int64_t mds_dataset_tokens(const struct mds_dataset *d, enum mds_split s)
{
    int64_t tokens = 0;

    for (int k = 0; k < mds_blend_members(&d->blends[s]); k++)
        tokens += d->blends[s].members[k].part.tokens;
    return tokens;
}

int64_t mds_dataset_samples(const struct mds_dataset *d, enum mds_split s)
{
    int64_t windows = 0;

    for (int k = 0; k < mds_blend_members(&d->blends[s]); k++) {
        if (d->blends[s].members[k].samples == 0)
            return 0;
        windows += d->blends[s].members[k].samples;
    }
    return windows;
}

int mds_dataset_files(const struct mds_dataset *d, enum mds_split s)
{
    return mds_blend_members(&d->blends[s]);
}

const char *mds_dataset_file(const struct mds_dataset *d, enum mds_split s, int k)
{
    return mds_blend_source(d, &d->blends[s], k)->path;
}

int64_t mds_dataset_file_samples(const struct mds_dataset *d, enum mds_split s, int k)
{
    return d->blends[s].members[k].samples;
}

/* ---- entropy --------------------------------------------------------------------- */

static enum mds_rc count_member_tokens(struct mds_dataset *d, const struct blend *b,
                                       int k, int64_t *counts, double *mixed)
{
    const struct mds_part *p = &b->members[k].part;
    double share = b->files->paths.weight[k] / mds_blend_weight(b);
    struct mds_source *s = mds_blend_source(d, b, k);

    memset(counts, 0, (size_t)s->vocab * sizeof *counts);
    for (int i = 0; i < p->spans; i++)
        MDS_TRY(mds_source_count(s, p->span[i].first, p->span[i].tokens, counts));
    for (int64_t i = 0; i < s->vocab; i++)
        mixed[i] += share * (double)counts[i] / (double)p->tokens;
    return MDS_OK;
}

enum mds_rc mds_dataset_entropy(struct mds_dataset *d, enum mds_split s, double *nats)
{
    int64_t *counts = mds_zalloc((size_t)d->vocab, sizeof *counts);
    double *mixed = mds_zalloc((size_t)d->vocab, sizeof *mixed);
    enum mds_rc rc = counts && mixed ? mds_dataset_require(d, s) : MDS_EMEM;
    double sum = 0;

    for (int k = 0; k < mds_blend_members(&d->blends[s]) && !rc; k++)
        rc = count_member_tokens(d, &d->blends[s], k, counts, mixed);
    for (int64_t i = 0; i < d->vocab && !rc; i++)
        if (mixed[i] > 0)
            sum -= mixed[i] * log(mixed[i]);
    free(mixed);
    free(counts);
    if (!rc)
        *nats = sum;
    return rc;
}

/* ---- samples --------------------------------------------------------------------- */

/* The first token of window w.  A span is longer than its windows; `shift` says how
 * much of the rest comes before them. */
static int64_t window_start(const struct mds_dataset *d, const struct member *m,
                            int64_t w, uint64_t shift)
{
    const struct mds_span *span = m->part.span;

    for (; w >= count_windows(d, span); span++)
        w -= count_windows(d, span);
    return span->first + w * d->seq_length +
           (int64_t)(shift % (uint64_t)((span->tokens - 1) % d->seq_length + 1));
}

/* Which of a member's samples to read.  shift: offset of this epoch's windows. */
struct sample_choice {
    int64_t sample;
    uint64_t shift;
    int reversed; /* DNA: the other strand */
};

/* Chosen for each sample of each epoch by itself.  file: its key. */
static int is_reversed(const struct mds_dataset *d, int64_t file, int64_t within)
{
    static const uint64_t strands = 0x737472616e6473; /* not the key of the order */
    uint64_t key = mds_hash(mds_hash(d->seed, strands), (uint64_t)file);

    return d->reverses && mds_hash(key, (uint64_t)within) >> 63;
}

/* For the member's training sample number `within`: apply the epoch's permutation. */
static struct sample_choice choose_training_sample(const struct mds_dataset *d, int k,
                                                   int64_t within)
{
    const struct member *m = &d->blends[MDS_SPLIT_TRAIN].members[k];
    int64_t file = d->order->file[k].key;
    uint64_t epoch = (uint64_t)(within / m->samples);
    uint64_t key = mds_hash(mds_hash(d->seed, (uint64_t)file), epoch);

    return (struct sample_choice){mds_permute(key, m->samples, within % m->samples),
                                  mds_hash(key, ~(uint64_t)0),
                                  is_reversed(d, file, within)};
}

/* Windows are evaluated in the order of the file.  Packed rows are sorted by length, so
 * the first few would not be representative: they are permuted, always in the same
 * way. */
static struct sample_choice choose_evaluation_sample(const struct member *m,
                                                     int64_t within)
{
    return (struct sample_choice){
        m->packing ? mds_permute(0, m->samples, within) : within, 0, 0};
}

static enum mds_rc read_window(const struct mds_dataset *d, struct mds_source *s,
                               int64_t first, const struct mds_sample *out)
{
    int64_t n = d->seq_length + 1;

    if (out->start)
        MDS_TRY(mds_window_starts(s, first, n, out->start));
    if (out->kind)
        MDS_TRY(mds_source_read_kinds(s, first, n, out->kind));
    return mds_source_read(s, first, n, out->token);
}

static enum mds_rc read_sample(const struct mds_dataset *d, const struct member *m,
                               struct mds_source *s, struct sample_choice at,
                               const struct mds_sample *out)
{
    if (m->packing)
        return mds_packing_read(m->packing, s, at.sample,
                                s->eod < 0 ? 0 : (int32_t)s->eod, out);
    return read_window(d, s, window_start(d, m, at.sample, at.shift), out);
}

/* Where sample `index` of a split comes from. */
struct origin {
    const struct member *member;
    int source;
    struct sample_choice choice;
};

static enum mds_rc find_sample(const struct mds_dataset *d, enum mds_split s,
                               int64_t index, struct origin *out)
{
    const struct blend *b = &d->blends[s];
    int64_t within = index, first = s == MDS_SPLIT_TRAIN ? d->order->began : 0;
    int k = 0;

    MDS_TRY(mds_dataset_require(d, s));
    if (index < first || (s != MDS_SPLIT_TRAIN && index >= mds_dataset_samples(d, s)))
        return mds_fail(MDS_EBUG, "data set: sample %lld", (long long)index);
    if (s == MDS_SPLIT_TRAIN)
        mds_mix_pick(b->files->mix, index - first, &k, &within);
    else
        while (within >= b->members[k].samples)
            within -= b->members[k++].samples;
    out->member = &b->members[k];
    out->source = b->files->first + k;
    out->choice = s == MDS_SPLIT_TRAIN
                      ? choose_training_sample(d, k, d->order->file[k].start + within)
                      : choose_evaluation_sample(out->member, within);
    return MDS_OK;
}

enum mds_rc mds_dataset_sample(struct mds_dataset *d, enum mds_split s, int64_t index,
                               const struct mds_sample *out)
{
    struct mds_source *source;
    struct origin from;

    MDS_TRY(find_sample(d, s, index, &from));
    source = d->sources[from.source];
    MDS_TRY(read_sample(d, from.member, source, from.choice, out));
    if (from.choice.reversed)
        mds_sample_reverse_complement(mds_tokenizer_find(source->tokenizer), out,
                                      d->seq_length + 1);
    if (out->kind && d->kind_of)
        mds_dataset_renumber_kinds(d, from.source, out->kind);
    return MDS_OK;
}

enum mds_rc mds_dataset_pairs(const struct mds_dataset *d, enum mds_split s,
                              int64_t index, double *pairs)
{
    struct origin from;

    MDS_TRY(find_sample(d, s, index, &from));
    *pairs = from.member->packing
                 ? mds_packing_pairs(from.member->packing, from.choice.sample)
                 : (double)d->seq_length * ((double)d->seq_length + 1) / 2;
    return MDS_OK;
}
