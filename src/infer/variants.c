/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/variants.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "infer/batch.h"
#include "infer/genome.h"
#include "infer/variant_file.h"
#include "infer/window.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Why an allele has no score. */
enum status {
    SCORED,
    NO_ALLELE,
    SYMBOLIC,
    AMBIGUOUS,
    NO_CONTIG,
    REF_MISMATCH,
    NO_WINDOW,
    SAME_TOKENS,
    STATUSES
};

static const struct {
    const char *name, *what;
} statuses[STATUSES] = {
    [SCORED] = {"ok", NULL},
    [NO_ALLELE] = {"no_allele", "records have no other allele"},
    [SYMBOLIC] = {"symbolic", "alleles are symbolic, breakends or deleted (*)"},
    [AMBIGUOUS] = {"ambiguous", "alleles have other letters than A, C, G and T"},
    [NO_CONTIG] = {"no_contig", "are on sequences that the FASTA does not have: are "
                                "they called otherwise there?"},
    [REF_MISMATCH] = {"ref_mismatch",
                      "have a REF that is not what the FASTA has there: "
                      "is it another assembly?"},
    [NO_WINDOW] = {"no_window",
                   "do not fit into a window, or are behind the last whole "
                   "token of the sequence"},
    [SAME_TOKENS] = {"same_tokens",
                     "have the tokens of REF: beside an N, or the same bases"},
};

struct allele {
    enum status status;
    int64_t ref[2], alt[2]; /* items of the batch, by strand */
    int is_substitution; /* as many bases as the reference has: windows are aligned */
};

struct record {
    struct mds_vcf_record *line;
    struct mds_variant is;
    struct allele *allele; /* [alleles], at least one */
    int alleles;
};

/* A window of the reference that is in the batch. */
struct reference {
    char *chrom; /* owned */
    struct mds_infer_window at;
    int strand;
    int64_t item;
};

enum { REFERENCES = 16 }; /* of the last records */

struct scoring {
    const struct mds_infer_variants *s;
    struct mds_infer_model *m;
    struct mds_infer_batch *batch;
    struct mds_genome *genome;
    struct mds_infer_variant_file out;
    struct record *record;
    int64_t records, room;
    struct reference reference[REFERENCES];
    int next_reference;
    unsigned char *bases, *with; /* of a window; with an allele */
    int32_t *ids, *with_ids;     /* their tokens */
    int64_t base_room;
    int64_t skip; /* what is left of what an earlier job wrote */
    /* what came of it */
    int64_t variants, count[STATUSES];
    char first[STATUSES][96]; /* an example of each */
};

/* ---- how much there is ---- */

static int token_bases(const struct mds_infer_model *m)
{
    return mds_tokenizer_bases(m->vocabulary.tokenizer);
}

/* Tokens of so many bases. */
static int64_t token_count(const struct mds_infer_model *m, int64_t bases)
{
    int stride = mds_tokenizer_stride(m->vocabulary.tokenizer);

    return (bases - token_bases(m)) / stride + 1;
}

/* Bases of so many tokens. */
static int64_t base_count(const struct mds_infer_model *m, int64_t tokens)
{
    int stride = mds_tokenizer_stride(m->vocabulary.tokenizer);

    return (tokens - 1) * stride + token_bases(m);
}

/* For windows that share what is left of an allele: at the end one and some alleles, in
 * the middle two and an allele of each, or three that share nothing. */
enum { MORE_TOKENS = 16 }; /* for longer alleles, and more of them */

static int64_t row_tokens(const struct mds_infer_variants *s, int64_t window)
{
    return s->at_end ? window + MORE_TOKENS : 2 * (window + window / 2 + MORE_TOKENS);
}

/* What attention sees in such a row: of each allele all its window, as far as it is not
 * shared. */
static void count_pairs(const struct mds_infer_variants *s,
                        const struct mds_infer_model *m, struct mds_infer_need *need)
{
    int64_t window = m->run->config.model.window, n = need->longest;
    int64_t shared = s->at_end ? n - 1 : n / 2;
    double rows = s->at_end ? 1 : 2, alleles = s->at_end ? MORE_TOKENS : 2;

    mds_pairs_add(&need->pairs, rows, mds_pairs_of_document(n, window));
    mds_pairs_add(&need->pairs, alleles, mds_pairs_of_document(n, window));
    mds_pairs_add(&need->pairs, -alleles, mds_pairs_of_document(shared, window));
    need->pair_tokens = need->row;
}

