/* SPDX-License-Identifier: BSD-3-Clause */
/* The only home of htslib/vcf.h. */
#include "infer/vcf.h"
#include "base/alloc.h"
#include "base/str.h"

#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mds_vcf_is_name(const char *path)
{
    return mds_str_ends_with(path, ".vcf") || mds_str_ends_with(path, ".vcf.gz") ||
           mds_str_ends_with(path, ".bcf");
}

#if HAVE_HTSLIB
#include <htslib/vcf.h>

struct mds_vcf {
    char *path, *out_path;
    htsFile *in, *out;
    bcf_hdr_t *header;
    int64_t number; /* of the current record, from 1 */
    int32_t rid;    /* of the record before; -1: none */
    int64_t pos;
    char *seen;      /* [contigs] */
    int32_t contigs; /* room in seen */
    int64_t written, flushed;
    int64_t flushed_bytes; /* of the file */
    /* while an earlier job's file is read */
    htsFile *old;
    bcf_hdr_t *old_header;
    char *final; /* its name, which the one at out_path gets */
};

/* What the header does not name: text does without. */
static const int undeclared = BCF_ERR_CTG_UNDEF | BCF_ERR_TAG_UNDEF;

/* ---- in ---- */

/* A text whose last line does not end was cut short; what is compressed by bgzip, and
 * BCF, lacks its last block then. */
static int is_cut_short(const char *path, htsFile *in)
{
    FILE *f;
    int last = '\n';

    if (hts_check_EOF(in) == 0)
        return 1;
    if (hts_get_format(in)->compression != no_compression || strcmp(path, "-") == 0)
        return 0;
    f = fopen(path, "re");
    if (f && fseek(f, -1, SEEK_END) == 0)
        last = fgetc(f);
    if (f)
        fclose(f);
    return last != '\n';
}

enum mds_rc mds_vcf_open(const char *path, struct mds_vcf **out)
{
    struct mds_vcf *v;

    hts_set_log_level(HTS_LOG_OFF);
    if (strcmp(path, "-") != 0 && access(path, R_OK))
        return mds_fail_open(MDS_EUSER, path);
    v = mds_zalloc(1, sizeof *v);
    if (!v)
        return MDS_EMEM;
    v->rid = -1;
    v->path = mds_strdup(path);
    v->in = v->path ? bcf_open(path, "r") : NULL;
    v->header = v->in ? bcf_hdr_read(v->in) : NULL;
    if (v->header && !is_cut_short(path, v->in)) {
        *out = v;
        return MDS_OK;
    }
    mds_fail(MDS_EUSER,
             v->header ? "%s: is cut short: its last line or block is not complete"
                       : "%s: is neither VCF nor BCF, or its header is damaged",
             path);
    (void)mds_vcf_close(v);
    return MDS_EUSER;
}

static enum mds_rc mark_contig(struct mds_vcf *v, int32_t rid)
{
    int32_t room = 2 * rid + 64;

    if (rid >= v->contigs) {
        MDS_TRY(mds_resize(&v->seen, (size_t)room, 1));
        memset(v->seen + v->contigs, 0, (size_t)(room - v->contigs));
        v->contigs = room;
    }
    v->seen[rid] = 1;
    return MDS_OK;
}

static enum mds_rc check_order(struct mds_vcf *v, const bcf1_t *b)
{
    int seen = b->rid < v->contigs && v->seen[b->rid];
    int sorted = b->rid == v->rid ? b->pos >= v->pos : !seen;

    if (!sorted)
        return mds_fail(MDS_EUSER,
                        "%s: is not sorted: record %" PRId64 ", %s:%" PRId64
                        ", comes after %s:%" PRId64 "; sort it (bcftools sort)",
                        v->path, v->number, bcf_hdr_id2name(v->header, b->rid),
                        (int64_t)b->pos + 1, bcf_hdr_id2name(v->header, v->rid),
                        v->pos + 1);
    v->rid = b->rid;
    v->pos = b->pos;
    return mark_contig(v, b->rid);
}

/* Of text, which htslib takes with less.  It has replaced tabs by NULs. */
static int has_all_columns(const struct mds_vcf *v)
{
    const kstring_t *line = &v->in->line;
    int columns = 1;

    if (hts_get_format(v->in)->format != vcf)
        return 1;
    for (size_t i = 0; i < line->l; i++)
        columns += line->s[i] == '\0' || line->s[i] == '\t';
    return columns >= 8;
}

static enum mds_rc read_record(struct mds_vcf *v, bcf1_t *b, int *found)
{
    int got = bcf_read(v->in, v->header, b);

