/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_data info: what is in a token file, what is held out, how documents fill rows. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "base/str.h"
#include "base/units.h"
#include "data/packing.h"
#include "data/split.h"
#include "programs/mds_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char *word_of_id(const struct mds_source *s, int64_t id, char buf[24])
{
    if (s->words)
        return s->words[id];
    snprintf(buf, 24, "%lld", (long long)id);
    return buf;
}

static void print_most_common(const struct mds_source *s, const int64_t *counts)
{
    enum { SHOWN = 10 };
    int64_t limit = INT64_MAX, limit_id = -1;
    char buf[24];

    printf("%-12s", "most common");
    for (int i = 0; i < SHOWN; i++) {
        int64_t best = -1;

        /* The next after (limit, limit_id), in falling count and rising id. */
        for (int64_t id = 0; id < s->vocab; id++)
            if (counts[id] > 0 &&
                (counts[id] < limit || (counts[id] == limit && id > limit_id)) &&
                (best < 0 || counts[id] > counts[best]))
                best = id;
        if (best < 0)
            break;
        printf("%s %s %.2f %%", i > 0 ? "," : "", word_of_id(s, best, buf),
               100.0 * (double)counts[best] / (double)s->tokens);
        limit = counts[best];
        limit_id = best;
    }
    printf("\n");
}

static enum mds_rc longest_document(struct mds_source *s, int64_t *longest)
{
    enum { BLOCK = 1024 };
    int64_t starts[BLOCK + 1];

    *longest = 0;
    for (int64_t first = 0; first < s->documents; first += BLOCK) {
        int64_t n = mds_min(s->documents - first, BLOCK);

        MDS_TRY(mds_source_starts(s, first, n + 1, starts));
        for (int64_t i = 0; i < n; i++)
            if (starts[i + 1] - starts[i] > *longest)
                *longest = starts[i + 1] - starts[i];
    }
    return MDS_OK;
}

/* "16977 to 32335 (document 2)"; documents count from 1, as lines of dump do. */
static enum mds_rc print_span(struct mds_source *s, const struct mds_span *span)
{
    int64_t last = span->first + span->tokens - 1, documents[2];

    MDS_TRY(mds_source_document_at(s, span->first, &documents[0]));
    MDS_TRY(mds_source_document_at(s, last, &documents[1]));
    printf("%lld to %lld (document%s %lld", (long long)span->first, (long long)last,
           mds_plural(documents[1] - documents[0] + 1), (long long)documents[0] + 1);
    if (documents[1] > documents[0])
        printf(" to %lld", (long long)documents[1] + 1);
    printf(")");
    return MDS_OK;
}

static const char *describe_split(const struct mds_source *s, const struct mds_part *p)
{
    if (p->keeps_documents)
        return ", between documents";
    if (mds_reading_documents(&s->reading) > 1)
        return ", the same bases on all strands and in all frames";
    return s->documents > 1 ? ", within documents" : "";
}

static enum mds_rc print_splits(struct mds_source *s, const struct mds_data_options *v,
                                const double shares[MDS_SPLITS])
{
    struct mds_part parts[MDS_SPLITS];

    MDS_TRY(mds_split_cut(s, shares, (enum mds_split_at)v->split_at, parts));
    printf("%-12s %s%s\n", "split", v->split, describe_split(s, &parts[0]));
    for (int i = 0; i < MDS_SPLITS; i++) {
        printf("%-12s %lld token%s", mds_split_names[i], (long long)parts[i].tokens,
               mds_plural(parts[i].tokens));
        for (int k = 0; k < parts[i].spans; k++) {
            printf("%s", k > 0 ? ", " : ": ");
            MDS_TRY(print_span(s, &parts[i].span[k]));
        }
        printf("\n");
    }
    return MDS_OK;
}

/* How all documents of the file fill rows of S tokens and a target. */
static enum mds_rc print_packing(struct mds_source *s, int64_t S, int64_t stride)
{
    struct mds_part all = {.spans = 1, .span = {{0, s->tokens}}};
    const struct mds_packing_stats *p;
    struct mds_packing *packing;

