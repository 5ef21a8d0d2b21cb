/* SPDX-License-Identifier: BSD-3-Clause */
/* The output, and what the inputs give for it. */
#include "data/make.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "base/progress.h"
#include "base/units.h"
#include "data/make_input.h"
#include "data/record_file.h"
#include "data/token_file.h"
#include "data/tokenize.h"
#include "io/output.h"
#include "io/worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- tokens of one input, until it is their turn ---- */

/* The tokens of one input, kept in an unnamed temporary file until it is their turn:
 * inputs are read by several threads, and written in order. */

struct token_log {
    struct mds_record_file file;
    unsigned char *buffer; /* what is not yet in the file */
    size_t buffered;
    int id_bytes; /* of an id as kept here */
};

/* The file is a list of entries: a header, ids[n], and kinds[n] if it has them. */
struct header {
    int32_t n;
    int16_t has_kinds, ends_document;
};

enum { ENTRY_MAX = MDS_MAKE_BLOCK, BUFFER = 1 << 19 };

/* Create the file in the folder of `near`. */
static enum mds_rc token_log_init(const char *near, const struct mds_vocabulary *v,
                                  struct token_log *log)
{
    *log = (struct token_log){.file.fd = -1, .id_bytes = v->size <= 65536 ? 2 : 4};
    log->buffer = mds_zalloc(BUFFER, 1);
    return log->buffer ? mds_record_file_init(near, &log->file) : MDS_EMEM;
}

static void token_log_fini(struct token_log *log)
{
    mds_record_file_fini(&log->file);
    free(log->buffer);
    log->buffer = NULL;
}

static enum mds_rc flush(struct token_log *log)
{
    MDS_TRY(mds_record_file_append(&log->file, log->buffer, log->buffered));
    log->buffered = 0;
    return MDS_OK;
}

static void put(struct token_log *log, const void *bytes, size_t n)
{
    if (n > 0)
        memcpy(log->buffer + log->buffered, bytes, n);
    log->buffered += n;
}

static void put_ids(struct token_log *log, const int32_t *ids, size_t n)
{
    if (log->id_bytes == 4) {
        put(log, ids, n * sizeof *ids);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        unsigned char *at = log->buffer + log->buffered + 2 * i;

        at[0] = (unsigned char)ids[i];
        at[1] = (unsigned char)(ids[i] >> 8);
    }
    log->buffered += 2 * n;
}

static enum mds_rc add_entry(struct token_log *log, const struct header *h,
                             const int32_t *ids, const unsigned char *kinds)
{
    size_t n = (size_t)h->n;

    if (log->buffered + sizeof *h + n * 5 > BUFFER)
        MDS_TRY(flush(log));
    put(log, h, sizeof *h);
    put_ids(log, ids, n);
    if (kinds)
        put(log, kinds, n);
    return MDS_OK;
}

/* As a sink; `to` is the log. */
static enum mds_rc token_log_add(void *to, const int32_t *ids,
                                 const unsigned char *kinds, size_t n)
{
    for (size_t done = 0; done < n;) {
        size_t take = mds_min(n - done, (size_t)ENTRY_MAX);
        struct header h = {(int32_t)take, kinds != NULL, 0};

        MDS_TRY(add_entry(to, &h, ids + done, kinds ? kinds + done : NULL));
        done += take;
    }
    return MDS_OK;
}

static enum mds_rc token_log_end_document(void *to)
{
    return add_entry(to, &(struct header){.ends_document = 1}, NULL, NULL);
}

/* No more tokens: write what is buffered, and free the buffer. */
static enum mds_rc token_log_close(struct token_log *log)
{
    MDS_TRY(flush(log));
    free(log->buffer);
    log->buffer = NULL;
    return MDS_OK;
}

/* Read the entry at *at into ids and kinds, and move *at past it. */
static enum mds_rc read_entry(const struct token_log *log, int64_t *at,
                              struct header *h, int32_t *ids, unsigned char *kinds)
{
    unsigned char *bytes = (unsigned char *)ids;
    size_t n;

    MDS_TRY(mds_record_file_read(&log->file, *at, h, sizeof *h));
    *at += (int64_t)sizeof *h;
    n = (size_t)h->n;
    MDS_TRY(mds_record_file_read(&log->file, *at, bytes, n * (size_t)log->id_bytes));
    *at += (int64_t)n * log->id_bytes;
    for (size_t i = n; log->id_bytes == 2 && i-- > 0;) /* widened in place */
        ids[i] = bytes[2 * i] | bytes[2 * i + 1] << 8;
    if (!h->has_kinds)
        return MDS_OK;
    MDS_TRY(mds_record_file_read(&log->file, *at, kinds, n));
    *at += (int64_t)n;
    return MDS_OK;
}

