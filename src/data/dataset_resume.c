/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a run goes on in its training files, which may be others than it had before. */
#include "data/dataset_impl.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/units.h"
#include "data/permute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* ---- whether a file is the one that it was -------------------------------------- */

enum { STRETCHES = 8, TOKENS = 4096 };

/* The first of n things, of which `length` are looked at, for stretch i. */
static int64_t first_of_stretch(int i, int64_t n, int64_t length)
{
    return (n - length) / (STRETCHES - 1) * i +
           (n - length) % (STRETCHES - 1) * i / (STRETCHES - 1);
}

static enum mds_rc add_stretch(struct mds_source *s, int i, uint64_t *hash)
{
    int64_t n = mds_min(s->tokens, TOKENS), first = first_of_stretch(i, s->tokens, n);
    unsigned char kinds[TOKENS];
    int32_t ids[TOKENS];
    int64_t start = 0;

    MDS_TRY(mds_source_read(s, first, n, ids));
    MDS_TRY(mds_source_read_kinds(s, first, n, kinds));
    if (s->documents > 0)
        MDS_TRY(mds_source_starts(s, first_of_stretch(i, s->documents, 1), 1, &start));
    for (int64_t k = 0; k < n; k++)
        *hash = mds_hash(*hash, (uint64_t)ids[k] << 8 | kinds[k]);
    *hash = mds_hash(*hash, (uint64_t)start);
    return MDS_OK;
}

/* A hash of some tokens, of their kinds and of where documents begin: of eight
 * stretches of 4096 tokens, from the first to the last, and of all tokens of a short
 * file.  So it takes the same time for any file; a change in between that keeps the
 * number of tokens is not seen. */
static enum mds_rc take_fingerprint(struct mds_source *s, int64_t *hash)
{
    uint64_t h = mds_hash((uint64_t)s->tokens, (uint64_t)s->documents);

    for (int i = 0; i < STRETCHES; i++)
        MDS_TRY(add_stretch(s, i, &h));
    *hash = (int64_t)h;
    return MDS_OK;
}

/* When its file was last written, in ns since 1970; 0 if that cannot be said. */
static int64_t time_modified(const struct mds_source *s)
{
    struct stat st;

    if (stat(s->path, &st))
        return 0;
    return st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
}

/* ---- a new run ------------------------------------------------------------------- */

static size_t order_bytes(const struct mds_dataset *d)
{
    return sizeof *d->order + (size_t)mds_blend_members(&d->blends[MDS_SPLIT_TRAIN]) *
                                  sizeof d->order->file[0];
}

enum mds_rc mds_dataset_start_order(struct mds_dataset *d)
{
    d->order = mds_zalloc(1, order_bytes(d));
    if (!d->order)
        return MDS_EMEM;
    for (int k = 0; k < mds_blend_members(&d->blends[MDS_SPLIT_TRAIN]); k++)
        d->order->file[k].key = k;
    return MDS_OK;
}

void *mds_dataset_order(struct mds_dataset *d, int64_t *bytes)
{
    *bytes = (int64_t)order_bytes(d);
    return d->order;
}

static enum mds_rc describe_file(struct mds_dataset *d, int k, struct mds_position *out)
{
    const struct blend *b = &d->blends[MDS_SPLIT_TRAIN];
    struct mds_source *s = mds_blend_source(d, b, k);
    struct mds_file_position f = {.path = s->path,
                                  .share = mds_mix_share(b->files->mix, k),
                                  .key = d->order->file[k].key,
                                  .start = d->order->file[k].start,
                                  .samples = b->members[k].samples,
                                  .tokens = s->tokens,
                                  .documents = s->documents,
                                  .modified = time_modified(s)};

    MDS_TRY(take_fingerprint(s, &f.hash));
    return mds_position_add(out, &f);
}

/* The files of this run's mix, each at its start. */
static enum mds_rc describe_mix(struct mds_dataset *d, struct mds_position *out)
{
    enum mds_rc rc = MDS_OK;

    *out = (struct mds_position){.began = d->order->began};
    for (int k = 0; !rc && k < mds_blend_members(&d->blends[MDS_SPLIT_TRAIN]); k++)
        rc = describe_file(d, k, out);
    if (rc)
        mds_position_fini(out);
    return rc;
}