enum mds_rc mds_infer_variants_measure(struct mds_infer_variants *s,
                                       const struct mds_infer_model *m,
                                       struct mds_infer_need *need)
{
    int64_t limit = mds_infer_model_limit(m), usual = 8192, most;

    if (token_bases(m) == 0)
        return mds_fail(MDS_EUSER,
                        "--vcf: tokens of %s are not made of bases; if the model reads "
                        "bases, say how: --tokenizer",
                        mds_tokenizer_names[m->vocabulary.tokenizer]);
    most = limit == INT64_MAX ? limit : base_count(m, limit);
    if (m->run->config.model.seq_length > 0)
        usual = mds_min(usual, base_count(m, m->run->config.model.seq_length + 1));
    if (s->window > most)
        return mds_fail(MDS_EUSER,
                        "--window %" PRId64 ": %s takes %" PRId64
                        " tokens, which are %" PRId64 " bases",
                        s->window, m->path, limit, most);
    if (s->window == 0)
        s->window = mds_min(usual, most);
    s->window = s->window / token_bases(m) * token_bases(m);
    if (s->window < 2 * token_bases(m))
        return mds_fail(MDS_EUSER, "--window: must have %d bases at least",
                        2 * token_bases(m));
    need->longest = token_count(m, s->window);
    need->tokens = 0;
    need->row = row_tokens(s, need->longest);
    count_pairs(s, m, need);
    if (need->until_s > 0)
        MDS_TRY(mds_infer_variants_look_through(s->vcf, need->until_s, &need->alleles));
    need->strands = s->strand == MDS_INFER_BOTH ? 2 : 1;
    need->row_alleles = s->at_end ? 1 : 2;
    return MDS_OK;
}

/* ---- what can be scored ---- */

static int is_symbolic(const char *allele)
{
    return strpbrk(allele, "<>[]*.") != NULL;
}

static int has_bases_only(const char *allele)
{
    for (; *allele; allele++)
        if (mds_genome_base(*allele) == MDS_BASE_N)
            return 0;
    return 1;
}

static enum mds_rc need_bases(struct scoring *g, int64_t n)
{
    void *bases, *with, *ids, *with_ids;

    if (n <= g->base_room)
        return MDS_OK;
    bases = mds_realloc(g->bases, (size_t)n, 1);
    g->bases = bases ? bases : g->bases;
    with = mds_realloc(g->with, (size_t)n, 1);
    g->with = with ? with : g->with;
    ids = mds_realloc(g->ids, (size_t)n, sizeof *g->ids);
    g->ids = ids ? ids : g->ids;
    with_ids = mds_realloc(g->with_ids, (size_t)n, sizeof *g->with_ids);
    g->with_ids = with_ids ? with_ids : g->with_ids;
    if (!bases || !with || !ids || !with_ids)
        return MDS_EMEM;
    g->base_room = n;
    return MDS_OK;
}

static enum mds_rc check_reference(struct scoring *g, const struct mds_variant *v,
                                   int64_t length, enum status *out)
{
    const char *ref = v->allele[0];
    int64_t n = (int64_t)strlen(ref);

    *out = REF_MISMATCH;
    if (v->pos < 0 || v->pos + n > length)
        return MDS_OK;
    MDS_TRY(need_bases(g, n));
    MDS_TRY(mds_genome_read(g->genome, v->chrom, v->pos, n, g->bases));
    for (int64_t i = 0; i < n; i++)
        if (g->bases[i] != mds_genome_base(ref[i]))
            return MDS_OK;
    *out = SCORED;
    return MDS_OK;
}

static enum mds_rc check_allele(struct scoring *g, const struct mds_variant *v, int i,
                                enum status *out)
{
    int64_t length = mds_genome_length(g->genome, v->chrom);

    if (i >= v->n)
        *out = NO_ALLELE;
    else if (is_symbolic(v->allele[i]))
        *out = SYMBOLIC;
    else if (!has_bases_only(v->allele[i]) || !has_bases_only(v->allele[0]))
        *out = AMBIGUOUS;
    else if (length < 0)
        *out = NO_CONTIG;
    else
        return check_reference(g, v, length, out);
    return MDS_OK;
}

