/* SPDX-License-Identifier: BSD-3-Clause */
/* The longest sequence.  What a layout needs grows with the length along a convex line
 * of straight pieces, as the largest of sums of which each is linear, once ranks have
 * more than a tile each.  So dry runs at two lengths bound what it can reach from
 * above.  They take as long as sequences are, up to a second: all layouts are run at
 * short ones, and from then on always the one that promises most, at lengths that grow
 * by fours. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/minmax.h"
#include "plan/search_space.h"

#include <math.h>
#include <stdlib.h>

enum {
    VARIANTS = MDS_PLAN_LEAST_PLACEMENTS * MDS_PLAN_LEAST_LEVELS,
    TILES = 2,
    PROBES = 24
};

#define LONGEST ((double)(INT64_C(1) << 33))

/* Memory needed at a length, as fractions of the limits. */
struct usage {
    int64_t seq;
    double device, host;
};

/* A variant to save memory on a grid, or (level -1) all variants of one. */
struct variant {
    struct mds_layout grid;
    int placement, level;
    struct usage before, low, high; /* before < low fit, high does not; seq 0: none */
    double bound;                   /* no longer sequence fits */
    int turn;
};

struct length_search {
    struct mds_plan_request r; /* of run, below */
    struct mds_config_run run; /* with the length that is tried */
    struct mds_layout user;
    unsigned fixed;
    int64_t unit;             /* lengths are multiples of it */
    struct mds_layout widest; /* the last grid that the model divides by */
    double end_s;
    struct mds_plan_longest *out;
    enum mds_rc rc;
};

/* ---- one dry run ---- */

static int usage_fits(const struct usage *p)
{
    return p->device <= 1 && p->host <= 1;
}

static void record_longest(struct length_search *f, const struct mds_plan_entry *e,
                           int64_t seq)
{
    if (seq <= f->out->seq)
        return;
    f->out->seq = seq;
    f->out->best = *e;
}

/* 0 if the model does not divide so. */
static int probe_length(struct length_search *f, const struct variant *w, int64_t seq,
                        struct usage *out)
{
    struct mds_plan_entry e = {.layout = w->grid};
    const struct mds_estimate *is = &e.estimate;
    int64_t runs;

    f->run.config.model.seq_length = seq;
    f->run.config.data.seen = (struct mds_pairs){0, 0}; /* was of another length */
    mds_plan_set_least_memory(&f->r, &e.layout, w->placement, w->level,
                              mds_plan_sequence_tile(&f->r, &w->grid));
    f->rc = mds_plan_estimate(&f->r, &f->user, f->fixed, MDS_PREDICT_EXTRAPOLATED, &e,
                              &runs);
    f->out->dry_runs += runs;
    if (f->rc || runs == 0)
        return 0;
    out->seq = seq;
    out->device = (double)is->device_bytes / (double)is->device_limit;
    out->host = (double)is->host_need / (double)is->host_limit;
    if (usage_fits(out))
        record_longest(f, &e, seq);
    return 1;
}

/* ---- bounds ---- */

/* The next length worth finding: longer by 1/256, and by a unit at least. */
static int64_t next_useful_length(const struct length_search *f)
{
    int64_t step = f->out->seq / 256 / f->unit * f->unit;

    return f->out->seq + (step > f->unit ? step : f->unit);
}

/* The length at which the line through both reaches the limit, 1. */
static double length_at_limit(int64_t s, double at_s, int64_t t, double at_t)
{
    double x;

    if (at_t > 1)
        return (double)(at_s > 1 ? s : t);
    if (at_t <= at_s)
        return LONGEST;
    x = (double)t + (1 - at_t) / (at_t - at_s) * (double)(t - s);
    return x < LONGEST ? x : LONGEST;
}

static double upper_bound(const struct usage *a, const struct usage *b)
{
    return fmin(length_at_limit(a->seq, a->device, b->seq, b->device),
                length_at_limit(a->seq, a->host, b->seq, b->host));
}

static int64_t round_down_to_unit(const struct length_search *f, double seq)
{
    return (int64_t)seq / f->unit * f->unit;
}

/* The shortest length at which ranks have so many tiles. */
static int64_t length_of_tiles(const struct length_search *f,
                               const struct mds_layout *grid, int64_t tiles)
{
    int64_t seq = tiles * MDS_ACT_TILE * grid->ulysses * grid->ring;

    return mds_round_up(seq, f->unit);
}