static enum mds_rc replay(const struct token_log *log,
                          const struct mds_token_sink *sink, int32_t *ids,
                          unsigned char *kinds)
{
    struct header h;

    for (int64_t at = 0; at < log->file.length;) {
        MDS_TRY(read_entry(log, &at, &h, ids, kinds));
        MDS_TRY(h.ends_document ? sink->end_document(sink->to)
                                : sink->add(sink->to, ids, h.has_kinds ? kinds : NULL,
                                            (size_t)h.n));
    }
    return MDS_OK;
}

/* Give all tokens of a closed log to a sink, in order. */
static enum mds_rc token_log_replay(const struct token_log *log,
                                    const struct mds_token_sink *sink)
{
    int32_t *ids = mds_zalloc(ENTRY_MAX, sizeof *ids);
    unsigned char *kinds = mds_zalloc(ENTRY_MAX, 1);
    enum mds_rc rc = ids && kinds ? replay(log, sink, ids, kinds) : MDS_EMEM;

    free(ids);
    free(kinds);
    return rc;
}

struct work {
    const struct mds_make *m;
    struct mds_token_file *file;
    struct mds_make_kinds kinds;
    int has_kinds; /* the file has been given them */
    struct mds_make_stats stats;

    /* Shared by all threads. */
    atomic_flag reporting; /* set while one of them logs the progress */
    struct mds_progress progress;
    double began_s;
    int64_t bytes; /* of all inputs, or 0: not known */
    _Atomic int64_t bytes_read;
    atomic_int stop; /* an input has failed: the others end, too */
};

/* What is known of an input after it has been read. */
struct input_done {
    struct mds_make_stats stats;
    int64_t bytes; /* as stored */
    char sha256[65];
};

/* ---- into the token file ---- */

static enum mds_rc set_kinds(struct work *w)
{
    w->has_kinds = 1;
    return mds_token_file_set_kinds(w->file, w->kinds.kind, w->kinds.n);
}

static int any_but_first(const unsigned char *kinds, size_t n)
{
    unsigned char any = 0;

    for (size_t i = 0; kinds && i < n; i++)
        any |= kinds[i];
    return any != 0;
}

/* A file whose tokens are all alike has no kinds. */
static enum mds_rc add_tokens(void *to, const int32_t *ids, const unsigned char *kinds,
                              size_t n)
{
    struct work *w = to;

    if (!w->has_kinds && any_but_first(kinds, n))
        MDS_TRY(set_kinds(w));
    return kinds && w->has_kinds ? mds_token_file_add_kinds(w->file, ids, kinds, n)
                                 : mds_token_file_add(w->file, ids, n);
}

static enum mds_rc end_document(void *to)
{
    struct work *w = to;

    return mds_token_file_ended_document(w->file);
}

static void log_progress(const struct work *w)
{
    double done = (double)w->bytes_read, s = mds_clock_s() - w->began_s;
    double rate = done / s, left = (double)w->bytes - done;
    char read[32], all[32], speed[32], time[32];

    mds_format_bytes(done, read, sizeof read);
    mds_format_bytes(rate, speed, sizeof speed);
    if (left < 0 || rate <= 0)
        mds_info("%s: %s read, %s/s", w->m->output, read, speed);
    else
        mds_info("%s: %s of %s read, %s/s, %s left", w->m->output, read,
                 mds_format_bytes((double)w->bytes, all, sizeof all), speed,
                 mds_format_seconds(left / rate, time, sizeof time));
}

static enum mds_rc count_progress(struct work *w, int64_t bytes)
{
    w->bytes_read += bytes;
    if (!atomic_flag_test_and_set(&w->reporting)) {
        if (mds_progress_is_due(&w->progress))
            log_progress(w);
        atomic_flag_clear(&w->reporting);
    }
    return w->stop ? mds_fail(MDS_EIO, "stopped by an error in another input") : MDS_OK;
}

static enum mds_rc report_progress(void *to, int64_t bytes)
{
    return count_progress(to, bytes);
}

