#include "data/dataset.h"

#include "base/alloc.h"
#include "base/str.h"
#include "base/units.h"
#include "config/options.h"
#include "data/mix.h"
#include "data/paths.h"
#include "data/permute.h"
#include "data/source.h"
#include "data/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct part {
    int64_t first, tokens, windows;
};

struct member {
    struct mds_source *source;
    struct part parts[MDS_SPLITS];
};

struct mds_dataset {
    int64_t seq_length, vocab;
    uint64_t seed;
    char *split; /* as the user wrote it, for messages */
    struct mds_paths paths;
    struct member *members; /* [paths.n] */
    struct mds_mix *mix;
    struct mds_str describe;
};

static void cut(struct member *m, const double shares[MDS_SPLITS], int64_t seq_length)
{
    int64_t bounds[MDS_SPLITS + 1];

    mds_split_bounds(shares, m->source->tokens, bounds);
    for (int s = 0; s < MDS_SPLITS; s++) {
        struct part *p = &m->parts[s];

        p->first = bounds[s];
        p->tokens = bounds[s + 1] - bounds[s];
        p->windows = p->tokens > 0 ? (p->tokens - 1) / seq_length : 0;
    }
}

/* In per cent, and not less. */
static double share_of(long long need, long long all)
{
    return ceil(1e4 * (double)need / (double)all) / 100;
}

static enum mds_rc too_short(const struct mds_dataset *d, const struct member *m,
                             enum mds_split s)
{
    const char *path = m->source->path, *name = mds_split_names[s];
    long long all = m->source->tokens, have = m->parts[s].tokens;
    long long need = d->seq_length + 1;
    const char *without = s == MDS_SPLIT_VALID ? ", or --eval-iters 0" : "";

    if (all < need)
        return mds_fail(MDS_EUSER,
                        "%s: %lld tokens in all, but a window takes %lld (--seq-length "
                        "%lld and its target): use --seq-length %lld or less",
                        path, all, need, need - 1, have > 1 ? have - 1 : 1);
    if (have < 2)
        return mds_fail(MDS_EUSER,
                        "%s: --split %s leaves %lld tokens for %s, but a window takes "
                        "%lld: give %s at least %g %%%s",
                        path, d->split, have, name, need, name, share_of(need, all),
                        without);
    return mds_fail(
        MDS_EUSER,
        "%s: --split %s leaves %lld tokens for %s, but a window takes %lld "
        "(--seq-length %lld and its target): use --seq-length %lld or less, "
        "or give %s at least %g %%%s",
        path, d->split, have, name, need, need - 1, have - 1, name, share_of(need, all),
        without);
}

enum mds_rc mds_dataset_require(const struct mds_dataset *d, enum mds_split s)
{
    for (int k = 0; k < d->paths.n; k++)
        if (d->members[k].parts[s].windows == 0)
            return too_short(d, &d->members[k], s);
    return MDS_OK;
}

static int same_words(const struct mds_source *a, const struct mds_source *b)
{
    if (a->vocab != b->vocab)
        return 0;
    for (int64_t i = 0; a->words && b->words && i < a->vocab; i++)
        if (strcmp(a->words[i], b->words[i]) != 0)
            return 0;
    return 1;
}

/* Formats that state a vocabulary must state the same; ids of the others must fit in.
 */
static enum mds_rc agree_on_vocabulary(struct mds_dataset *d)
{
    const struct mds_source *stated = NULL;

    for (int k = 0; k < d->paths.n; k++) {
        const struct mds_source *s = d->members[k].source;

        if (stated && !s->vocab_seen && !same_words(stated, s))
            return mds_fail(MDS_EUSER,
                            "%s (%s, %lld words) and %s (%s, %lld words) differ in "
                            "vocabulary: a mix needs files of one tokenizer",
                            stated->path, stated->tokenizer, (long long)stated->vocab,
                            s->path, s->tokenizer, (long long)s->vocab);
        if (!stated && !s->vocab_seen)
            stated = s;
        if (s->vocab > d->vocab)
            d->vocab = s->vocab;
    }
    if (stated && d->vocab > stated->vocab)
        return mds_fail(MDS_EUSER,
                        "%s: vocabulary of %lld words, but another file of the mix has "
                        "token ids up to %lld",
                        stated->path, (long long)stated->vocab,
                        (long long)d->vocab - 1);
    return MDS_OK;
}

static enum mds_rc open_members(struct mds_dataset *d, const double *shares)
{
    for (int k = 0; k < d->paths.n; k++) {
        MDS_TRY(mds_source_open(d->paths.path[k], &d->members[k].source));
        cut(&d->members[k], shares, d->seq_length);
    }
    return mds_mix_create(d->paths.weight, d->paths.n, &d->mix);
}

static enum mds_rc describe(struct mds_dataset *d)
{
    const char *tokenizer = d->members[0].source->tokenizer;
    int64_t tokens = 0;
    char count[32];

    for (int k = 0; k < d->paths.n; k++) {
        const char *path = d->members[k].source->path;
        const char *slash = strrchr(path, '/');

        if (d->paths.n > 1)
            mds_str_add(&d->describe, "%s%.3g ", k > 0 ? " + " : "",
                        d->paths.weight[k]);
        mds_str_add(&d->describe, "%s", slash ? slash + 1 : path);
        tokens += d->members[k].source->tokens;
    }
    mds_str_add(&d->describe, ": %s, %s tokens, %lld words",
                tokenizer ? tokenizer : "Megatron ids",
                mds_format_count((double)tokens, count, sizeof count),
                (long long)d->vocab);
    return d->describe.failed ? MDS_EMEM : MDS_OK;
}

