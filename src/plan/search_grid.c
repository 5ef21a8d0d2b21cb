/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/search.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"

#include <math.h>
#include <stdio.h>

/* ---- lists ---- */

void mds_search_add_fit(struct search *s, const struct mds_plan_entry *e)
{
    struct mds_plan *p = s->plan;

    for (size_t i = 0; i < p->fit_count; i++)
        if (mds_layout_equal(&p->fits[i].layout, &e->layout))
            return;
    if (mds_grow(&p->fits, p->fit_count, sizeof *p->fits)) {
        s->rc = MDS_EMEM;
        return;
    }
    p->fits[p->fit_count++] = *e;
    s->best = fmax(s->best, e->estimate.tokens_s);
}

void mds_search_add_reject(struct search *s, const struct mds_plan_entry *e,
                           int divides, const char *why)
{
    struct mds_plan *p = s->plan;

    if (mds_grow(&p->rejects, p->reject_count, sizeof *p->rejects)) {
        s->rc = MDS_EMEM;
        return;
    }
    p->rejects[p->reject_count] =
        (struct mds_plan_reject){.entry = *e, .divides = divides};
    snprintf(p->rejects[p->reject_count].why, sizeof p->rejects->why, "%s", why);
    p->reject_count++;
}

/* ---- one layout ---- */

/* Where ranks have thousands of micro-batches one grid takes many seconds, so this is
 * asked before each dry run. */
int mds_search_out_of_time(const struct search *s)
{
    return mds_clock_s() > s->deadline_s;
}

/* A search may take its budget of 20 s. */
static void report_progress(struct search *s)
{
    double now = mds_clock_s();

    if (s->only_least_memory || now - s->reported_s < 5)
        return;
    s->reported_s = now;
    mds_info("planning: %lld dry runs, %zu layouts fit so far; %.0f s left",
             (long long)s->plan->dry_runs, s->plan->fit_count,
             s->deadline_s > now ? s->deadline_s - now : 0);
}

int mds_search_estimate(struct search *s, struct mds_plan_entry *e,
                        enum mds_predict_how how)
{
    int64_t runs;

    s->rc = mds_plan_estimate(s->r, &s->user, s->plan->fixed, how, e, &runs);
    s->plan->dry_runs += runs;
    report_progress(s);
    return runs > 0 && !s->rc;
}

int mds_search_estimate_cached(struct search *s, struct mds_plan_entry *e)
{
    e->layout = mds_layout_keep(e->layout, &s->user, s->plan->fixed);
    for (int i = 0; i < CACHED; i++)
        if (mds_layout_equal(&s->cached[i].layout, &e->layout)) {
            *e = s->cached[i];
            return 1;
        }
    if (!mds_search_estimate(s, e, MDS_PREDICT_EXTRAPOLATED))
        return 0;
    s->cached[s->cached_at++ % CACHED] = *e;
    return 1;
}

/* ---- using spare memory, or offloading what does not fit ---- */

/* Whether the layout survives applying the fixed members. */
static int respects_fixed(const struct search *s, const struct mds_layout *l)
{
    struct mds_layout kept = mds_layout_keep(*l, &s->user, s->plan->fixed);

    return mds_layout_equal(&kept, l);
}

static int64_t blocks_of_fullest_stage(const struct search *s,
                                       const struct mds_layout *l)
{
    int uneven = s->r->run->config.model.layers % l->pipeline != 0;

    return mds_plan_blocks(s->r, l) + uneven;
}

/* A count between one that fits and one that does not, by linear interpolation of what
 * they need, rounded towards the one that fits. */
static int64_t interpolate_blocks(int64_t good, int64_t good_need, int64_t bad,
                                  int64_t bad_need, int64_t limit)
{
    double part = (double)(limit - good_need) / (double)(bad_need - good_need);
    int64_t n = good + (int64_t)((double)(bad - good) * part),
            one = bad > good ? 1 : -1;

    return n == good ? good + one : n == bad ? bad - one : n;
}