/* Pipes have no size. */
static int64_t count_bytes(const struct mds_make *m)
{
    int64_t bytes = 0;
    struct stat st;

    for (int i = 0; i < m->n_inputs; i++) {
        if (stat(m->inputs[i], &st) || !S_ISREG(st.st_mode))
            return 0;
        bytes += st.st_size;
    }
    return bytes;
}

/* ---- the inputs ---- */

/* The output must not replace an input, nor, by default, anything. */
static enum mds_rc check_output(const struct mds_make *m)
{
    struct stat st;

    for (int i = 0; i < m->n_inputs; i++)
        if (stat(m->inputs[i], &st) == 0)
            MDS_TRY(mds_output_check_apart(m->output, &st, 1));
    return mds_output_check_new(m->output, m->overwrite);
}

static void add_stats(struct work *w, const struct mds_make_stats *s)
{
    struct mds_make_stats *sum = &w->stats;

    if (sum->empty == 0 && s->empty > 0) {
        sum->empty_line = s->empty_line;
        sum->empty_input = s->empty_input;
    }
    if (sum->records == 0)
        memcpy(sum->record, s->record, sizeof sum->record);
    sum->records += s->records;
    sum->annotated += s->annotated;
    sum->both_strands += s->both_strands;
    sum->apart += s->apart;
    sum->unknown += s->unknown;
    sum->empty += s->empty;
    sum->skipped += s->skipped;
}

/* Read input number i into a sink. */
static enum mds_rc tokenize_one(const struct work *w, int i, struct mds_token_sink sink,
                                struct input_done *done)
{
    struct mds_make_input t;
    enum mds_rc rc = mds_make_input_init(w->m, sink, &t);

    if (!rc)
        rc = mds_tokenize_input(&t, w->m->inputs[i], &done->bytes, done->sha256);
    done->stats = t.stats;
    mds_make_input_fini(&t);
    return rc;
}

/* Record input number i, all of whose tokens are in the token file now. */
static enum mds_rc finish_input(struct work *w, int i, const struct input_done *done)
{
    add_stats(w, &done->stats);
    return mds_token_file_input(w->file, w->m->inputs[i], done->bytes, done->sha256);
}

static enum mds_rc tokenize_in_turn(struct work *w)
{
    struct mds_token_sink sink = {w, add_tokens, end_document, report_progress};
    struct input_done done;

    for (int i = 0; i < w->m->n_inputs; i++) {
        MDS_TRY(tokenize_one(w, i, sink, &done));
        MDS_TRY(finish_input(w, i, &done));
    }
    return MDS_OK;
}

/* ---- several threads ---- */

/* An input that a thread reads, into a temporary file. */
struct job {
    struct mds_task task;
    struct work *w;
    int number;
    struct token_log log;
    struct input_done done;
    enum mds_rc rc;
    char *error;
};

static enum mds_rc add_to_log(void *to, const int32_t *ids, const unsigned char *kinds,
                              size_t n)
{
    struct job *j = to;

    return token_log_add(&j->log, ids, kinds, n);
}

static enum mds_rc end_in_log(void *to)
{
    struct job *j = to;

    return token_log_end_document(&j->log);
}

static enum mds_rc report_of_job(void *to, int64_t bytes)
{
    struct job *j = to;

    return count_progress(j->w, bytes);
}

static void run_job(struct mds_task *task)
{
    struct job *j = (struct job *)task;
    struct mds_token_sink sink = {j, add_to_log, end_in_log, report_of_job};

    j->rc = token_log_init(j->w->m->output, &j->w->m->vocabulary, &j->log);
    if (!j->rc)
        j->rc = tokenize_one(j->w, j->number, sink, &j->done);
    if (!j->rc)
        j->rc = token_log_close(&j->log);
    if (j->rc)
        j->error = mds_strdup(mds_fail_text());
}

/* Copy the tokens of a job that has ended to the token file. */
static enum mds_rc finish_job(struct work *w, struct job *j)
{
    struct mds_token_sink sink = {w, add_tokens, end_document, report_progress};

    if (j->rc)
        return j->error ? mds_fail(j->rc, "%s", j->error) : MDS_EMEM;
    MDS_TRY(token_log_replay(&j->log, &sink));
    return finish_input(w, j->number, &j->done);
}

static void free_job(struct job *j)
{
    token_log_fini(&j->log);
    free(j->error);
    *j = (struct job){.log.file.fd = -1};
}