/* Dry runs at two and three tiles. */
static int probe_two_lengths(struct length_search *f, struct variant *w,
                             struct usage *a, struct usage *b)
{
    return probe_length(f, w, length_of_tiles(f, &w->grid, TILES), a) &&
           probe_length(f, w, length_of_tiles(f, &w->grid, TILES + 1), b);
}

/* The first bound of a variant. */
static int bound_variant(struct length_search *f, struct variant *w)
{
    struct usage a, b;

    if (!probe_two_lengths(f, w, &a, &b))
        return 0;
    w->bound = upper_bound(&a, &b);
    if (usage_fits(&b)) {
        w->before = a;
        w->low = b;
    } else if (usage_fits(&a)) {
        w->low = a;
        w->high = b;
    } else {
        w->high = a;
    }
    return 1;
}

/* The bound of a grid, by the variant that needs least on the device.  0 if the model
 * does not divide so, or fits at no length. */
static int bound_grid(struct length_search *f, struct variant *g)
{
    struct variant device = {.grid = g->grid};
    struct usage a, b, least;

    if (!probe_two_lengths(f, &device, &a, &b))
        return 0;
    f->widest = g->grid;
    g->bound = length_at_limit(a.seq, a.device, b.seq, b.device);
    return a.device <= 1 ||
           (probe_length(f, &device, f->unit, &least) && least.device <= 1);
}

/* ---- one probe ---- */

/* A length between one that fits (or 0) and one that does not, by the line through
 * both, which lies above what is needed; every third time the middle. */
static double interpolate_length(const struct usage *low, const struct usage *high,
                                 int turn)
{
    double need = fmax(high->device, high->host);
    double had = need == high->device ? low->device : low->host;
    double step = (double)(high->seq - low->seq);

    if (low->seq == 0 || turn % 3 == 2 || need <= had)
        return (double)low->seq + step / 2;
    return (double)low->seq + step * (1 - had) / (need - had);
}

/* The next length to try; a length that would be a gain is tried first. */
static int64_t next_length(const struct length_search *f, const struct variant *w)
{
    int64_t gain = next_useful_length(f), low = w->low.seq;
    double seq =
        fmin(w->bound, w->high.seq ? interpolate_length(&w->low, &w->high, w->turn)
                                   : 4 * (double)low);

    if (w->high.seq ? seq < (double)gain : low < f->out->seq && seq > (double)gain)
        return gain;
    return round_down_to_unit(f, seq);
}

/* One more dry run of a variant, and its new bound. */
static void probe_next_length(struct length_search *f, struct variant *w)
{
    struct usage at;

    if (w->turn++ == PROBES || !probe_length(f, w, next_length(f, w), &at)) {
        w->bound = 0;
        return;
    }
    if (usage_fits(&at)) {
        w->before = w->low;
        w->low = at;
    } else {
        w->high = at;
    }
    w->bound = w->high.seq ? (double)(w->high.seq - f->unit) : LONGEST;
    if (w->before.seq)
        w->bound = fmin(w->bound, upper_bound(&w->before, &w->low));
}

/* ---- all ---- */

struct variants {
    struct variant *v;
    size_t n;
};

static void append_variant(struct length_search *f, struct variants *all,
                           const struct variant *w)
{
    if (mds_grow(&all->v, all->n, sizeof *all->v))
        f->rc = MDS_EMEM;
    else
        all->v[all->n++] = *w;
}

/* A length that tensor ranks cannot share is left whole among them. */
static void add_grid_if_possible(struct length_search *f, struct variants *all,
                                 const struct mds_layout *l)
{
    struct variant g = {.grid = *l, .level = -1};
    int divides = bound_grid(f, &g);

    if (!divides && !f->rc && l->sequence_parallel) {
        g.grid.sequence_parallel = 0;
        divides = bound_grid(f, &g);
    }
    if (divides)
        append_variant(f, all, &g);
}

/* Fixed members make some variants equal. */
static int is_distinct(const struct length_search *f, const struct variants *all,
                       size_t from, const struct variant *w)
{
    struct mds_layout l = w->grid, k;

    mds_plan_set_least_memory(&f->r, &l, w->placement, w->level, MDS_ACT_TILE);
    l = mds_layout_keep(l, &f->user, f->fixed);
    for (size_t i = from; i < all->n; i++) {
        k = w->grid;
        mds_plan_set_least_memory(&f->r, &k, all->v[i].placement, all->v[i].level,
                                  MDS_ACT_TILE);
        k = mds_layout_keep(k, &f->user, f->fixed);
        if (mds_layout_equal(&l, &k))
            return 0;
    }
    return 1;
}