/* In a layout that fits, save attention's results of as many blocks as also fit. */
static void keep_attention_of_most(struct search *s, struct mds_plan_entry *e)
{
    int64_t limit = e->estimate.device_limit, good_need = e->estimate.device_bytes;
    int64_t good = 0, bad = blocks_of_fullest_stage(s, &e->layout) + 1, n = bad - 1;
    struct mds_plan_entry best = *e;

    while (bad - good > 1 && !s->rc && !mds_search_out_of_time(s)) {
        struct mds_plan_entry at = *e;

        at.layout.act.keep_attention = n;
        if (!respects_fixed(s, &at.layout) || !mds_search_estimate_cached(s, &at))
            break;
        if (at.estimate.fits) {
            best = at;
            good = n;
            good_need = at.estimate.device_bytes;
            n++;
        } else {
            bad = n;
            n = interpolate_blocks(good, good_need, bad,
                                   mds_max(at.estimate.device_bytes, limit + 1), limit);
        }
    }
    *e = best;
}

/* If only host memory is too small, keep the inputs of some blocks on the device: as
 * few as suffice. */
static void keep_inputs_on_device(struct search *s, struct mds_plan_entry *e)
{
    const struct mds_estimate *is = &e->estimate;
    int64_t few = 0, enough = blocks_of_fullest_stage(s, &e->layout) + 1,
            n = enough - 1;
    int64_t few_need = is->host_bytes, limit = is->host_limit;
    struct mds_plan_entry best = *e;

    if (is->fits || is->device_bytes > is->device_limit)
        return;
    while (enough - few > 1 && !s->rc && !mds_search_out_of_time(s)) {
        struct mds_plan_entry at = *e;

        at.layout.act.device_inputs = n;
        if (!respects_fixed(s, &at.layout) || !mds_search_estimate_cached(s, &at))
            return;
        if (at.estimate.host_bytes > limit) {
            few = n++;
            few_need = at.estimate.host_bytes;
        } else {
            enough = n;
            best = at;
            n = interpolate_blocks(enough, at.estimate.host_bytes, few, few_need,
                                   limit);
        }
    }
    *e = best;
}

/* How many blocks must be offloaded for the rest to fit, assuming that blocks make up
 * most of the activations. */
static int64_t blocks_to_offload(const struct search *s, const struct mds_plan_entry *e)
{
    const struct mds_estimate *is = &e->estimate;
    int64_t blocks = mds_plan_blocks(s->r, &e->layout);
    int64_t block = is->memory.peak[MDS_MEM_ACT] / mds_max(blocks, 1);
    int64_t over = is->device_bytes - is->device_limit;

    return over <= 0 ? 0 : block > 0 ? mds_ceil_div(over, block) : blocks;
}

/* Whether it may fit the device if blocks are offloaded. */
static int may_fit_device(const struct search *s, const struct mds_plan_entry *e)
{
    int stays = mds_recompute_of(&e->layout.act) != MDS_RECOMPUTE_NONE;
    int64_t most = stays ? 0 : mds_plan_offloadable(s->r, &e->layout);

    return blocks_to_offload(s, e) <= most;
}

/* If device memory is too small, offload everything that blocks save, of as few blocks
 * as suffice.  Returns 1 if it fits then. */
static int offload_blocks(struct search *s, struct mds_plan_entry *e)
{
    int64_t most = mds_plan_offloadable(s->r, &e->layout);
    int64_t n = blocks_to_offload(s, e), end = n + 2;

    if (n == 0)
        return 0;
    for (; n < end && n <= most && !s->rc && !mds_search_out_of_time(s); n++) {
        struct mds_plan_entry at = *e;

        at.layout.act.offload_layers = n;
        if (!respects_fixed(s, &at.layout) || !mds_search_estimate_cached(s, &at))
            return 0;
        if (at.estimate.fits) {
            *e = at;
            return 1;
        }
    }
    return 0;
}

/* Whether untiled full recompute could be tiled instead, which is faster, because
 * blocks then save attention's results, and needs less memory. */
static int tiles_are_better(const struct search *s, struct mds_layout l, int64_t tile)
{
    int whole = l.act.recompute == MDS_RECOMPUTE_FULL && l.act.sequence_tile == 0;

    l.act.sequence_tile = tile;
    l.act.keep_attention = 1;
    return whole && tile > 0 && respects_fixed(s, &l);
}

/* The result of a layout of this grid that was tried: 1 it fitted, 0 it did not, -1 not
 * tried yet.  Fixed members make many of them equal. */
static int find_tried_layout(const struct search *s, const struct mds_layout *l)
{
    for (int i = 0; i < s->tried_count; i++)
        if (mds_layout_equal(&s->tried[i].layout, l))
            return s->tried[i].fits;
    return -1;
}

static void record_tried(struct search *s, const struct mds_layout *l, int fits)
{
    s->tried[s->tried_count].layout = *l;
    s->tried[s->tried_count++].fits = fits;
}

