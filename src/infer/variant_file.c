/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/variant_file.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "infer/origin.h"
#include "io/output.h"

#include <inttypes.h>
#include <stdlib.h>

static const char header[] =
    "chrom\tpos\tid\tref\talt\tllr\tllr_fwd\tllr_rc\tjsd\tstatus";

/* ---- before a job ---- */

enum mds_rc mds_infer_variants_look_through(const char *path, double until_s,
                                            int64_t *alleles)
{
    struct mds_vcf_record *line = NULL;
    struct mds_vcf *vcf = NULL;
    enum mds_rc rc = mds_vcf_open(path, &vcf);
    int64_t n = 0;

    while (!rc && mds_clock_s() < until_s) {
        rc = mds_vcf_next(vcf, &line);
        if (!rc && !line)
            *alleles = n;
        if (!line)
            break;
        n += mds_max(mds_vcf_variant(vcf, line).n - 1, 1);
        mds_vcf_record_free(line);
    }
    (void)mds_vcf_close(vcf); /* nothing is written */
    return rc;
}

/* ---- begin, or go on ---- */

void mds_infer_variants_origin(const struct mds_infer_variants *s,
                               const struct mds_infer_model *m, struct mds_str *lines)
{
    mds_infer_origin_begin(lines, "score --vcf", m);
    mds_str_add(lines, "strand: %s\nwindow: %" PRId64 "\nvariant_at: %s\n",
                mds_infer_strands[s->strand], s->window, s->at_end ? "end" : "middle");
    mds_infer_origin_add_input(lines, s->fasta);
    mds_infer_origin_add_input(lines, s->vcf);
}

static enum mds_rc begin(struct mds_infer_variant_file *f, const char *model)
{
    const char *output = f->s->output;

    if (!f->to_vcf)
        return mds_infer_table_open(&f->table, output, f->s->overwrite, header);
    MDS_TRY(mds_output_check_new(output, f->s->overwrite));
    return mds_vcf_write_to(f->vcf, output, model);
}

static enum mds_rc resume(struct mds_infer_variant_file *f, const char *model)
{
    const char *output = f->s->output;

    return f->to_vcf ? mds_vcf_resume(f->vcf, output, model, &f->before)
                     : mds_infer_table_resume(&f->table, output, header, &f->before);
}

enum mds_rc mds_infer_variant_file_open(struct mds_infer_variant_file *f,
                                        const struct mds_infer_model *m)
{
    struct mds_str origin = {0};
    int begun = 0;
    enum mds_rc rc = MDS_OK;

    mds_infer_variants_origin(f->s, m, &origin);
    if (f->s->resume)
        rc = mds_infer_origin_check(f->s->output, &origin, &begun);
    if (!rc)
        rc = begun ? resume(f, m->path) : begin(f, m->path);
    if (!rc && !begun)
        rc = mds_infer_origin_write(f->s->output, &origin);
    mds_str_fini(&origin);
    return rc;
}

/* ---- records ---- */

static int lines_of(const struct mds_variant *v)
{
    return v->n > 1 ? v->n - 1 : 1;
}

/* The columns that do not depend on the model. */
static void add_identity(struct mds_str *out, const struct mds_variant *v, int i)
{
    mds_str_add(out, "%s\t%" PRId64 "\t%s\t%s\t%s", v->chrom, v->pos + 1, v->id,
                v->allele[0], i < v->n ? v->allele[i] : ".");
}

static void add_line(struct mds_infer_table *t, const struct mds_variant *v, int i,
                     const struct mds_infer_ratio *r)
{
    const double columns[] = {r->llr, r->of[0], r->of[1], r->jsd};

    add_identity(&t->text, v, i);
    for (int k = 0; k < 4; k++) {
        mds_str_add(&t->text, "\t");
        mds_infer_add_real(&t->text, columns[k]);
    }
    mds_str_add(&t->text, "\t%s\n", r->status);
    t->lines++;
}

static enum mds_rc write_vcf(struct mds_vcf *vcf, struct mds_vcf_record *r, size_t n,
                             const struct mds_infer_ratio *of)
{
    struct mds_vcf_scores s;
    float *all = mds_vcf_scores_alloc(n, &s);
    enum mds_rc rc;

    if (!all)
        return MDS_EMEM;
    for (size_t i = 0; i < n; i++) {
        s.of[MDS_VCF_LLR][i] = (float)of[i].llr;
        s.of[MDS_VCF_LLR_FWD][i] = (float)of[i].of[0];
        s.of[MDS_VCF_LLR_RC][i] = (float)of[i].of[1];
        s.of[MDS_VCF_JSD][i] = (float)of[i].jsd;
    }
    rc = mds_vcf_write(vcf, r, &s);
    free(all);
    return rc;
}

enum mds_rc mds_infer_variant_file_add(struct mds_infer_variant_file *f,
                                       struct mds_vcf_record *r,
                                       const struct mds_infer_ratio *of)
{
    const struct mds_variant v = mds_vcf_variant(f->vcf, r);

    if (f->to_vcf)
        return write_vcf(f->vcf, r, (size_t)lines_of(&v), of);
    for (int i = 0; i < lines_of(&v); i++)
        add_line(&f->table, &v, i + 1, &of[i]);
    return MDS_OK;
}

int64_t mds_infer_variant_file_parts(const struct mds_infer_variant_file *f,
                                     const struct mds_variant *v)
{
    return f->to_vcf ? 1 : lines_of(v);
}

enum mds_rc mds_infer_variant_file_keep(struct mds_infer_variant_file *f,
                                        struct mds_vcf_record *r)
{
    const struct mds_variant v = mds_vcf_variant(f->vcf, r);
    struct mds_str columns = {0};
    enum mds_rc rc = MDS_OK;

    if (f->to_vcf)
        return mds_vcf_keep(f->vcf, r);
    for (int i = 0; !rc && i < lines_of(&v); i++) {
        columns.len = 0;
        add_identity(&columns, &v, i + 1);
        rc = columns.failed ? MDS_EMEM : mds_infer_table_check(&f->table, columns.s);
    }
    mds_str_fini(&columns);
    return rc;
}

enum mds_rc mds_infer_variant_file_flush(struct mds_infer_variant_file *f)
{
    return f->to_vcf ? mds_vcf_flush(f->vcf) : mds_infer_table_flush(&f->table);
}

enum mds_rc mds_infer_variant_file_close(struct mds_infer_variant_file *f,
                                         enum mds_rc rc)
{
    if (rc) { /* which has its own sentence */
        mds_vcf_abandon(f->vcf);
        if (f->to_vcf)
            mds_infer_origin_remove(f->s->output);
        mds_infer_table_abandon(&f->table);
        return rc;
    }
    rc = mds_infer_table_close(&f->table);
    return rc ? rc : mds_vcf_close(f->vcf);
}