/* ---- windows to the batch ---- */

static int uses_strand(const struct scoring *g, int strand)
{
    return g->s->strand == MDS_INFER_BOTH || g->s->strand == strand;
}

/* Tokens of bases[n], which are reversed for the other strand.  Returns how many. */
static int64_t encode(const struct scoring *g, unsigned char *bases, int64_t n,
                      int strand, int32_t *ids)
{
    if (strand == MDS_INFER_REVERSE)
        mds_bases_reverse(bases, (size_t)n);
    return (int64_t)mds_tokenizer_encode(g->m->vocabulary.tokenizer, bases, (size_t)n,
                                         ids);
}

static const struct reference *find_reference(const struct scoring *g,
                                              const char *chrom,
                                              const struct mds_infer_window *w,
                                              int strand)
{
    for (int i = 0; i < REFERENCES; i++) {
        const struct reference *r = &g->reference[i];

        if (r->chrom && strcmp(r->chrom, chrom) == 0 && r->at.first == w->first &&
            r->at.n == w->n && r->strand == strand)
            return r;
    }
    return NULL;
}

static void forget_references(struct scoring *g)
{
    for (int i = 0; i < REFERENCES; i++) {
        free(g->reference[i].chrom);
        g->reference[i].chrom = NULL;
    }
}

/* The window as it is; g->ids has its tokens. */
static enum mds_rc add_reference(struct scoring *g, const char *chrom,
                                 const struct mds_infer_window *w, int strand,
                                 int64_t tokens, int64_t *item)
{
    const struct reference *same = find_reference(g, chrom, w, strand);
    struct reference *r = &g->reference[g->next_reference];

    if (!same) {
        free(r->chrom);
        r->at = *w;
        r->strand = strand;
        r->chrom = mds_strdup(chrom);
        if (!r->chrom)
            return MDS_EMEM;
        MDS_TRY(mds_infer_batch_add(g->batch, g->ids, tokens, &r->item));
        g->next_reference = (g->next_reference + 1) % REFERENCES;
        same = r;
    }
    *item = same->item;
    return MDS_OK;
}

/* What a strand ends with is on the left of the other strand. */
static enum mds_infer_place place_of(const struct scoring *g, int strand)
{
    if (!g->s->at_end)
        return MDS_INFER_MIDDLE;
    return strand == MDS_INFER_REVERSE ? MDS_INFER_LEFT : MDS_INFER_RIGHT;
}

/* Both windows of one strand.  alt[is->alt]: the allele's bases. */
static enum mds_rc add_strand(struct scoring *g, const struct mds_variant *v,
                              const struct mds_infer_allele *is,
                              const unsigned char *alt, int strand, struct allele *a)
{
    struct mds_infer_window w;
    int64_t tokens;

    if (!mds_infer_window_place(is, place_of(g, strand), g->s->window,
                                token_bases(g->m), &w)) {
        a->status = NO_WINDOW;
        return MDS_OK;
    }
    MDS_TRY(need_bases(g, w.read));
    MDS_TRY(mds_genome_read(g->genome, v->chrom, w.first, w.read, g->bases));
    mds_infer_window_apply(is, &w, g->bases, alt, g->with);
    tokens = encode(g, g->with, w.n, strand, g->with_ids);
    encode(g, g->bases, w.n, strand, g->ids);
    if (memcmp(g->ids, g->with_ids, (size_t)tokens * sizeof *g->ids) == 0) {
        a->status = SAME_TOKENS;
        return MDS_OK;
    }
    MDS_TRY(add_reference(g, v->chrom, &w, strand, tokens, &a->ref[strand]));
    return mds_infer_batch_add_beside(g->batch, a->ref[strand], g->with_ids, tokens,
                                      &a->alt[strand]);
}

static enum mds_rc add_allele(struct scoring *g, const struct mds_variant *v, int i,
                              struct allele *a)
{
    struct mds_infer_allele is;
    unsigned char *alt;
    enum mds_rc rc;