    *found = got == 0;
    if (got == -1)
        return MDS_OK;
    v->number++;
    if (got < -1 || b->errcode & ~undeclared || !has_all_columns(v) ||
        bcf_unpack(b, BCF_UN_STR) < 0)
        return mds_fail(MDS_EUSER,
                        "%s: record %" PRId64 " is damaged, or the file is cut short",
                        v->path, v->number);
    return check_order(v, b);
}

enum mds_rc mds_vcf_next(struct mds_vcf *v, struct mds_vcf_record **out)
{
    bcf1_t *b = bcf_init();
    enum mds_rc rc;
    int found = 0;

    *out = NULL;
    if (!b)
        return mds_fail(MDS_EMEM, "no host memory");
    rc = read_record(v, b, &found);
    if (rc || !found)
        bcf_destroy(b);
    else
        *out = (struct mds_vcf_record *)b;
    return rc;
}

void mds_vcf_record_free(struct mds_vcf_record *r)
{
    if (r)
        bcf_destroy((bcf1_t *)r);
}

struct mds_variant mds_vcf_variant(const struct mds_vcf *v,
                                   const struct mds_vcf_record *r)
{
    const bcf1_t *b = (const bcf1_t *)r;

    return (struct mds_variant){.chrom = bcf_hdr_id2name(v->header, b->rid),
                                .id = b->d.id,
                                .pos = b->pos,
                                .n = b->n_allele,
                                .allele = b->d.allele};
}

/* ---- out ---- */

static const char *const keys[] = {[MDS_VCF_LLR] = "LLR",
                                   [MDS_VCF_LLR_FWD] = "LLR_FWD",
                                   [MDS_VCF_LLR_RC] = "LLR_RC",
                                   [MDS_VCF_JSD] = "JSD"};

/* What is behind the last flush goes: it may end anywhere. */
static enum mds_rc fail_to_write(const struct mds_vcf *v)
{
    int why = errno ? errno : EIO;
    struct stat st;

    if (stat(v->out_path, &st) == 0 && S_ISREG(st.st_mode) &&
        truncate(v->out_path, v->flushed_bytes))
        return mds_fail(MDS_EIO, "%s: cannot be written, and its end is half a line",
                        v->out_path);
    return mds_fail(MDS_EIO,
                    "%s: cannot be written: %s; the first %" PRId64
                    " variants are complete",
                    v->out_path, strerror(why), v->flushed);
}

static enum mds_rc flush(struct mds_vcf *v)
{
    struct stat st;

    errno = 0;
    if (hts_flush(v->out))
        return fail_to_write(v);
    v->flushed = v->written;
    if (stat(v->out_path, &st) == 0)
        v->flushed_bytes = st.st_size;
    return MDS_OK;
}

static enum mds_rc write_header(struct mds_vcf *v, const char *model)
{
    static const char *const lines[] = {
        "##INFO=<ID=LLR,Number=A,Type=Float,Description=\"Log-likelihood ratio, in "
        "nats, "
        "of the sequence with this allele to that of the reference; of both strands "
        "the "
        "mean\">",
        "##INFO=<ID=LLR_FWD,Number=A,Type=Float,Description=\"LLR of the forward "
        "strand\">",
        "##INFO=<ID=LLR_RC,Number=A,Type=Float,Description=\"LLR of the reverse "
        "complement\">",
        "##INFO=<ID=JSD,Number=A,Type=Float,Description=\"Jensen-Shannon divergence, "
        "in nats, of what is expected behind each token with this allele and with the "
        "reference: the mean from the allele to the end of the window, and of both "
        "strands; of alleles as long as the reference\">"};
    struct mds_str by = {0};
    int bad = 0;

    for (int k = 0; k < MDS_VCF_KEYS; k++) /* of an earlier run, or of something else */
        bcf_hdr_remove(v->header, BCF_HL_INFO, keys[k]);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        bad |= bcf_hdr_append(v->header, lines[i]);
    mds_str_add(&by, "##mds_infer=%s", model);
    bad |= by.failed || bcf_hdr_append(v->header, by.s);
    mds_str_fini(&by);
    if (bad || bcf_hdr_sync(v->header))
        return mds_fail(MDS_EUSER,
                        "%s: its header takes no INFO LLR: is that defined "
                        "in another way there?",
                        v->path);
    errno = 0;
    return bcf_hdr_write(v->out, v->header) ? fail_to_write(v) : flush(v);
}

static const char *mode_of(const char *path)
{
    return mds_str_ends_with(path, ".bcf")  ? "wb"
           : mds_str_ends_with(path, ".gz") ? "wz"
                                            : "w";
}

static enum mds_rc begin(struct mds_vcf *v, const char *mode, const char *model)
{
    errno = 0;
    v->out = bcf_open(v->out_path, mode);
    return v->out ? write_header(v, model) : fail_to_write(v);
}