/* ---- which file is which --------------------------------------------------------- */

static int is_same_file(const struct mds_file_position *a,
                        const struct mds_file_position *b)
{
    return a->tokens == b->tokens && a->documents == b->documents && a->hash == b->hash;
}

/* For each file of `now` its number in `old`; -1 for a new one. */
struct matches {
    int *old;    /* [now->n] */
    char *taken; /* [old->n] */
};

/* Those of the same content; by_path: and of the same path. */
static void match_files(const struct mds_position *old, const struct mds_position *now,
                        int by_path, struct matches *m)
{
    for (int k = 0; k < now->n; k++)
        for (int i = 0; i < old->n && m->old[k] < 0; i++)
            if (!m->taken[i] && is_same_file(&old->file[i], &now->file[k]) &&
                (!by_path || strcmp(old->file[i].path, now->file[k].path) == 0)) {
                m->old[k] = i;
                m->taken[i] = 1;
            }
}

static void format_file(const struct mds_file_position *f, char out[128])
{
    time_t s = (time_t)(f->modified / 1000000000);
    char when[32] = "at an unknown time";
    struct tm utc;

    if (f->modified && gmtime_r(&s, &utc))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &utc);
    snprintf(out, 128, "%lld tokens in %lld document%s, written %s",
             (long long)f->tokens, (long long)f->documents, mds_plural(f->documents),
             when);
}

/* Files without a match must not have the path of one that is not there any more. */
static enum mds_rc refuse_remade_files(const struct mds_position *old,
                                       const struct mds_position *now,
                                       const struct matches *m, const char *name)
{
    char was[128], is[128];

    for (int k = 0; k < now->n; k++)
        for (int i = 0; i < old->n && m->old[k] < 0; i++) {
            if (m->taken[i] || strcmp(old->file[i].path, now->file[k].path) != 0)
                continue;
            format_file(&old->file[i], was);
            format_file(&now->file[k], is);
            return mds_fail(MDS_EUSER,
                            "%s: is not the file that %s was trained on: that had %s; "
                            "this has %s: bring that one back, or, to go on with this "
                            "one as a new file, give it another name (a link will do)",
                            now->file[k].path, name, was, is);
        }
    return MDS_OK;
}

/* ---- going on -------------------------------------------------------------------- */

static int is_same_mix(const struct mds_position *old, const struct mds_position *now,
                       const struct matches *m)
{
    int same = old->mixed == now->mixed;

    for (int k = 0; same && k < now->n; k++)
        same = m->old[k] == k && old->file[k].share == now->file[k].share &&
               old->file[k].samples == now->file[k].samples;
    return same;
}

/* Samples of another length, or of another part of a file: as far in the epoch. */
static int64_t rescale(int64_t start, int64_t before, int64_t after)
{
    double share = (double)(start % before) / (double)before;
    int64_t epochs = mds_min(start / before, INT64_MAX / 2 / after);

    return before == after ? start : epochs * after + (int64_t)(share * (double)after);
}

static int64_t unused_key(const struct mds_position *p)
{
    int64_t key = 0;

    for (int i = 0; i < p->n; i++)
        key = mds_max(key, p->file[i].key + 1);
    return key;
}

static enum mds_rc take_over(const struct mds_position *old, const struct matches *m,
                             struct mds_position *now)
{
    int64_t key = unused_key(old);

    now->began = old->began;
    for (int k = 0; k < now->mixed; k++) {
        struct mds_file_position *f = &now->file[k];
        const struct mds_file_position *was =
            m->old[k] < 0 ? NULL : &old->file[m->old[k]];

        f->key = was ? was->key : key++;
        f->start = was ? rescale(was->start, was->samples, f->samples) : 0;
    }
    for (int i = 0; i < old->n; i++) {
        struct mds_file_position past = old->file[i];

        past.share = 0;
        if (!m->taken[i])
            MDS_TRY(mds_position_add(now, &past));
    }
    return MDS_OK;
}

