/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/search.h"
#include "base/alloc.h"
#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A search has three parts.  Of each grid a few blocks are run with what needs least
 * memory: most grids are out then.  Those that are left are searched, the one whose
 * passes alone promise most first, until none promises half of what was found.  The
 * best are then run whole: all else is by brief dry runs. */

/* Number of best layouts that get a full dry run. */
enum { CONFIRMED = 3 };

/* Grids whose bound is below this fraction of the best result are skipped. */
static const double promising_fraction = 0.5;

/* ---- parts one and two ---- */

/* Whether the model divides over the grid; *e is then the least-memory layout.
 * Sequence parallelism is turned off if the tensor ranks cannot share the length. */
static int divides_model(struct search *s, struct mds_layout *grid,
                         struct mds_plan_entry *e)
{
    struct mds_config c;

    s->tile = mds_plan_sequence_tile(s->r, grid);
    for (;; grid->sequence_parallel = 0) {
        *e = (struct mds_plan_entry){.layout = *grid};
        mds_plan_set_least_memory(s->r, &e->layout, 0, 0, s->tile);
        e->layout = mds_layout_keep(e->layout, &s->user, s->plan->fixed);
        if (!mds_layout_apply(s->r->run, &e->layout, s->r->world, &c))
            return 1;
        if (!grid->sequence_parallel)
            return 0;
    }
}

/* Whether *e needs more memory than the last rejected grid; it gets that estimate. */
static int exceeds_last_reject(const struct search *s, struct mds_plan_entry *e)
{
    if (s->last_reject.estimate.tokens_s == 0 ||
        !mds_plan_shards_less(&e->layout, &s->last_reject.layout))
        return 0;
    e->estimate = s->last_reject.estimate;
    return 1;
}

/* Whether activations and the rest that does not depend on where weights are need more
 * than the device has. */
static int exceeds_without_weights(const struct mds_estimate *e)
{
    const int64_t *peak = e->memory.peak;

    return e->device_bytes - peak[MDS_MEM_PARAM] - peak[MDS_MEM_GRAD] -
               peak[MDS_MEM_COMM] >
           e->device_limit;
}

/* Whether the least that a grid needs on the device is too much, by a part of the
 * step; *e is the nearest to fit.  With weights on the host there are buffers for some,
 * which may be more than all of them. */
static int least_exceeds_device(struct search *s, const struct mds_layout *grid,
                                struct mds_plan_entry *e)
{
    int too_much = 1;

    for (int where = 0; where < 2 && too_much && !s->rc; where++) {
        struct mds_plan_entry at = {.layout = *grid};

        mds_plan_set_least_memory(s->r, &at.layout, where, 0, s->tile);
        if (!mds_search_estimate(s, &at, MDS_PREDICT_LOWER_BOUND))
            return 1;
        too_much = at.estimate.device_bytes > at.estimate.device_limit;
        if (where == 0 || mds_estimate_memory_fraction(&at.estimate) <
                              mds_estimate_memory_fraction(&e->estimate))
            *e = at;
        if (exceeds_without_weights(&at.estimate))
            break;
    }
    return too_much;
}

/* Of a placement, the levels of activations that need least; *e is the first that fits,
 * or the nearest to it. */
static void try_least_levels(struct search *s, const struct mds_layout *grid,
                             int placement, struct mds_plan_entry *e)
{
    for (int level = 0; level < MDS_PLAN_LEAST_LEVELS && !e->estimate.fits && !s->rc &&
                        !mds_search_out_of_time(s);
         level++) {
        struct mds_plan_entry at = {.layout = *grid};

        mds_plan_set_least_memory(s->r, &at.layout, placement, level, s->tile);
        if (!mds_search_estimate_cached(s, &at))
            continue;
        if (e->estimate.tokens_s == 0 || mds_estimate_memory_fraction(&at.estimate) <
                                             mds_estimate_memory_fraction(&e->estimate))
            *e = at;
        if (mds_search_states_exceed_device(&at.estimate))
            break;
    }
}