    MDS_TRY(check_allele(g, v, i, &a->status));
    if (a->status != SCORED)
        return MDS_OK;
    is = (struct mds_infer_allele){.chromosome = mds_genome_length(g->genome, v->chrom),
                                   .pos = v->pos,
                                   .ref = (int64_t)strlen(v->allele[0]),
                                   .alt = (int64_t)strlen(v->allele[i])};
    a->is_substitution = is.ref == is.alt;
    alt = mds_zalloc((size_t)is.alt, 1);
    rc = alt ? MDS_OK : MDS_EMEM;
    for (int64_t k = 0; !rc && k < is.alt; k++)
        alt[k] = mds_genome_base(v->allele[i][k]);
    for (int strand = 0; !rc && strand < 2; strand++)
        if (uses_strand(g, strand))
            rc = add_strand(g, v, &is, alt, strand, a);
    free(alt);
    return rc;
}

/* ---- results ---- */

static int writes(const struct scoring *g)
{
    return g->m->world.rank == 0;
}

static void count_status(struct scoring *g, const struct mds_variant *v, int i,
                         enum status status)
{
    if (g->count[status]++ == 0)
        snprintf(g->first[status], sizeof g->first[status],
                 "%s:%" PRId64 " %.20s %.20s", v->chrom, v->pos + 1, v->allele[0],
                 i < v->n ? v->allele[i] : ".");
}

static double sum_of(const struct scoring *g, int64_t item)
{
    return mds_infer_batch_sum(g->batch, item).loglik;
}

static struct mds_infer_ratio ratio_of(const struct scoring *g, const struct allele *a)
{
    struct mds_infer_ratio r = {statuses[a->status].name, NAN, {NAN, NAN}, NAN};
    int diverges = a->is_substitution && g->m->run->config.train.hidden;
    double sum = 0, jsd = 0;
    int n = 0;

    for (int strand = 0; strand < 2 && a->status == SCORED; strand++) {
        if (!uses_strand(g, strand))
            continue;
        r.of[strand] = sum_of(g, a->alt[strand]) - sum_of(g, a->ref[strand]);
        sum += r.of[strand];
        if (diverges)
            jsd += mds_infer_batch_divergence(g->batch, a->alt[strand], a->ref[strand]);
        n++;
    }
    if (n > 0)
        r.llr = sum / n;
    if (n > 0 && diverges)
        r.jsd = jsd / n;
    return r;
}

static enum mds_rc report_record(struct scoring *g, const struct record *r)
{
    struct mds_infer_ratio *of = mds_zalloc((size_t)r->alleles, sizeof *of);
    enum mds_rc rc;

    if (!of)
        return MDS_EMEM;
    g->variants++;
    for (int i = 0; i < r->alleles; i++) {
        count_status(g, &r->is, i + 1, r->allele[i].status);
        of[i] = ratio_of(g, &r->allele[i]);
    }
    rc = mds_infer_variant_file_add(&g->out, r->line, of);
    free(of);
    return rc;
}

static void forget_records(struct scoring *g)
{
    for (int64_t i = 0; i < g->records; i++) {
        mds_vcf_record_free(g->record[i].line);
        free(g->record[i].allele);
    }
    g->records = 0;
}

static enum mds_rc run_batch(struct scoring *g)
{
    enum mds_rc rc = mds_infer_batch_run(g->batch);

    for (int64_t i = 0; !rc && i < g->records && writes(g); i++)
        rc = report_record(g, &g->record[i]);
    forget_records(g);
    forget_references(g);
    mds_infer_batch_clear(g->batch);
    return rc || !writes(g) ? rc : mds_infer_variant_file_flush(&g->out);
}

/* ---- what an earlier job has done ---- */

/* *is: whether the output has all of this record. */
static enum mds_rc skip_record(struct scoring *g, struct mds_vcf_record *line, int *is)
{
    const struct mds_variant v = mds_vcf_variant(g->out.vcf, line);
    int64_t parts = mds_infer_variant_file_parts(&g->out, &v);

    *is = g->skip >= parts;
    g->skip = *is ? g->skip - parts : 0;
    if (!*is || !writes(g))
        return MDS_OK;
    return mds_infer_variant_file_keep(&g->out, line);
}

static enum mds_rc check_none_left(const struct scoring *g)
{
    if (g->skip == 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: cannot be resumed: it has more variants than %s; --overwrite "
                    "replaces it",
                    g->s->output, g->s->vcf);
}

