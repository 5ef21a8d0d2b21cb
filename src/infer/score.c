/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/score.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "infer/batch.h"
#include "infer/marginals.h"
#include "infer/origin.h"
#include "infer/per_token.h"
#include "infer/records.h"
#include "infer/table.h"
#include "infer/track.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const mds_infer_strands[] = {"forward", "reverse", "both", NULL};

static int strands(const struct mds_infer_score *s)
{
    return s->strand == MDS_INFER_BOTH ? 2 : 1;
}

/* ---- how much there is ---- */

struct measuring {
    const struct mds_infer_score *s;
    const struct mds_infer_model *m;
    struct mds_infer_need *need;
};

static enum mds_rc measure_record(void *ctx, struct mds_infer_records *in,
                                  struct mds_infer_record *r)
{
    const struct measuring *g = ctx;
    struct mds_infer_need *need = g->need;
    int64_t n = r->n + g->s->score_eod;
    int is_first = need->tokens == 0;

    MDS_TRY(mds_infer_model_check_length(g->m, mds_infer_records_input(in), r->name, n,
                                         mds_infer_model_limit(g->m)));
    if (g->s->track && !r->chrom)
        return mds_fail(
            MDS_EUSER,
            "--track: what %s has is at no place of a genome; give FASTA, or "
            "regions with --fasta",
            mds_infer_records_input(in));
    need->longest = mds_max(need->longest, n);
    need->tokens += n * strands(g->s);
    need->pair_tokens = need->tokens;
    mds_pairs_add(&need->pairs, strands(g->s),
                  mds_pairs_of_document(n, g->m->run->config.model.window));
    if (is_first && g->s->strand != MDS_INFER_FORWARD)
        return mds_infer_records_reverse(in, r); /* says if it cannot */
    return MDS_OK;
}

enum mds_rc mds_infer_score_measure(const struct mds_infer_score *s,
                                    const struct mds_infer_model *m,
                                    struct mds_infer_need *need)
{
    struct measuring g = {s, m, need};

    if (s->score_eod && m->vocabulary.eod < 0)
        return mds_fail(MDS_EUSER,
                        "--score-eod: %s does not say which token ends a "
                        "document; leave it out",
                        m->path);
    return mds_infer_model_measure(m, &s->inputs, measure_record, &g, need);
}

static double per(double sum, double n)
{
    return n > 0 ? sum / n : NAN;
}

/* ---- the records of one run of the batch ---- */

struct record {
    char *name;
    char *chrom;           /* of a track: where it is from */
    int64_t first, length; /* there, in bases; length also of what is no base */
    int reverse;           /* of a track: the first strand read is the other one */
    int64_t item[2];       /* of each strand; -1: nothing to score */
    int64_t tokens[2];
};

struct scoring {
    const struct mds_infer_score *s;
    struct mds_infer_model *m;
    struct mds_infer_batch *batch;
    struct mds_infer_table table; /* rank 0's */
    struct mds_infer_table track_out;
    struct mds_infer_track track;
    struct mds_infer_per_token *per_token;
    struct record *record;
    int64_t records, room;
    int32_t *ids; /* of one sequence, with <eod> */
    int64_t id_room;
    int64_t done, short_ones; /* records, and those with nothing to score */
    int64_t before, skip; /* records that the output has, and what is left of them */
};

static int writes(const struct scoring *g)
{
    return g->m->world.rank == 0;
}

static enum mds_rc add_strand(struct scoring *g, const struct mds_infer_record *r,
                              int strand, struct record *to)
{
    int64_t n = r->n + g->s->score_eod;

    to->item[strand] = -1;
    to->tokens[strand] = n;
    if (n < 2)
        return MDS_OK;
    MDS_TRY(mds_infer_model_check_length(g->m, "standard input", r->name, n,
                                         g->m->run->config.model.seq_length + 1));
    MDS_TRY(mds_reserve(&g->ids, &g->id_room, n, sizeof *g->ids));
    memcpy(g->ids, r->ids, (size_t)r->n * sizeof *g->ids);
    if (g->s->score_eod)
        g->ids[r->n] = g->m->vocabulary.eod;
    return mds_infer_batch_add(g->batch, g->ids, n, &to->item[strand]);
}

static enum mds_rc add_record(struct scoring *g, struct mds_infer_records *in,
                              struct mds_infer_record *r)
{
    struct record *to;

    MDS_TRY(mds_reserve(&g->record, &g->room, g->records + 1, sizeof *g->record));
    to = &g->record[g->records];
    *to = (struct record){.name = mds_strdup(r->name), .length = r->length};
    g->records++;
    if (g->s->track) {
        to->chrom = mds_strdup(r->chrom);
        to->first = r->first;
        to->reverse = r->reverse != (g->s->strand == MDS_INFER_REVERSE);
    }
    if (!to->name || (g->s->track && !to->chrom))
        return MDS_EMEM;
    if (g->s->strand != MDS_INFER_REVERSE)
        MDS_TRY(add_strand(g, r, 0, to));
    if (g->s->strand == MDS_INFER_FORWARD)
        return MDS_OK;
    MDS_TRY(mds_infer_records_reverse(in, r));
    return add_strand(g, r, strands(g->s) - 1, to);
}