    if (S < 1 || s->tokens < 1)
        return MDS_OK;
    if (stride > S)
        return mds_fail(MDS_EUSER,
                        "--window-stride %lld: must be at most --seq-length %lld",
                        (long long)stride, (long long)S);
    MDS_TRY(mds_packing_create(s, &all, S, stride, &packing));
    p = mds_packing_stats(packing);
    printf("%-12s %lld row%s of %lld tokens, %.3g %% padding\n", "packed",
           (long long)p->rows, mds_plural(p->rows), (long long)S,
           100 * mds_packing_padding(packing));
    printf("%-12s %lld (%.3g %%), longer than a row, in windows\n", "cut",
           (long long)p->cut, 100.0 * (double)p->cut / (double)s->documents);
    printf("%-12s %lld, of one token\n", "left out", (long long)p->left_out);
    if (p->rows > 0)
        printf(
            "%-12s %.3g %% of that of rows without documents\n", "attention",
            100 * mds_pairs_share(mds_packing_all_pairs(packing, 0), (double)p->rows, S)
                      .global);
    mds_packing_destroy(packing);
    return MDS_OK;
}

static enum mds_rc print_kinds(struct mds_source *s)
{
    int64_t counts[MDS_KINDS_MAX] = {0};

    if (!s->kinds)
        return MDS_OK;
    MDS_TRY(mds_source_count_kinds(s, counts));
    for (int i = 0; i < s->kinds->n; i++)
        printf("%-12s %s: weight %g, %lld token%s (%.2f %%)\n", "kind",
               s->kinds->kind[i].name, s->kinds->kind[i].weight, (long long)counts[i],
               mds_plural(counts[i]), 100.0 * (double)counts[i] / (double)s->tokens);
    return MDS_OK;
}

static enum mds_rc print_info(struct mds_source *s, int64_t *counts)
{
    struct mds_str provenance = {0};
    int64_t longest;
    double entropy;
    enum mds_rc rc;

    MDS_TRY(mds_source_count(s, 0, s->tokens, counts));
    MDS_TRY(longest_document(s, &longest));
    rc = mds_source_provenance(s, &provenance);
    if (!rc && provenance.failed)
        rc = MDS_EMEM;
    if (!rc) {
        entropy = mds_entropy(counts, s->vocab);
        printf("%-12s %s (%s)\n", "file", s->path, s->ops->name);
        printf("%-12s %lld (longest %lld tokens)\n", "documents",
               (long long)s->documents, (long long)longest);
        printf("%-12s %lld\n", "tokens", (long long)s->tokens);
        printf("%-12s %lld words%s\n", "vocabulary", (long long)s->vocab,
               s->vocab_seen ? " at least (the largest id + 1)" : "");
        printf("%-12s %s\n", "tokenizer", s->tokenizer ? s->tokenizer : "not stated");
        printf("%-12s %.4f nats/token (perplexity %.2f)\n", "entropy", entropy,
               exp(entropy));
        print_most_common(s, counts);
        fputs(provenance.s ? provenance.s : "", stdout);
    }
    mds_str_fini(&provenance);
    return rc;
}

static enum mds_rc count_and_print(struct mds_source *s)
{
    int64_t *counts, largest = -1;
    enum mds_rc rc = MDS_EMEM;

    if (s->vocab_seen) {
        MDS_TRY(mds_source_largest_id(s, 0, s->tokens, &largest));
        s->vocab = largest + 1;
    }
    counts = mds_zalloc((size_t)s->vocab, sizeof *counts);
    if (counts)
        rc = print_info(s, counts);
    free(counts);
    return rc;
}

enum mds_rc mds_data_run_info(const struct mds_invocation *c)
{
    const char *split = mds_data_options(c)->split;
    double shares[MDS_SPLITS];
    struct mds_source *s;
    enum mds_rc rc;

    if (!mds_split_shares(split, shares))
        return mds_fail(MDS_EUSER, "--split '%s': must be proportions such as 949,50,1",
                        split);
    MDS_TRY(mds_source_open(c->operand[0], &s));
    rc = count_and_print(s);
    if (!rc)
        rc = print_kinds(s);
    if (!rc)
        rc = print_splits(s, mds_data_options(c), shares);
    if (!rc)
        rc = print_packing(s, mds_data_options(c)->seq_length,
                           mds_data_options(c)->stride);
    mds_source_close(s);
    return rc;
}