/* What needs least on the device, with weights and optimizer on the host or, which
 * leaves the host to kept inputs, without; the first that fits, or the one that is
 * nearest to it. */
static void try_least_memory(struct search *s, const struct mds_layout *grid,
                             struct mds_plan_entry *e)
{
    s->tile = mds_plan_sequence_tile(s->r, grid);
    *e = (struct mds_plan_entry){0};
    for (int i = 0; i < MDS_PLAN_LEAST_PLACEMENTS; i++)
        try_least_levels(s, grid, i, e);
}

/* Upper bound of a grid's speed: no recompute, and no time for gradients, weights and
 * host transfers; memory is ignored. */
static double throughput_bound(struct search *s, const struct mds_layout *grid)
{
    struct mds_plan_entry e = mds_search_make_entry(s, grid, 0, 0);
    const struct mds_estimate *is = &e.estimate;

    if (!mds_search_estimate_cached(s, &e))
        return INFINITY;
    return is->tokens_s * is->step_s / (is->step_s - is->data_s - is->host_s);
}

static void add_candidate(struct search *s, const struct candidate *c)
{
    if (mds_grow(&s->candidates, s->candidate_count, sizeof *s->candidates))
        s->rc = MDS_EMEM;
    else
        s->candidates[s->candidate_count++] = *c;
}

static int confirm_by_full_run(struct search *s, struct mds_plan_entry *e);

/* Find a first layout that fits, quickly. */
static void find_first_fit(struct search *s, const struct candidate *c)
{
    try_least_memory(s, &c->grid, &s->first_fit);
    if (!s->first_fit.estimate.fits ||
        (s->only_least_memory && !confirm_by_full_run(s, &s->first_fit)))
        return;
    s->plan->first_s = mds_clock_s() - s->start_s;
    if (s->only_least_memory)
        mds_search_add_fit(s, &s->first_fit);
}

/* The first part for one grid. */
static void screen_grid(struct search *s, struct mds_layout grid)
{
    struct candidate c = {.grid = grid};
    int out;

    if (!divides_model(s, &c.grid, &c.least)) {
        mds_search_add_reject(s, &c.least, 0, mds_fail_text());
        return;
    }
    out = exceeds_last_reject(s, &c.least);
    if (!out && least_exceeds_device(s, &c.grid, &c.least)) {
        s->last_reject = c.least;
        out = 1;
    }
    if (out && !s->rc)
        mds_search_add_reject(s, &c.least, 1, "");
    if (out || s->rc)
        return;
    if (!s->first_fit.estimate.fits)
        find_first_fit(s, &c);
    if (s->only_least_memory)
        return;
    c.bound = throughput_bound(s, &c.grid);
    if (!s->rc)
        add_candidate(s, &c);
}

/* The second part for one grid. */
static void search_candidate(struct search *s, const struct candidate *c)
{
    size_t before = s->plan->fit_count;

    if (c->bound < promising_fraction * s->best) {
        s->plan->slow++;
        return;
    }
    if (!mds_search_out_of_time(s))
        mds_search_grid(s, &c->grid);
    s->plan->untried += mds_search_out_of_time(s);
    if (s->plan->fit_count == before && !s->rc && !mds_search_out_of_time(s))
        mds_search_add_reject(s, &c->least, 1, "");
}

static int by_bound(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    return (x->bound < y->bound) - (x->bound > y->bound);
}

static void search_all_grids(struct search *s)
{
    struct mds_plan_grids g = {0};

    s->rc = mds_plan_grids_list(s->r, &s->user, s->plan->fixed, &g);
    for (size_t i = 0; i < g.n && !s->rc; i++) {
        if (mds_search_out_of_time(s))
            s->plan->untried++;
        else
            screen_grid(s, g.v[i]);
        if (s->only_least_memory && s->plan->fit_count > 0)
            break;
    }
    mds_plan_grids_fini(&g);
    if (s->candidate_count > 0)
        qsort(s->candidates, s->candidate_count, sizeof *s->candidates, by_bound);
    for (size_t i = 0; i < s->candidate_count && !s->rc; i++)
        search_candidate(s, &s->candidates[i]);
    if (s->plan->fit_count == 0 && s->first_fit.estimate.fits)
        mds_search_add_fit(s, &s->first_fit);
    free(s->candidates);
    s->candidates = NULL;
}