/* ---- results ---- */

static const char *header(const struct mds_infer_score *s)
{
    return s->strand == MDS_INFER_BOTH
               ? "name\tlength\ttokens\tloglik\tper_token\tper_base\tperplexity\t"
                 "loglik_forward\tloglik_reverse"
               : "name\tlength\ttokens\tloglik\tper_token\tper_base\tperplexity";
}

static void add_column(struct mds_str *out, double x)
{
    mds_str_add(out, "\t");
    mds_infer_add_real(out, x);
}

/* The columns that do not depend on the model. */
static void add_identity(struct mds_str *out, const char *name, int64_t length)
{
    mds_str_add(out, "%s\t%" PRId64, name, length);
}

static void add_line(struct scoring *g, const struct record *r,
                     const struct mds_infer_sum *of)
{
    int n = strands(g->s);
    int bases = mds_tokenizer_bases(g->m->vocabulary.tokenizer);
    int stride = bases ? mds_tokenizer_stride(g->m->vocabulary.tokenizer) : 0;
    struct mds_str *out = &g->table.text;
    double loglik = 0, per_token = 0;

    for (int k = 0; k < n; k++) {
        loglik += (of[k].tokens > 0 ? of[k].loglik : NAN) / n;
        per_token += per(of[k].loglik, (double)of[k].tokens) / n;
    }
    add_identity(out, r->name, r->length);
    mds_str_add(out, "\t%" PRId64, of[0].tokens);
    add_column(out, loglik);
    add_column(out, per_token);
    add_column(out, per(per_token, stride));
    add_column(out, exp(-per_token));
    for (int k = 0; k < n && n > 1; k++)
        add_column(out, of[k].tokens > 0 ? of[k].loglik : NAN);
    mds_str_add(out, "\n");
    g->table.lines++;
}

/* Of token i: each of the bases that it adds has an equal share, unless they have
 * likelihoods of their own. */
static void add_token(struct scoring *g, const struct record *r, int strand, int64_t i,
                      double loglik)
{
    enum mds_tokenizer t = g->m->vocabulary.tokenizer;
    double base[MDS_INFER_MARGINAL_BASES];
    int stride = mds_tokenizer_stride(t);

    if (!mds_infer_batch_bases(g->batch, r->item[strand], i, base))
        for (int k = 0; k < stride; k++)
            base[k] = loglik / stride;
    mds_infer_track_add(&g->track, t, r->reverse != strand, i, base);
}

static enum mds_rc add_to_track(struct scoring *g, const struct record *r)
{
    MDS_TRY(mds_infer_track_begin(&g->track, r->length));
    for (int k = 0; k < strands(g->s); k++) {
        const double *loglik =
            r->item[k] < 0 ? NULL : mds_infer_batch_loglik(g->batch, r->item[k]);

        for (int64_t i = 1; loglik && i < r->tokens[k]; i++)
            if (mds_infer_batch_counts(g->batch, r->item[k], i))
                add_token(g, r, k, i, loglik[i]);
    }
    mds_infer_track_print(&g->track, r->chrom, r->first, &g->track_out);
    return MDS_OK;
}

static enum mds_rc report_record(struct scoring *g, const struct record *r)
{
    struct mds_infer_sum of[2] = {{0, 0}, {0, 0}};

    for (int k = 0; k < strands(g->s); k++) {
        const double *loglik = NULL;

        if (r->item[k] >= 0) {
            loglik = mds_infer_batch_loglik(g->batch, r->item[k]);
            of[k] = mds_infer_batch_sum(g->batch, r->item[k]);
        }
        if (k == 0 && g->per_token)
            MDS_TRY(mds_infer_per_token_add(g->per_token, r->name, loglik,
                                            loglik ? r->tokens[k] : 0));
    }
    if (g->s->track)
        MDS_TRY(add_to_track(g, r));
    g->short_ones += of[0].tokens == 0;
    add_line(g, r, of);
    return MDS_OK;
}

static enum mds_rc run_batch(struct scoring *g)
{
    enum mds_rc rc = mds_infer_batch_run(g->batch);

    for (int64_t i = 0; i < g->records; i++) {
        if (!rc && writes(g))
            rc = report_record(g, &g->record[i]);
        free(g->record[i].name);
        free(g->record[i].chrom);
    }
    g->done += g->records;
    g->records = 0;
    mds_infer_batch_clear(g->batch);
    if (!rc && writes(g))
        rc = mds_infer_table_flush(&g->table);
    if (!rc && writes(g) && g->s->track)
        rc = mds_infer_table_flush(&g->track_out);
    return rc;
}

