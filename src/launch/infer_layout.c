/* SPDX-License-Identifier: BSD-3-Clause */
/* The search for a layout of mds_infer. */
#include "base/clock.h"
#include "base/minmax.h"
#include "config/pairs.h"
#include "infer/generate.h"
#include "launch/infer_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* To share a sequence. */
enum { TENSOR, ULYSSES, RING, PIPELINE, WAYS };

struct search {
    const struct mds_launch *l;
    const struct mds_infer_command *c;
    struct mds_infer_plan *p;
    double tokens; /* of a job; 0: unknown */
    double until_s;
    int is_open;         /* layouts are tried, in place of the one that is given */
    int64_t given[WAYS]; /* tensor, Ulysses, ring and pipeline ranks that the user set;
                            else 0 */
};

static const char *const flags[WAYS] = {
    "--tensor-model-parallel-size", "--ds-sequence-parallel-size",
    "--context-parallel-size", "--pipeline-model-parallel-size"};

static int is_given(const struct mds_config_run *run, const char *key)
{
    return mds_settings_of(&run->settings, key)->level == MDS_LEVEL_CLI;
}

static void find_given(struct search *s, const struct mds_config_run *run)
{
    static const char *const keys[WAYS] = {"parallel.tensor", "parallel.ulysses",
                                           "parallel.ring", "parallel.pipeline"};
    const struct mds_parallel_config *p = &run->config.parallel;
    const int64_t value[WAYS] = {p->tensor, p->ulysses, p->ring, p->pipeline};
    int any = is_given(run, "parallel.sp_type");

    for (const struct mds_axis *a = mds_axes; a->name; a++)
        any |= a->key && is_given(run, a->key);
    for (int i = 0; i < WAYS; i++)
        s->given[i] = is_given(run, keys[i]) ? value[i] : 0;
    s->is_open = s->l->options->layout == MDS_LAYOUT_PLAN ||
                 (s->l->options->layout == MDS_LAYOUT_AUTO && !any && s->l->ranks > 1);
}

/* The options of a layout, unless the user has given them. */
static void layout_words(const struct search *s, const struct mds_infer_layout *y,
                         struct mds_argv *out)
{
    const int64_t size[WAYS] = {y->tensor, y->ulysses, y->ring, y->pipeline};

    if (!s->is_open)
        return;
    for (int i = 0; i < WAYS; i++)
        if (!s->given[i] && (i != PIPELINE || size[i] > 1))
            mds_argv_add_option(out, flags[i], "%lld", (long long)size[i]);
}

/* The model with that layout, resolved. */
static enum mds_rc resolve(const struct search *s, const struct mds_infer_layout *y,
                           struct mds_infer_model *m)
{
    struct mds_infer_command c = *s->c;
    struct mds_infer_need need = s->p->need;
    struct mds_argv words = {0};
    enum mds_rc rc = MDS_EMEM;

    mds_argv_add(&words, "mds_pretrain");
    mds_argv_add_words(&words, s->p->passed.n, s->p->passed.v);
    layout_words(s, y, &words);
    if (s->tokens > 0)
        need.tokens = (int64_t)s->tokens;
    if (!words.failed) {
        c.operand = words.v + 1;
        c.operands = words.n - 1;
        c.files = 0;
        rc = mds_infer_command_find(&c, m);
    }
    if (!rc)
        rc = mds_infer_model_resolve(m, &need, s->l->ranks);
    mds_argv_fini(&words);
    return rc;
}

/* Of as many sequences as all copies generate together: prompts are as long as they are
 * in the mean. */
static double generation_s(const struct search *s, const struct mds_estimate *e)
{
    const struct mds_infer_need *need = &s->p->need;
    double n = (double)need->sequences, prompt = (double)need->prompt_tokens / n;

    return e->prompt_s * prompt / (double)need->longest_prompt +
           e->step_s * (double)need->new_tokens / n;
}