/* ---- full dry runs ---- */

/* Whether a full dry run fits, if need be with attention's results saved of a few
 * blocks less. */
static int confirm_by_full_run(struct search *s, struct mds_plan_entry *e)
{
    enum { FEWER = 3 };

    for (int i = 0; e->estimate.extrapolated && i < FEWER; i++) {
        if (!mds_search_estimate(s, e, MDS_PREDICT_FULL))
            return 0;
        if (e->estimate.fits || e->layout.act.keep_attention == 0)
            break;
        e->layout.act.keep_attention--;
        e->estimate.extrapolated = 1;
    }
    return e->estimate.fits && !e->estimate.extrapolated;
}

/* ---- order ---- */

/* Each kind of offload must gain 2 %: transfers that the estimate overlaps with
 * computing may be slower on a shared host. */
static double score_of(const struct mds_plan_entry *e)
{
    const struct mds_layout *l = &e->layout;
    int on_host = (l->offload_optimizer != MDS_PLACE_DEVICE) +
                  (l->offload_params != MDS_PLACE_DEVICE) +
                  mds_act_kinds_on_host(&l->act);

    return e->estimate.tokens_s * (1 - 0.02 * on_host);
}

static int by_score(const void *a, const void *b)
{
    double x = score_of(a), y = score_of(b);

    return (x < y) - (x > y);
}

static int by_need(const void *a, const void *b)
{
    const struct mds_plan_reject *x = a, *y = b;
    double m, n;

    if (x->divides != y->divides || !x->divides)
        return y->divides - x->divides;
    m = mds_estimate_memory_fraction(&x->entry.estimate);
    n = mds_estimate_memory_fraction(&y->entry.estimate);
    return (m > n) - (m < n);
}

/* The third part: of the best, one at least. */
static void confirm_best(struct search *s)
{
    struct mds_plan *p = s->plan;
    size_t n = 0;

    while (n < p->fit_count && n < CONFIRMED && !s->rc &&
           (n == 0 || !mds_search_out_of_time(s)))
        if (confirm_by_full_run(s, &p->fits[n]))
            n++;
        else
            memmove(p->fits + n, p->fits + n + 1,
                    (--p->fit_count - n) * sizeof *p->fits);
    if (n > 0)
        qsort(p->fits, n, sizeof *p->fits, by_score);
}

/* Estimate the rejects nearest to fitting; so far only a lower bound is known. */
static void refine_rejects(struct search *s)
{
    struct mds_plan *p = s->plan;

    for (size_t i = 0;
         i < p->reject_count && i < CONFIRMED && p->rejects[i].divides && !s->rc; i++)
        if (p->rejects[i].entry.estimate.extrapolated && !mds_search_out_of_time(s))
            mds_search_estimate_cached(s, &p->rejects[i].entry);
}

static void sort_results(struct mds_plan *p)
{
    if (p->fit_count > 0)
        qsort(p->fits, p->fit_count, sizeof *p->fits, by_score);
    if (p->reject_count > 0)
        qsort(p->rejects, p->reject_count, sizeof *p->rejects, by_need);
}

/* Why a row of the model table is not chosen; NULL if it may be. */
static const char *why_row_loses(struct search *s, struct mds_plan_entry *e)
{
    const struct mds_plan *p = s->plan;

    if (!mds_search_estimate(s, e, MDS_PREDICT_FULL))
        return mds_fail_text();
    if (!e->estimate.fits)
        return "it does not fit";
    if (p->fit_count > 0 && 2 * e->estimate.tokens_s < p->fits[0].estimate.tokens_s)
        return "less than half as fast as layout 1";
    return NULL;
}