enum mds_rc mds_vcf_write_to(struct mds_vcf *v, const char *path, const char *model)
{
    v->out_path = mds_strdup(path);
    return v->out_path ? begin(v, mode_of(path), model) : MDS_EMEM;
}

float *mds_vcf_scores_alloc(size_t n, struct mds_vcf_scores *s)
{
    float *all = mds_zalloc(MDS_VCF_KEYS * n + 1, sizeof *all);

    for (size_t k = 0; all && k < MDS_VCF_KEYS; k++)
        s->of[k] = all + k * n;
    return all;
}

static int put_scores(const struct mds_vcf *v, bcf1_t *b, const char *key,
                      const float *x)
{
    float *out = mds_zalloc(b->n_allele, sizeof *out);
    int n = b->n_allele - 1, any = 0, bad;

    if (!out)
        return 1;
    for (int i = 0; i < n; i++) {
        any |= !isnan(x[i]);
        out[i] = x[i];
        if (isnan(x[i]))
            bcf_float_set_missing(out[i]);
    }
    /* none: without those of an earlier run */
    bad = bcf_update_info_float(v->header, b, key, out, any ? n : 0);
    free(out);
    return bad;
}

enum mds_rc mds_vcf_write(struct mds_vcf *v, struct mds_vcf_record *r,
                          const struct mds_vcf_scores *s)
{
    bcf1_t *b = (bcf1_t *)r;
    int bad = 0;

    for (int k = 0; !bad && k < MDS_VCF_KEYS; k++)
        bad = put_scores(v, b, keys[k], s->of[k]);
    if (bad)
        return mds_fail(MDS_EUSER, "%s: record %s:%" PRId64 " takes no INFO LLR",
                        v->path, bcf_hdr_id2name(v->header, b->rid),
                        (int64_t)b->pos + 1);
    if (b->errcode & undeclared && hts_get_format(v->out)->format == bcf)
        return mds_fail(
            MDS_EUSER,
            "%s: record %s:%" PRId64 " has a contig, filter or INFO that its "
            "header does not name, so it cannot be written as BCF; write "
            ".vcf.gz, or add the line (bcftools reheader)",
            v->path, bcf_hdr_id2name(v->header, b->rid), (int64_t)b->pos + 1);
    b->errcode = 0;
    errno = 0;
    if (bcf_write(v->out, v->header, b))
        return fail_to_write(v);
    v->written++;
    return MDS_OK;
}

/* ---- going on ---- */

static void close_old(struct mds_vcf *v)
{
    if (v->old_header)
        bcf_hdr_destroy(v->old_header);
    if (v->old)
        hts_close(v->old);
    v->old_header = NULL;
    v->old = NULL;
}

/* Open the old file, behind its header; one without a header has no records. */
static void open_old(struct mds_vcf *v, const char *path)
{
    v->old = bcf_open(path, "r");
    v->old_header = v->old ? bcf_hdr_read(v->old) : NULL;
}

/* Where it was cut short, the last one may be. */
static int64_t count_old(struct mds_vcf *v, const char *path)
{
    bcf1_t *b = bcf_init();
    int64_t n = 0;

    open_old(v, path);
    while (b && v->old_header && bcf_read(v->old, v->old_header, b) == 0)
        n++;
    if (n > 0 && is_cut_short(path, v->old))
        n--;
    if (b)
        bcf_destroy(b);
    close_old(v);
    return n;
}

enum mds_rc mds_vcf_resume(struct mds_vcf *v, const char *path, const char *model,
                           int64_t *records)
{
    struct mds_str partial = {0};

    *records = count_old(v, path);
    mds_str_add(&partial, "%s.partial", path);
    v->out_path = partial.s;
    v->final = mds_strdup(path);
    if (partial.failed || !v->final)
        return MDS_EMEM;
    MDS_TRY(begin(v, mode_of(path), model));
    open_old(v, path);
    return MDS_OK;
}

static int is_same(const struct mds_variant *a, const struct mds_variant *b)
{
    if (strcmp(a->chrom, b->chrom) != 0 || a->pos != b->pos || a->n != b->n ||
        strcmp(a->id, b->id) != 0)
        return 0;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->allele[i], b->allele[i]) != 0)
            return 0;
    return 1;
}

/* out[n]; NAN where the old record has none. */
static void get_scores(const struct mds_vcf *v, bcf1_t *b, const char *key, float *out,
                       int n)
{
    float *x = NULL;
    int room = 0;
    int got = bcf_get_info_float(v->old_header, b, key, &x, &room);

    for (int i = 0; i < n; i++)
        out[i] = i < got && !bcf_float_is_missing(x[i]) ? x[i] : NAN;
    free(x);
}

static enum mds_rc keep(struct mds_vcf *v, struct mds_vcf_record *r, bcf1_t *old)
{
    const struct mds_variant is = mds_vcf_variant(v, r);
    struct mds_variant was;
    struct mds_vcf_scores scores;
    float *all;
    int n = is.n - 1;
    enum mds_rc rc;