/* The token file gets the inputs in order, whichever is read first.  jobs[ahead] is a
 * ring: input i is in entry i % ahead, so at most `ahead` temporary files are open. */
static enum mds_rc run_jobs(struct work *w, struct mds_worker *threads,
                            struct job *jobs, int ahead)
{
    int n = w->m->n_inputs, started = 0;

    for (int i = 0; i < n; i++) {
        struct job *j = &jobs[i % ahead];
        enum mds_rc rc;

        for (; started < n && started < i + ahead; started++) {
            struct job *next = &jobs[started % ahead];

            next->task.run = run_job;
            next->w = w;
            next->number = started;
            mds_worker_start(threads, &next->task);
        }
        mds_worker_wait(threads, &j->task);
        rc = finish_job(w, j);
        free_job(j);
        MDS_TRY(rc);
    }
    return MDS_OK;
}

static enum mds_rc tokenize_by_threads(struct work *w, int threads)
{
    int ahead = 2 * threads;
    struct job *jobs = mds_zalloc((size_t)ahead, sizeof *jobs);
    struct mds_worker *workers = NULL;
    enum mds_rc rc = jobs ? mds_worker_create(threads, &workers) : MDS_EMEM;

    for (int i = 0; jobs && i < ahead; i++)
        jobs[i].log.file.fd = -1;
    if (!rc)
        rc = run_jobs(w, workers, jobs, ahead);
    w->stop = 1;
    mds_worker_destroy(workers);
    for (int i = 0; jobs && i < ahead; i++)
        free_job(&jobs[i]);
    free(jobs);
    return rc;
}

/* ---- all of it ---- */

/* Features that are on none of the records are of other sequences, or have other names.
 */
static enum mds_rc check_annotated(const struct work *w)
{
    const struct mds_features *f = w->m->features;

    if (!f || w->stats.annotated > 0)
        return MDS_OK;
    return mds_fail(MDS_EUSER,
                    "%s: none of its features is on a record of the inputs: it has "
                    "'%s', they have '%s'; rename the records of one of them",
                    f->path, f->record, w->stats.record);
}

static enum mds_rc tokenize_inputs(struct work *w)
{
    int threads = (int)mds_min(w->m->threads, w->m->n_inputs);

    mds_make_kinds_init(w->m, &w->kinds);
    if (w->m->kind)
        MDS_TRY(set_kinds(w));
    MDS_TRY(threads > 1 ? tokenize_by_threads(w, threads) : tokenize_in_turn(w));
    MDS_TRY(check_annotated(w));
    if (mds_token_file_documents(w->file) == 0)
        return mds_fail(MDS_EUSER,
                        "%s: nothing to write: no input has a single token (%s)",
                        w->m->output, mds_tokenizer_names[w->m->vocabulary.tokenizer]);
    return MDS_OK;
}

static enum mds_rc finish_token_file(struct work *w)
{
    enum mds_tokenizer t = w->m->vocabulary.tokenizer;
    struct mds_str options = {0};
    enum mds_rc rc = MDS_EMEM;

    if (w->m->features && w->m->feature_weight < 0)
        mds_str_add(&options, MDS_READING_FEATURES "%s", w->m->features->type);
    else if (mds_tokenizer_bases(t) > 0)
        mds_reading_write(&w->m->reading, t == MDS_TOKENIZER_CODON, &options);
    if (options.failed)
        mds_token_file_abandon(w->file);
    else
        rc = mds_token_file_finish(w->file, options.s ? options.s : "", w->m->command);
    mds_str_fini(&options);
    return rc;
}

enum mds_rc mds_make_tokens(const struct mds_make *m, struct mds_make_stats *out)
{
    struct work w = {.m = m,
                     .reporting = ATOMIC_FLAG_INIT,
                     .progress = mds_progress_begin(),
                     .began_s = mds_clock_s(),
                     .bytes = count_bytes(m)};
    enum mds_rc rc;

    MDS_TRY(check_output(m));
    MDS_TRY(mds_token_file_create(m->output, &m->vocabulary, &w.file));
    rc = tokenize_inputs(&w);
    if (rc) {
        mds_token_file_abandon(w.file);
        return rc;
    }
    w.stats.documents = mds_token_file_documents(w.file);
    w.stats.tokens = mds_token_file_tokens(w.file);
    MDS_TRY(finish_token_file(&w));
    *out = w.stats;
    return MDS_OK;
}