/* Batches of 0 are the configuration's: if those are others, so are time and memory. */
static int is_same_run(const struct mds_plan_entry *a, const struct mds_plan_entry *b)
{
    struct mds_layout l = a->layout;

    l.micro = b->layout.micro;
    l.global = b->layout.global;
    return mds_layout_equal(&l, &b->layout) &&
           a->estimate.step_s == b->estimate.step_s &&
           a->estimate.device_bytes == b->estimate.device_bytes;
}

/* A row of the table that fits goes before all that the search found, unless that is
 * more than twice as fast: rows come from other machines, too. */
static void prefer_row(struct search *s, const struct mds_layout_row *row)
{
    struct mds_plan_entry e = {.layout = row->layout};
    const char *fault = why_row_loses(s, &e);
    struct mds_plan *p = s->plan;
    size_t at = 0;

    snprintf(p->origin, sizeof p->origin, "%s", row->origin);
    snprintf(p->row_fault, sizeof p->row_fault, "%s", fault ? fault : "");
    if (s->rc || fault)
        return;
    while (at < p->fit_count && !is_same_run(&p->fits[at], &e))
        at++;
    if (at == p->fit_count) /* else the search came by it, too */
        mds_search_add_fit(s, &e);
    if (s->rc)
        return;
    memmove(p->fits + 1, p->fits, at * sizeof *p->fits);
    p->fits[0] = e;
}

/* Share of the budget for the first two parts. */
static const double search_fraction = 0.8;

enum mds_rc mds_plan_search(const struct mds_plan_request *r, struct mds_diag *diag,
                            struct mds_plan *out)
{
    struct mds_plan plan = {0};
    double start = mds_clock_s();
    struct search s = {.r = r,
                       .plan = &plan,
                       .start_s = start,
                       .deadline_s = start + search_fraction * r->budget_s,
                       .reported_s = start};
    struct mds_layout_row row;

    plan.fixed = mds_layout_fixed(r->run, r->world, &s.user) & ~r->freed;
    search_all_grids(&s);
    if (!s.rc) {
        sort_results(&plan);
        s.deadline_s = start + r->budget_s;
        confirm_best(&s);
        refine_rejects(&s);
    }
    if (!s.rc) {
        if (mds_layout_find(r->run, r->machine->gpu.kind, r->world, diag, &row))
            prefer_row(&s, &row);
    }
    if (s.rc) {
        mds_plan_fini(&plan);
        return s.rc;
    }
    plan.took_s = mds_clock_s() - start;
    *out = plan;
    return MDS_OK;
}

void mds_plan_fini(struct mds_plan *p)
{
    free(p->fits);
    free(p->rejects);
    *p = (struct mds_plan){0};
}

/* ---- a length ---- */

enum mds_plan_answer mds_plan_fits(const struct mds_plan_request *r, int64_t seq,
                                   struct mds_plan_entry *best, enum mds_rc *rc)
{
    struct mds_config_run run = *r->run;
    struct mds_plan_request at = *r;
    struct mds_plan plan = {0};
    struct search s = {.r = &at,
                       .plan = &plan,
                       .start_s = mds_clock_s(),
                       .deadline_s = mds_clock_s() + 0.25 + r->budget_s / 16,
                       .only_least_memory = 1};
    enum mds_plan_answer answer = MDS_PLAN_NO;

    run.config.model.seq_length = seq;
    run.config.model.max_positions = 0;
    at.run = &run;
    plan.fixed = mds_layout_fixed(&run, r->world, &s.user) & ~r->freed;
    search_all_grids(&s);
    *rc = s.rc;
    if (s.rc || plan.untried > 0)
        answer = MDS_PLAN_UNKNOWN;
    if (!s.rc && plan.fit_count > 0) {
        answer = MDS_PLAN_YES;
        *best = plan.fits[0];
    }
    mds_plan_fini(&plan);
    return answer;
}