static enum mds_rc fill(struct mds_dataset *d, const struct mds_data_config *c)
{
    double shares[MDS_SPLITS];

    if (!mds_split_shares(c->split, shares))
        return mds_fail(MDS_EUSER, "--split '%s': must be proportions such as 949,50,1",
                        c->split);
    d->split = mds_strdup(c->split);
    if (!d->split)
        return MDS_EMEM;
    MDS_TRY(mds_paths_parse(c->paths, &d->paths));
    d->members = mds_zalloc((size_t)d->paths.n, sizeof *d->members);
    if (!d->members)
        return MDS_EMEM;
    return open_members(d, shares);
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
    rc = fill(d, c);
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
    for (int k = 0; d->members && k < d->paths.n; k++)
        mds_source_close(d->members[k].source);
    mds_mix_destroy(d->mix);
    mds_paths_fini(&d->paths);
    mds_str_fini(&d->describe);
    free(d->members);
    free(d->split);
    free(d);
}

enum mds_rc mds_dataset_largest(struct mds_dataset *d, int part, int parts,
                                int64_t *largest)
{
    *largest = -1;
    for (int k = 0; k < d->paths.n; k++) {
        struct mds_source *s = d->members[k].source;
        int64_t first = s->tokens * part / parts;

        if (s->vocab_seen)
            MDS_TRY(mds_source_largest(s, first, s->tokens * (part + 1) / parts - first,
                                       largest));
    }
    return MDS_OK;
}

enum mds_rc mds_dataset_settle(struct mds_dataset *d, int64_t largest)
{
    for (int k = 0; k < d->paths.n; k++)
        if (d->members[k].source->vocab_seen)
            d->members[k].source->vocab = largest + 1;
    MDS_TRY(agree_on_vocabulary(d));
    return describe(d);
}

int64_t mds_dataset_vocab(const struct mds_dataset *d)
{
    return d->vocab;
}

int64_t mds_dataset_tokens(const struct mds_dataset *d, enum mds_split s)
{
    int64_t tokens = 0;

    for (int k = 0; k < d->paths.n; k++)
        tokens += d->members[k].parts[s].tokens;
    return tokens;
}

int64_t mds_dataset_samples(const struct mds_dataset *d, enum mds_split s)
{
    int64_t windows = 0;

    for (int k = 0; k < d->paths.n; k++) {
        if (d->members[k].parts[s].windows == 0)
            return 0;
        windows += d->members[k].parts[s].windows;
    }
    return windows;
}

const char *mds_dataset_describe(const struct mds_dataset *d)
{
    return d->describe.s;
}

static enum mds_rc count_member(struct mds_dataset *d, int k, enum mds_split s,
                                double total_weight, int64_t *counts, double *mixed)
{
    const struct part *p = &d->members[k].parts[s];
    int64_t vocab = d->members[k].source->vocab;

    memset(counts, 0, (size_t)vocab * sizeof *counts);
    MDS_TRY(mds_source_count(d->members[k].source, p->first, p->tokens, counts));
    for (int64_t i = 0; i < vocab; i++)
        mixed[i] +=
            d->paths.weight[k] / total_weight * (double)counts[i] / (double)p->tokens;
    return MDS_OK;
}

enum mds_rc mds_dataset_entropy(struct mds_dataset *d, enum mds_split s, double *nats)
{
    int64_t *counts = mds_zalloc((size_t)d->vocab, sizeof *counts);
    double *mixed = mds_zalloc((size_t)d->vocab, sizeof *mixed);
    enum mds_rc rc = counts && mixed ? mds_dataset_require(d, s) : MDS_EMEM;
    double total_weight = 0, sum = 0;

    for (int k = 0; k < d->paths.n; k++)
        total_weight += d->paths.weight[k];
    for (int k = 0; k < d->paths.n && !rc; k++)
        rc = count_member(d, k, s, total_weight, counts, mixed);
    for (int64_t i = 0; i < d->vocab && !rc; i++)
        if (mixed[i] > 0)
            sum -= mixed[i] * log(mixed[i]);
    free(mixed);
    free(counts);
    if (!rc)
        *nats = sum;
    return rc;
}

/* Where training sample `within` of member k starts: its epoch's shift and permutation.
 */
static int64_t training_start(const struct mds_dataset *d, int k, int64_t within)
{
    const struct part *p = &d->members[k].parts[MDS_SPLIT_TRAIN];
    int64_t slack = (p->tokens - 1) % d->seq_length;
    uint64_t epoch = (uint64_t)(within / p->windows);
    uint64_t key = mds_hash(mds_hash(d->seed, (uint64_t)k), epoch);
    int64_t shift = (int64_t)(mds_hash(key, ~(uint64_t)0) % (uint64_t)(slack + 1));

    return p->first + shift +
           mds_permute(key, p->windows, within % p->windows) * d->seq_length;
}

enum mds_rc mds_dataset_sample(struct mds_dataset *d, enum mds_split s, int64_t index,
                               int32_t *tokens)
{
    const struct part *p;
    int64_t within, start;
    int k;

    if (index < 0)
        return mds_fail(MDS_EBUG, "data set: sample %lld", (long long)index);
    mds_mix_pick(d->mix, index, &k, &within);
    p = &d->members[k].parts[s];
    if (p->windows == 0)
        return too_short(d, &d->members[k], s);
    start = s == MDS_SPLIT_TRAIN ? training_start(d, k, within)
                                 : p->first + within % p->windows * d->seq_length;
    return mds_source_read(d->members[k].source, start, d->seq_length + 1, tokens);
}