static void log_change(const struct mds_position *old, const struct mds_position *now,
                       const struct matches *m)
{
    mds_info("data: the mix changes at sample %lld", (long long)now->began);
    for (int k = 0; k < now->mixed; k++) {
        const struct mds_file_position *f = &now->file[k];

        if (m->old[k] < 0)
            mds_info("data: %s: new", f->path);
        else
            mds_info("data: %s: goes on after %.3g epochs%s", f->path,
                     (double)f->start / (double)f->samples,
                     old->file[m->old[k]].samples == f->samples
                         ? ""
                         : ", with samples of another length or split");
    }
    for (int i = 0; i < old->mixed; i++)
        if (!m->taken[i])
            mds_info("data: %s: left out after %.3g epochs", old->file[i].path,
                     (double)old->file[i].start / (double)old->file[i].samples);
}

static void use_position(struct mds_dataset *d, struct mds_position *p)
{
    d->order->began = p->began;
    for (int k = 0; k < p->mixed; k++) {
        d->order->file[k].key = p->file[k].key;
        d->order->file[k].start = p->file[k].start;
    }
    mds_position_fini(&d->position);
    d->position = *p;
    *p = (struct mds_position){0};
}

static enum mds_rc go_on(struct mds_dataset *d, struct mds_position *old,
                         struct mds_position *now, struct matches *m, const char *name,
                         int64_t sample)
{
    int same;

    for (int k = 0; k < now->n; k++)
        m->old[k] = -1;
    match_files(old, now, 1, m);
    match_files(old, now, 0, m); /* renamed */
    MDS_TRY(refuse_remade_files(old, now, m, name));
    same = is_same_mix(old, now, m);
    if (!same)
        MDS_TRY(mds_position_advance(old, sample));
    MDS_TRY(take_over(old, m, now));
    if (!same)
        log_change(old, now, m);
    use_position(d, now);
    return MDS_OK;
}

static enum mds_rc resume_from(struct mds_dataset *d, struct mds_position *saved,
                               const char *name, int64_t sample)
{
    struct mds_position now = {0};
    struct matches m;
    enum mds_rc rc;

    MDS_TRY(describe_mix(d, &now));
    m.old = mds_zalloc((size_t)now.n, sizeof *m.old);
    m.taken = mds_zalloc((size_t)saved->n, 1);
    rc = m.old && m.taken ? go_on(d, saved, &now, &m, name, sample) : MDS_EMEM;
    free(m.taken);
    free(m.old);
    mds_position_fini(&now);
    return rc;
}

enum mds_rc mds_dataset_resume(struct mds_dataset *d, const char *text,
                               const char *name, int64_t sample)
{
    struct mds_position saved;
    enum mds_rc rc;

    if (!text)
        return MDS_OK;
    MDS_TRY(mds_position_parse(text, name, sample, &saved));
    rc = resume_from(d, &saved, name, sample);
    mds_position_fini(&saved);
    return rc;
}

enum mds_rc mds_dataset_describe(struct mds_dataset *d)
{
    struct mds_position now;

    if (d->position.n > 0)
        return MDS_OK;
    MDS_TRY(describe_mix(d, &now));
    use_position(d, &now);
    return MDS_OK;
}

void mds_dataset_position(const struct mds_dataset *d, struct mds_str *text)
{
    mds_position_text(&d->position, text);
}

/* ---- while a run reads them ------------------------------------------------------ */

/* Whether the path still names what this run opened, perhaps a copy of it. */
static int has_same_content(const struct mds_source *s,
                            const struct mds_file_position *f)
{
    struct mds_file_position now = {0};
    struct mds_source *again;
    int same;

    if (mds_source_open(s->path, &again))
        return 0;
    again->vocab = s->vocab;
    now.tokens = again->tokens;
    now.documents = again->documents;
    same = !take_fingerprint(again, &now.hash) && is_same_file(f, &now);
    mds_source_close(again);
    return same;
}

void mds_dataset_warn_changed(struct mds_dataset *d)
{
    for (int k = 0; k < d->position.mixed; k++) {
        const struct mds_source *s =
            mds_blend_source(d, &d->blends[MDS_SPLIT_TRAIN], k);
        struct mds_file_position *f = &d->position.file[k];
        int64_t modified = time_modified(s);

        if (modified == f->modified)
            continue;
        if (!has_same_content(s, f))
            mds_warn("%s: was replaced or written to while this run reads it: it may "
                     "train on tokens of both, and the next job will refuse the new "
                     "file; bring the old one back",
                     s->path);
        f->modified = modified; /* say it once */
    }
}
