/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_ckpt merge: the mean, or a moving average, of the weights of checkpoints. */
#include "base/alloc.h"
#include "base/minmax.h"
#include "base/str.h"
#include "engine/engine.h"
#include "programs/mds_ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 20 }; /* elements whose sums are in memory at a time */

struct merge {
    struct mds_ckpt_input *input; /* [n], by iteration, ascending */
    int64_t n;
    double *sum; /* [BLOCK] */
    double ema;  /* decay; 0: the mean */
    uint64_t seed;
};

/* ---- values ---- */

/* Add the i-th checkpoint's values; f64, always in the order of iterations. */
static void add_values(const struct merge *m, int64_t i, const float *v, int64_t n)
{
    double old = m->ema > 0 ? m->ema : 1;
    double new = i > 0 && m->ema > 0 ? 1 - m->ema : 1;

    if (i == 0)
        memset(m->sum, 0, (size_t)n * sizeof *m->sum);
    for (int64_t j = 0; j < n; j++)
        m->sum[j] = old * m->sum[j] + new *(double)v[j];
}

/* At most BLOCK elements; out is also the buffer of the reads. */
static enum mds_rc merge_block(const struct merge *m, const struct mds_params *local,
                               int unit, int64_t first, int64_t n, float *out)
{
    double divisor = m->ema > 0 ? 1 : (double)m->n;

    for (int64_t i = 0; i < m->n; i++) {
        MDS_TRY(mds_ckpt_reader_fill(m->input[i].reader, local, m->seed,
                                     MDS_CKPT_WEIGHT, unit, first, n, out));
        add_values(m, i, out, n);
    }
    for (int64_t j = 0; j < n; j++)
        out[j] = (float)(m->sum[j] / divisor);
    return MDS_OK;
}

static enum mds_rc read_merged_values(void *ctx, const struct mds_params *local,
                                      enum mds_ckpt_what what, int unit, int64_t first,
                                      int64_t n, float *out)
{
    if (what != MDS_CKPT_WEIGHT) {
        memset(out, 0, (size_t)n * sizeof *out);
        return MDS_OK;
    }
    for (int64_t done = 0; done < n; done += BLOCK)
        MDS_TRY(merge_block(ctx, local, unit, first + done, mds_min(n - done, BLOCK),
                            out + done));
    return MDS_OK;
}

/* Those of experts, [state->expert_biases] for the caller to free, if there are any. */
static enum mds_rc merge_biases(const struct merge *m, struct mds_ckpt_state *state,
                                double **out)
{
    int64_t n = state->expert_biases;
    double old = m->ema > 0 ? m->ema : 1, divisor = m->ema > 0 ? 1 : (double)m->n;

    *out = NULL;
    if (n == 0)
        return MDS_OK;
    *out = mds_zalloc((size_t)n, sizeof **out);
    if (!*out)
        return MDS_EMEM;
    for (int64_t i = 0; i < m->n; i++) {
        const struct mds_ckpt_state *s = &m->input[i].ix->state;
        double new = i > 0 && m->ema > 0 ? 1 - m->ema : 1;

        for (int64_t j = 0; j < n && s->expert_biases == n; j++)
            (*out)[j] = old * (*out)[j] + new * s->expert_bias[j];
    }
    for (int64_t j = 0; j < n; j++)
        (*out)[j] /= divisor;
    state->expert_bias = *out;
    return MDS_OK;
}

/* ---- inputs ---- */

static enum mds_rc open_last(const char *dir, int64_t last, struct merge *m)
{
    int64_t *iterations, found;
    char path[MDS_PATH_SIZE];
    enum mds_rc rc = MDS_OK;

    MDS_TRY(mds_ckpt_list(dir, &iterations, &found));
    if (found < last)
        rc = mds_fail(MDS_EUSER,
                      "%s: has %" PRId64 " checkpoints, and --last is %" PRId64, dir,
                      found, last);
    else
        m->input = mds_zalloc((size_t)last, sizeof *m->input);
    if (!rc && !m->input)
        rc = MDS_EMEM;
    for (int64_t i = found - last; !rc && i < found; i++) {
        rc = mds_ckpt_path(dir, iterations[i], 0, path);
        if (!rc)
            rc = mds_ckpt_input_open(path, &m->input[m->n]);
        m->n += !rc;
    }
    free(iterations);
    return rc;
}

static enum mds_rc open_named(char *const *path, size_t n, struct merge *m)
{
    m->input = mds_zalloc(n, sizeof *m->input);
    if (!m->input)
        return MDS_EMEM;
    for (size_t i = 0; i < n; i++) {
        MDS_TRY(mds_ckpt_input_open(path[i], &m->input[i]));
        m->n++;
    }
    return MDS_OK;
}

static int by_iteration(const void *a, const void *b)
{
    const struct mds_ckpt_input *x = a, *y = b;
    int64_t p = x->ix->state.iteration, q = y->ix->state.iteration;

    return (p > q) - (p < q);
}