/* A row has the windows of some alleles, which share what they can, or one window. */
static double rows_of_alleles(const struct search *s, const struct mds_config *c)
{
    const struct mds_infer_need *need = &s->p->need;
    double alleles = (double)(need->alleles * need->strands) / (double)s->p->jobs;

    return c->train.shared_prefixes ? alleles / (double)need->row_alleles : 2 * alleles;
}

static void set_times(const struct search *s, const struct mds_config *c,
                      struct mds_infer_layout *y)
{
    double rows = (double)(y->data * c->batch.micro * c->batch.accumulation);
    double all = s->tokens / (double)(c->model.seq_length + 1);
    double once = y->estimate.step_s, steps = MDS_INFER_BATCH_STEPS;

    if (s->p->need.alleles > 0)
        all = rows_of_alleles(s, c);
    if (s->p->generates) {
        all = s->p->sequences / (double)s->p->jobs;
        once = generation_s(s, &y->estimate);
        steps = MDS_INFER_GENERATE_BATCHES;
    }
    y->all_s = all > 0 ? ceil(all / rows) * once : 0;
    y->results_s = steps * once;
}

/* Of rows with several sequences, which do not see each other. */
static void set_seen(const struct search *s, struct mds_config *c)
{
    const struct mds_infer_need *need = &s->p->need;
    int64_t S = c->model.seq_length;

    if (need->pair_tokens > 0 && (need->row == 0 || c->train.shared_prefixes))
        c->data.seen =
            mds_pairs_share(need->pairs, (double)need->pair_tokens / (double)S, S);
}

/* Where the tokens of all sequences are not known, their number may be. */
static int64_t copies_with_work(const struct search *s, int64_t data)
{
    const struct mds_infer_need *need = &s->p->need;
    int64_t jobs = s->p->jobs, share = mds_ceil_div(need->sequences, jobs);

    return s->tokens > 0 || need->cut || share == 0 ? data : mds_min(data, share);
}

double mds_infer_layout_cost(const struct mds_infer_layout *y)
{
    return y->all_s > 0
               ? y->all_s
               : y->estimate.step_s / (double)(y->copies * y->micro * y->tokens);
}

static enum mds_rc try_layout(struct search *s, struct mds_infer_layout *y,
                              enum mds_predict_how how)
{
    struct mds_infer_model m = {.path = ""};
    enum mds_rc rc = resolve(s, y, &m);

    y->why[0] = '\0';
    if (rc == MDS_EUSER && s->is_open) {
        snprintf(y->why, sizeof y->why, "%s", mds_fail_text());
        rc = MDS_OK;
    } else if (!rc) {
        struct mds_config *c = &m.run->config;

        set_seen(s, c);
        y->tensor = c->parallel.tensor;
        y->ulysses = c->parallel.ulysses;
        y->ring = c->parallel.ring;
        y->pipeline = c->parallel.pipeline;
        y->data = c->parallel.data;
        y->copies = copies_with_work(s, y->data);
        y->micro = c->batch.micro * (s->p->generates ? c->batch.accumulation : 1);
        y->tokens = c->model.seq_length;
        rc = mds_predict_as(how, c, (int)s->l->ranks, (int)s->l->per_node,
                            s->l->machine, &y->estimate);
        if (!rc)
            set_times(s, c, y);
    }
    mds_infer_model_close(&m);
    return rc;
}

static enum mds_rc add_layout(struct search *s, struct mds_infer_layout y)
{
    struct mds_infer_plan *p = s->p;
    const double better = 0.8; /* what sharing more has to gain */

    if (p->n == MDS_INFER_LAYOUTS)
        return MDS_OK;
    MDS_TRY(try_layout(s, &y, MDS_PREDICT_EXTRAPOLATED));
    if (!y.why[0] && y.estimate.fits &&
        (p->best < 0 || mds_infer_layout_cost(&y) <
                            better * mds_infer_layout_cost(&p->tried[p->best])))
        p->best = p->n;
    p->tried[p->n++] = y;
    return MDS_OK;
}

/* Not more than two ways at once.  Of generation Ulysses and rings are the same; of
 * what is only read stages of a pipeline are no faster than these. */