    if (bcf_read(v->old, v->old_header, old) || bcf_unpack(old, BCF_UN_INFO) < 0)
        return mds_fail(MDS_EIO, "%s: changed while it was read", v->final);
    was = (struct mds_variant){.chrom = bcf_hdr_id2name(v->old_header, old->rid),
                               .id = old->d.id,
                               .pos = old->pos,
                               .n = old->n_allele,
                               .allele = old->d.allele};
    if (!is_same(&was, &is))
        return mds_fail(MDS_EUSER,
                        "%s: cannot be resumed: it has %s:%" PRId64
                        " where the input has %s:%" PRId64 "; --overwrite replaces it",
                        v->final, was.chrom, was.pos + 1, is.chrom, is.pos + 1);
    all = mds_vcf_scores_alloc((size_t)n, &scores);
    if (!all)
        return MDS_EMEM;
    for (int k = 0; k < MDS_VCF_KEYS; k++)
        get_scores(v, old, keys[k], scores.of[k], n);
    rc = mds_vcf_write(v, r, &scores);
    free(all);
    return rc;
}

enum mds_rc mds_vcf_keep(struct mds_vcf *v, struct mds_vcf_record *r)
{
    bcf1_t *old = bcf_init();
    enum mds_rc rc = old ? keep(v, r, old) : MDS_EMEM;

    if (old)
        bcf_destroy(old);
    return rc;
}

/* All that was kept is in the new file, which takes the place of the old one. */
static enum mds_rc replace_old(struct mds_vcf *v)
{
    close_old(v);
    if (rename(v->out_path, v->final))
        return fail_to_write(v);
    free(v->out_path);
    v->out_path = v->final;
    v->final = NULL;
    return MDS_OK;
}

enum mds_rc mds_vcf_flush(struct mds_vcf *v)
{
    MDS_TRY(flush(v));
    return v->final ? replace_old(v) : MDS_OK;
}

enum mds_rc mds_vcf_close(struct mds_vcf *v)
{
    enum mds_rc rc = MDS_OK;

    if (!v)
        return MDS_OK;
    errno = 0;
    if (v->out && hts_close(v->out))
        rc = fail_to_write(v);
    if (v->header)
        bcf_hdr_destroy(v->header);
    if (v->in)
        hts_close(v->in);
    free(v->seen);
    free(v->path);
    free(v->out_path);
    free(v);
    return rc;
}

void mds_vcf_abandon(struct mds_vcf *v)
{
    struct stat st;

    if (v && (v->final || (v->out && v->flushed == 0)) && stat(v->out_path, &st) == 0 &&
        S_ISREG(st.st_mode))
        unlink(v->out_path);
}

#else

static enum mds_rc refuse(const char *path)
{
    return mds_fail(MDS_ENOSUP,
                    "%s: this build has no htslib, which reads variants; install it "
                    "(Debian: libhts-dev) and configure again",
                    path);
}

enum mds_rc mds_vcf_open(const char *path, struct mds_vcf **out)
{
    (void)out;
    return refuse(path);
}

enum mds_rc mds_vcf_close(struct mds_vcf *v)
{
    (void)v;
    return MDS_OK;
}

void mds_vcf_abandon(struct mds_vcf *v)
{
    (void)v;
}

enum mds_rc mds_vcf_next(struct mds_vcf *v, struct mds_vcf_record **out)
{
    (void)v, (void)out;
    return refuse("VCF");
}

void mds_vcf_record_free(struct mds_vcf_record *r)
{
    (void)r;
}

struct mds_variant mds_vcf_variant(const struct mds_vcf *v,
                                   const struct mds_vcf_record *r)
{
    (void)v, (void)r;
    return (struct mds_variant){0};
}

enum mds_rc mds_vcf_write_to(struct mds_vcf *v, const char *path, const char *model)
{
    (void)v, (void)model;
    return refuse(path);
}

enum mds_rc mds_vcf_resume(struct mds_vcf *v, const char *path, const char *model,
                           int64_t *records)
{
    (void)v, (void)model, (void)records;
    return refuse(path);
}

enum mds_rc mds_vcf_keep(struct mds_vcf *v, struct mds_vcf_record *r)
{
    (void)v, (void)r;
    return refuse("VCF");
}

enum mds_rc mds_vcf_write(struct mds_vcf *v, struct mds_vcf_record *r,
                          const struct mds_vcf_scores *s)
{
    (void)v, (void)r, (void)s;
    return refuse("VCF");
}

enum mds_rc mds_vcf_flush(struct mds_vcf *v)
{
    (void)v;
    return refuse("VCF");
}

#endif