int mds_search_states_exceed_device(const struct mds_estimate *e)
{
    const int64_t *peak = e->memory.peak;

    return peak[MDS_MEM_PARAM] + peak[MDS_MEM_GRAD] + peak[MDS_MEM_OPTIM] >
           e->device_limit;
}

/* Estimate a layout, adjusted to use spare memory.  Returns whether it fits; *e is the
 * layout before the adjustments. */
static int try_activation_level(struct search *s, struct mds_plan_entry *e)
{
    struct mds_plan_entry at;

    if (!mds_search_estimate_cached(s, e))
        return 0;
    at = *e;
    keep_inputs_on_device(s, &at);
    if (at.estimate.fits)
        keep_attention_of_most(s, &at);
    else if (!offload_blocks(s, &at))
        return 0;
    mds_search_add_fit(s, &at);
    return e->estimate.fits || mds_act_kinds_on_host(&at.layout.act) ==
                                   mds_act_kinds_on_host(&e->layout.act);
}

struct mds_plan_entry mds_search_make_entry(const struct search *s,
                                            const struct mds_layout *grid,
                                            int placement, int level)
{
    struct mds_plan_entry e = {.layout = *grid};

    mds_plan_set_placement(&e.layout, placement);
    mds_act_set_level(&e.layout.act, level, s->tile);
    e.layout = mds_layout_keep(e.layout, &s->user, s->plan->fixed);
    return e;
}

/* No level below this one can fit the device. */
static int first_possible_level(struct search *s, const struct mds_layout *grid,
                                int placement)
{
    int low = 0, high = MDS_ACT_FALLING;

    while (low < high && !s->rc && !mds_search_out_of_time(s)) {
        int level = (low + high) / 2;
        struct mds_plan_entry e = mds_search_make_entry(s, grid, placement, level);

        if (mds_search_estimate_cached(s, &e) && may_fit_device(s, &e))
            high = level;
        else
            low = level + 1;
    }
    return low;
}

/* Try the levels of activation memory from `level` up to the first that fits; later
 * ones are slower, and behind the one that needs least memory need more.  Returns the
 * first level that may fit the device, or MDS_ACT_LEVELS: a placement that needs more
 * can start there. */
static int try_placement(struct search *s, const struct mds_layout *grid, int placement,
                         int level)
{
    int fits = 0, first = MDS_ACT_LEVELS;

    for (; level < MDS_ACT_LEVELS && !fits && !s->rc && !mds_search_out_of_time(s);
         level++) {
        struct mds_plan_entry e = mds_search_make_entry(s, grid, placement, level);
        struct mds_layout asked = e.layout;

        if (tiles_are_better(s, asked, s->tile))
            continue;
        fits = find_tried_layout(s, &asked);
        if (fits < 0) {
            fits = try_activation_level(s, &e);
            record_tried(s, &asked, fits);
            if (mds_search_states_exceed_device(&e.estimate))
                break;
            if (!may_fit_device(s, &e)) {
                if (level >= MDS_PLAN_LEAST_LEVEL)
                    break;
                continue;
            }
        }
        first = level < first ? level : first;
    }
    return first;
}

/* With one rank per copy of the weights ZeRO has nothing to shard; its stages 1 and 3
 * are tried only with offload. */
static int is_redundant_placement(const struct search *s, const struct mds_layout *grid,
                                  int placement)
{
    int64_t holders = s->r->world / (grid->tensor * grid->pipeline);

    return holders == 1 && mds_plan_placement_shards(placement);
}

/* A placement that needs no more on the device, or -1: a level that is too much
 * there is too much here. */
static const int smaller_placement[MDS_PLAN_PLACEMENTS] = {1, 2, 3, 5, 5, -1, -1};

void mds_search_grid(struct search *s, const struct mds_layout *grid)
{
    int first[MDS_PLAN_PLACEMENTS];

    s->tried_count = 0;
    s->tile = mds_plan_sequence_tile(s->r, grid);
    for (int placement = MDS_PLAN_PLACEMENTS - 1; placement >= 0 && !s->rc;
         placement--) {
        first[placement] = smaller_placement[placement] < 0
                               ? first_possible_level(s, grid, placement)
                               : first[smaller_placement[placement]];
        if (!is_redundant_placement(s, grid, placement))
            first[placement] = try_placement(s, grid, placement, first[placement]);
    }
}