/* Whether a longer sequence than is known to fit may fit on a grid, by the variant that
 * needs least on the device, and the one that needs least on the host. */
static int grid_may_gain(struct length_search *f, const struct mds_layout *grid)
{
    struct variant device = {.grid = *grid};
    struct variant host = {.grid = *grid,
                           .placement = MDS_PLAN_LEAST_PLACEMENTS - 1,
                           .level = MDS_PLAN_LEAST_LEVELS - 1};
    int64_t seq = next_useful_length(f);
    struct usage p;

    return probe_length(f, &device, seq, &p) && p.device <= 1 &&
           probe_length(f, &host, seq, &p) && p.host <= 1;
}

static void add_variants_of_grid(struct length_search *f, struct variants *all,
                                 struct mds_layout grid)
{
    size_t from = all->n;

    for (int i = 0; i < VARIANTS && !f->rc; i++) {
        struct variant w = {.grid = grid,
                            .placement = i / MDS_PLAN_LEAST_LEVELS,
                            .level = i % MDS_PLAN_LEAST_LEVELS};

        if (is_distinct(f, all, from, &w) && bound_variant(f, &w))
            append_variant(f, all, &w);
    }
}

/* The one that promises most; NULL if none is a gain. */
static struct variant *most_promising_variant(const struct length_search *f,
                                              const struct variants *all)
{
    struct variant *best = NULL;

    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].bound >= (double)next_useful_length(f) &&
            (!best || all->v[i].bound > best->bound))
            best = &all->v[i];
    return best;
}

/* Time ran out: drop all variants of a grid. */
static void give_up_grid(struct length_search *f, struct variants *all,
                         const struct mds_layout *grid)
{
    f->out->untried++;
    for (size_t i = 0; i < all->n; i++)
        if (mds_layout_equal(&all->v[i].grid, grid))
            all->v[i].bound = 0;
}

static void search_lengths(struct length_search *f, const struct mds_plan_grids *grids)
{
    struct variants all = {0};
    struct variant *w;

    for (size_t i = 0; i < grids->n && !f->rc; i++)
        if (mds_plan_shards_less(&grids->v[i], &f->widest))
            continue;
        else if (mds_clock_s() > f->end_s)
            f->out->untried++;
        else
            add_grid_if_possible(f, &all, &grids->v[i]);
    while (!f->rc && (w = most_promising_variant(f, &all)) != NULL)
        if (mds_clock_s() > f->end_s) {
            give_up_grid(f, &all, &w->grid);
        } else if (w->level >= 0) {
            probe_next_length(f, w);
        } else {
            w->bound = 0;
            if (grid_may_gain(f, &w->grid))
                add_variants_of_grid(f, &all, w->grid);
        }
    free(all.v);
}

/* Confirm the result by full dry runs, with shorter lengths if it does not fit. */
static void confirm_longest(struct length_search *f)
{
    struct mds_plan_longest *l = f->out;
    int64_t runs;

    while (l->seq > 0 && l->best.estimate.extrapolated && !f->rc) {
        f->run.config.model.seq_length = l->seq;
        f->rc = mds_plan_estimate(&f->r, &f->user, f->fixed, MDS_PREDICT_FULL, &l->best,
                                  &runs);
        l->dry_runs += runs;
        if (f->rc || l->best.estimate.fits)
            return;
        l->best.estimate.extrapolated = 1;
        l->seq =
            round_down_to_unit(f, (double)(l->seq - mds_max(l->seq / 256, f->unit)));
    }
}

enum mds_rc mds_plan_max_seq(const struct mds_plan_request *r,
                             struct mds_plan_longest *out)
{
    double start = mds_clock_s();
    struct mds_plan_longest longest = {0};
    struct length_search f = {.r = *r,
                              .run = *r->run,
                              .unit = 2 * r->world,
                              .end_s = start + r->budget_s,
                              .out = &longest};
    struct mds_plan_grids grids = {0};

    f.r.run = &f.run;
    f.run.config.model.max_positions = 0;
    f.fixed = mds_layout_fixed(&f.run, r->world, &f.user) & ~r->freed;
    MDS_TRY(mds_plan_grids_list(&f.r, &f.user, f.fixed, &grids));
    search_lengths(&f, &grids);
    confirm_longest(&f);
    mds_plan_grids_fini(&grids);
    longest.took_s = mds_clock_s() - start;
    if (!f.rc)
        *out = longest;
    return f.rc;
}