static int is_worth_trying(const struct search *s, const int64_t size[WAYS])
{
    const int idle = s->p->generates ? ULYSSES : PIPELINE;
    int ways = 0;

    for (int i = 0; i < WAYS; i++) {
        ways += size[i] > 1;
        if (s->given[i] ? s->given[i] != size[i] : i == idle && size[i] > 1)
            return 0;
    }
    return ways <= 2 && (s->p->n == 0 || mds_clock_s() <= s->until_s);
}

static enum mds_rc try_share(struct search *s, int64_t ranks, int64_t t, int64_t u,
                             int64_t pipeline)
{
    const int64_t size[WAYS] = {t, u, ranks / t / u / pipeline, pipeline};
    struct mds_infer_layout y = {.tensor = t,
                                 .ulysses = u,
                                 .ring = size[RING],
                                 .pipeline = pipeline,
                                 .data = s->l->ranks / ranks};

    return is_worth_trying(s, size) ? add_layout(s, y) : MDS_OK;
}

/* All ways for `ranks` to share a sequence: tensor ranks within a node. */
static enum mds_rc try_shares(struct search *s, int64_t ranks)
{
    for (int64_t t = 1; t <= mds_min(ranks, s->l->per_node); t++)
        for (int64_t u = 1; ranks % t == 0 && u <= ranks / t; u++)
            for (int64_t p = 1; ranks / t % u == 0 && p <= ranks / t / u; p++)
                if (ranks / t / u % p == 0)
                    MDS_TRY(try_share(s, ranks, t, u, p));
    return MDS_OK;
}

/* Whether all copies of the model have something to do: then fewer copies, each shared
 * by more ranks, are no faster. */
static int all_are_busy(const struct search *s)
{
    const struct mds_infer_plan *p = s->p;
    const struct mds_infer_layout *y = p->best < 0 ? NULL : &p->tried[p->best];

    if (!y || s->tokens == 0)
        return y && y->copies == y->data;
    return s->tokens >= 2 * (double)(y->data * y->micro * (y->tokens + 1));
}

static enum mds_rc try_all(struct search *s)
{
    int64_t world = s->l->ranks;

    for (int64_t ranks = 1; ranks <= world && !all_are_busy(s); ranks++)
        if (world % ranks == 0)
            MDS_TRY(try_shares(s, ranks));
    return MDS_OK;
}

struct mds_infer_layout *mds_infer_layout_smallest(struct mds_infer_plan *p)
{
    struct mds_infer_layout *least = NULL;

    for (int i = 0; i < p->n; i++)
        if (!p->tried[i].why[0] &&
            (!least || mds_estimate_memory_fraction(&p->tried[i].estimate) <
                           mds_estimate_memory_fraction(&least->estimate)))
            least = &p->tried[i];
    return least;
}

enum mds_rc mds_infer_layout_choose(const struct mds_launch *l,
                                    const struct mds_infer_command *c, double tokens,
                                    const struct mds_config_run *asked,
                                    struct mds_infer_plan *p)
{
    struct search s = {.l = l,
                       .c = c,
                       .p = p,
                       .tokens = tokens,
                       .until_s = mds_clock_s() + l->options->plan_s};
    struct mds_infer_layout *best;

    p->best = -1;
    find_given(&s, asked);
    MDS_TRY(s.is_open ? try_all(&s) : add_layout(&s, (struct mds_infer_layout){0}));
    if (p->best < 0 && s.is_open && l->options->check_memory)
        return MDS_OK;
    best = p->best < 0 ? mds_infer_layout_smallest(p) : &p->tried[p->best];
    p->best = -1;
    if (!best)
        return MDS_OK;
    MDS_TRY(try_layout(&s, best, MDS_PREDICT_FULL));
    if (!best->estimate.fits && l->options->check_memory)
        return MDS_OK;
    p->best = (int)(best - p->tried);
    layout_words(&s, best, &p->passed);
    s.is_open = 0;
    return resolve(&s, best, &p->model);
}