/* ---- what an earlier job has done ---- */

static enum mds_rc skip_record(struct scoring *g, const struct mds_infer_record *r)
{
    struct mds_str columns = {0};
    enum mds_rc rc = MDS_OK;

    g->skip--;
    if (!writes(g))
        return MDS_OK;
    add_identity(&columns, r->name, r->length);
    rc = columns.failed ? MDS_EMEM : mds_infer_table_check(&g->table, columns.s);
    mds_str_fini(&columns);
    return rc;
}

static enum mds_rc check_none_left(const struct scoring *g)
{
    if (g->skip == 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: cannot be resumed: it has %" PRId64
                    " sequences more than the input; --overwrite replaces it",
                    g->s->output, g->skip);
}

/* ---- all of it ---- */

static enum mds_rc score_record(void *ctx, struct mds_infer_records *in,
                                struct mds_infer_record *r)
{
    struct scoring *g = ctx;

    if (g->skip > 0)
        return skip_record(g, r);
    MDS_TRY(add_record(g, in, r));
    return mds_infer_batch_is_full(g->batch) ? run_batch(g) : MDS_OK;
}

void mds_infer_score_origin(const struct mds_infer_score *s,
                            const struct mds_infer_model *m, struct mds_str *lines)
{
    mds_infer_origin_begin(lines, "score", m);
    mds_str_add(lines, "strand: %s\nscore_eod: %d\n", mds_infer_strands[s->strand],
                s->score_eod);
    mds_infer_origin_add_inputs(lines, &s->inputs);
}

/* Rank 0's. */
static enum mds_rc open_table(struct scoring *g)
{
    const struct mds_infer_score *s = g->s;
    struct mds_str origin = {0};
    int begun = 0;
    enum mds_rc rc = MDS_OK;

    mds_infer_score_origin(s, g->m, &origin);
    if (s->resume)
        rc = mds_infer_origin_check(s->output, &origin, &begun);
    if (!rc && begun)
        rc = mds_infer_table_resume(&g->table, s->output, header(s), &g->before);
    else if (!rc)
        rc = mds_infer_table_open(&g->table, s->output, s->overwrite, header(s));
    if (!rc && !begun)
        rc = mds_infer_origin_write(s->output, &origin);
    mds_str_fini(&origin);
    return rc;
}

static enum mds_rc open_outputs(struct scoring *g)
{
    const struct mds_infer_score *s = g->s;

    if (writes(g) && s->per_token)
        MDS_TRY(mds_infer_per_token_create(s->per_token, s->overwrite, &g->per_token));
    if (writes(g) && s->track)
        MDS_TRY(mds_infer_table_open(&g->track_out, s->track, s->overwrite, NULL));
    if (writes(g))
        MDS_TRY(open_table(g));
    MDS_TRY(mds_comm_broadcast(mds_group(&g->m->groups, MDS_AXES_ALL), &g->before,
                               sizeof g->before, 0));
    g->skip = g->before;
    return MDS_OK;
}

static enum mds_rc close_outputs(struct scoring *g)
{
    struct mds_infer_per_token *p = g->per_token;

    g->per_token = NULL;
    if (writes(g))
        MDS_TRY(mds_infer_table_close(&g->table));
    if (writes(g) && g->s->track)
        MDS_TRY(mds_infer_table_close(&g->track_out));
    return p ? mds_infer_per_token_finish(p) : MDS_OK;
}

static void report_end(const struct scoring *g)
{
    if (g->short_ones > 0)
        mds_warn("%" PRId64 " of %" PRId64 " sequences have less than two tokens that "
                 "can be scored: their results are nan",
                 g->short_ones, g->done);
    if (g->before > 0)
        mds_info("%s has the scores of %" PRId64 " sequence%s already", g->s->output,
                 g->before, mds_plural(g->before));
    mds_info("%" PRId64 " sequence%s scored", g->done, mds_plural(g->done));
}

enum mds_rc mds_infer_score_run(const struct mds_infer_score *s,
                                struct mds_infer_model *m)
{
    struct scoring g = {.s = s, .m = m};
    enum mds_rc rc = mds_infer_batch_create(m, &g.batch);

    if (!rc)
        rc = open_outputs(&g);
    if (!rc)
        rc = mds_infer_records_each(&s->inputs, &m->vocabulary, score_record, &g);
    if (!rc)
        rc = check_none_left(&g);
    if (!rc)
        rc = run_batch(&g);
    if (!rc)
        rc = close_outputs(&g);
    if (rc) {
        mds_infer_table_abandon(&g.table);
        mds_infer_table_abandon(&g.track_out);
    }
    if (!rc && writes(&g))
        report_end(&g);
    mds_infer_per_token_abandon(g.per_token);
    mds_infer_track_fini(&g.track);
    mds_infer_batch_destroy(g.batch);
    free(g.record);
    free(g.ids);
    return rc;
}