static enum mds_rc check_alike(const struct mds_ckpt_input *o, const char *newest,
                               const struct mds_params *whole,
                               const struct mds_config_run *run)
{
    const struct mds_model_config *model = &run->config.model;
    char *text = mds_settings_text(&run->settings);
    struct mds_config_changes changes;
    char *configuration, *provenance;
    enum mds_rc rc = text ? MDS_OK : MDS_EMEM;

    if (!rc)
        rc = mds_ckpt_index_texts(o->ix->path, &configuration, &provenance);
    if (!rc) {
        rc = mds_config_compare(configuration, o->ix->path, text, &changes);
        free(configuration);
        free(provenance);
    }
    free(text);
    MDS_TRY(rc);
    if (changes.function.s)
        rc =
            mds_fail(MDS_EUSER, "%s: is of another model than %s: it was saved with %s",
                     o->ix->path, newest, changes.function.s);
    mds_config_changes_fini(&changes);
    MDS_TRY(rc);
    if (o->ix->state.vocab != model->vocab)
        return mds_fail(MDS_EUSER,
                        "%s: has %" PRId64 " words, and %s %" PRId64
                        ": merge checkpoints of one model",
                        o->ix->path, o->ix->state.vocab, newest, model->vocab);
    return mds_ckpt_index_check_model(o->ix, whole, model->vocab, model->padded_vocab);
}

static enum mds_rc check_inputs(const struct merge *m, const struct mds_config_run *run)
{
    const char *newest = m->input[m->n - 1].ix->path;
    struct mds_params *whole;
    enum mds_rc rc;

    MDS_TRY(mds_engine_whole_params(&run->config, &whole));
    rc = MDS_OK;
    for (int64_t i = 0; !rc && i < m->n; i++)
        rc = check_alike(&m->input[i], newest, whole, run);
    mds_params_destroy(whole);
    for (int64_t i = 1; !rc && i < m->n; i++)
        if (by_iteration(&m->input[i - 1], &m->input[i]) == 0)
            rc = mds_fail(MDS_EUSER,
                          "%s and %s: both are of iteration %" PRId64
                          "; merge checkpoints of different iterations of one run",
                          m->input[i - 1].ix->path, m->input[i].ix->path,
                          m->input[i].ix->state.iteration);
    return rc;
}

/* ---- the checkpoint ---- */

static enum mds_rc write_merged(struct merge *m, struct mds_config_run *run,
                                const char *dir, const struct mds_ckpt_options *options)
{
    const struct mds_make_source source = {m, read_merged_values};
    const struct mds_ckpt_index *newest = m->input[m->n - 1].ix;
    struct mds_ckpt_state state = newest->state;
    struct mds_str origin = {0};
    char *data = NULL;
    double *bias = NULL;
    enum mds_rc rc;

    state.updates = 0; /* no moments */
    m->seed = (uint64_t)run->config.train.seed;
    if (m->ema > 0)
        mds_str_add(&origin, "merged with --ema %g, weights only\n", m->ema);
    else
        mds_str_add(&origin, "merged by mean, weights only\n");
    for (int64_t i = 0; i < m->n; i++)
        mds_str_add(&origin, "made from: %s\n", m->input[i].ix->path);
    rc = origin.failed ? MDS_EMEM : mds_ckpt_index_data(newest->path, &data);
    if (!rc)
        rc = merge_biases(m, &state, &bias);
    if (!rc)
        rc = mds_checkpoint_make(run, dir, options, &state, data, origin.s, &source);
    if (!rc)
        printf("%s: weights of %" PRId64 " checkpoints, without moments: load them "
               "with --finetune or --skip-train\n",
               dir, m->n);
    free(bias);
    free(data);
    mds_str_fini(&origin);
    return rc;
}

static enum mds_rc merge_inputs(struct merge *m, const char *dir,
                                const struct mds_ckpt_options *options)
{
    static char *nothing[] = {NULL};
    struct mds_config_run *run;
    enum mds_rc rc;

    if (m->n < 2)
        return mds_fail(MDS_EUSER, "merge: give two checkpoints or more, or --last N");
    qsort(m->input, (size_t)m->n, sizeof *m->input, by_iteration);
    MDS_TRY(mds_ckpt_input_config(&m->input[m->n - 1], 0, nothing, &run));
    rc = check_inputs(m, run);
    if (!rc)
        rc = write_merged(m, run, dir, options);
    mds_config_run_destroy(run);
    return rc;
}

enum mds_rc mds_ckpt_run_merge(const struct mds_invocation *c)
{
    const struct mds_ckpt_options *a = mds_ckpt_options(c);
    struct merge m = {.ema = a->ema};
    size_t inputs = c->operand_count - 1;
    enum mds_rc rc;

    if (a->last && inputs != 1)
        return mds_fail(MDS_EUSER, "merge: with --last give one folder of checkpoints, "
                                   "and the FOLDER for the new one");
    m.sum = mds_zalloc(BLOCK, sizeof *m.sum);
    if (!m.sum)
        return MDS_EMEM;
    rc = a->last ? open_last(c->operand[0], a->last, &m)
                 : open_named(c->operand, inputs, &m);
    if (!rc)
        rc = merge_inputs(&m, c->operand[inputs], a);
    for (int64_t i = 0; i < m.n; i++)
        mds_ckpt_input_close(&m.input[i]);
    free(m.input);
    free(m.sum);
    return rc;
}