/* ---- all of it ---- */

/* line is the scoring's from here on. */
static enum mds_rc add_record(struct scoring *g, struct mds_vcf_record *line)
{
    struct record *r;
    void *more;

    if (g->records == g->room) {
        more = mds_realloc(g->record, (size_t)(2 * g->room + 64), sizeof *g->record);
        if (!more) {
            mds_vcf_record_free(line);
            return MDS_EMEM;
        }
        g->record = more;
        g->room = 2 * g->room + 64;
    }
    r = &g->record[g->records++];
    *r = (struct record){.line = line, .is = mds_vcf_variant(g->out.vcf, line)};
    r->alleles = (int)mds_max(r->is.n - 1, 1);
    r->allele = mds_zalloc((size_t)r->alleles, sizeof *r->allele);
    if (!r->allele)
        return MDS_EMEM;
    for (int i = 0; i < r->alleles; i++)
        MDS_TRY(add_allele(g, &r->is, i + 1, &r->allele[i]));
    return MDS_OK;
}

static enum mds_rc skip_or_add(struct scoring *g, struct mds_vcf_record *line)
{
    int is_done;
    enum mds_rc rc = skip_record(g, line, &is_done);

    if (!rc && !is_done)
        return add_record(g, line);
    mds_vcf_record_free(line);
    return rc;
}

static enum mds_rc score_variants(struct scoring *g)
{
    struct mds_vcf_record *line;

    for (;;) {
        MDS_TRY(mds_vcf_next(g->out.vcf, &line));
        if (!line)
            MDS_TRY(check_none_left(g));
        if (!line)
            return run_batch(g);
        MDS_TRY(skip_or_add(g, line));
        if (mds_infer_batch_is_full(g->batch) || g->records >= 1 << 16)
            MDS_TRY(run_batch(g));
    }
}

static enum mds_rc open_files(struct scoring *g)
{
    const struct mds_infer_variants *s = g->s;

    g->out.s = s;
    g->out.to_vcf = s->output && mds_vcf_is_name(s->output);
    MDS_TRY(mds_vcf_open(s->vcf, &g->out.vcf));
    MDS_TRY(mds_genome_open(s->fasta, &g->genome));
    if (writes(g))
        MDS_TRY(mds_infer_variant_file_open(&g->out, g->m));
    MDS_TRY(mds_comm_broadcast(mds_group(&g->m->groups, MDS_AXES_ALL), &g->out.before,
                               sizeof g->out.before, 0));
    g->skip = g->out.before;
    return MDS_OK;
}

static void report_end(const struct scoring *g)
{
    for (int i = SCORED + 1; i < STATUSES; i++)
        if (g->count[i] > 0)
            mds_warn("%" PRId64 " not scored: %s; the first is %s", g->count[i],
                     statuses[i].what, g->first[i]);
    if (g->out.before > 0)
        mds_info("%s has the first %" PRId64 " %s%s already", g->s->output,
                 g->out.before, g->out.to_vcf ? "variant" : "allele",
                 mds_plural(g->out.before));
    mds_info("%" PRId64 " allele%s of %" PRId64
             " variant%s scored, in windows of %" PRId64 " bases, which share %.3g %% "
             "of their tokens",
             g->count[SCORED], mds_plural(g->count[SCORED]), g->variants,
             mds_plural(g->variants), g->s->window,
             100 * mds_infer_batch_shared(g->batch));
}

enum mds_rc mds_infer_variants_run(const struct mds_infer_variants *s,
                                   struct mds_infer_model *m)
{
    struct scoring g = {.s = s, .m = m};
    enum mds_rc rc = mds_infer_batch_create(m, &g.batch);

    if (!rc)
        rc = open_files(&g);
    if (!rc)
        rc = score_variants(&g);
    forget_records(&g);
    forget_references(&g);
    rc = mds_infer_variant_file_close(&g.out, rc);
    if (!rc && writes(&g))
        report_end(&g);
    mds_genome_close(g.genome);
    mds_infer_batch_destroy(g.batch);
    free(g.record);
    free(g.bases);
    free(g.with);
    free(g.ids);
    free(g.with_ids);
    return rc;
}
