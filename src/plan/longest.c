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
#include "plan/space.h"

#include <math.h>
#include <stdlib.h>

enum { WAYS = MDS_PLAN_WHERES * MDS_PLAN_STEPS, TILES = 2, PROBES = 24 };

#define LONGEST ((double)(INT64_C(1) << 33))

/* What is needed at a length, as parts of what there is. */
struct point {
    int64_t seq;
    double device, host;
};

/* A way to save memory on a grid, or (step -1) all ways of one. */
struct way {
    struct mds_layout grid;
    int where, step;
    struct point before, low, high; /* before < low fit, high does not; seq 0: none */
    double bound;                   /* no longer sequence fits */
    int turn;
};

struct finder {
    struct mds_plan_request r; /* of run, below */
    struct mds_config_run run; /* with the length that is tried */
    struct mds_layout now;
    unsigned fixed;
    int64_t unit;             /* lengths are multiples of it */
    struct mds_layout widest; /* the last grid that the model divides by */
    double end_s;
    struct mds_plan_longest *out;
    enum mds_rc rc;
};

/* ---- one dry run ---- */

static int point_fits(const struct point *p)
{
    return p->device <= 1 && p->host <= 1;
}

static void note_best(struct finder *f, const struct mds_plan_entry *e, int64_t seq)
{
    if (seq <= f->out->seq)
        return;
    f->out->seq = seq;
    f->out->best = *e;
}

/* 0 if the model does not divide so. */
static int probe_length(struct finder *f, const struct way *w, int64_t seq,
                        struct point *out)
{
    struct mds_plan_entry e = {.layout = w->grid};
    const struct mds_estimate *is = &e.estimate;
    int64_t runs;

    f->run.config.model.seq_length = seq;
    mds_plan_set_least(&f->r, &e.layout, w->where, w->step,
                       mds_plan_tile(&w->grid, seq));
    f->rc = mds_plan_estimate(&f->r, &f->now, f->fixed, MDS_PREDICT_BRIEF, &e, &runs);
    f->out->dry_runs += runs;
    if (f->rc || runs == 0)
        return 0;
    out->seq = seq;
    out->device = (double)is->device_bytes / (double)is->device_limit;
    out->host = (double)is->host_need / (double)is->host_limit;
    if (point_fits(out))
        note_best(f, &e, seq);
    return 1;
}

/* ---- bounds ---- */

/* The shortest length that counts as longer: a part in 256, and a unit at least. */
static int64_t longer_than_now(const struct finder *f)
{
    int64_t step = f->out->seq / 256 / f->unit * f->unit;

    return f->out->seq + (step > f->unit ? step : f->unit);
}

/* Where the line through both reaches all that there is. */
static double extrapolate(int64_t s, double at_s, int64_t t, double at_t)
{
    double x;

    if (at_t > 1)
        return (double)(at_s > 1 ? s : t);
    if (at_t <= at_s)
        return LONGEST;
    x = (double)t + (1 - at_t) / (at_t - at_s) * (double)(t - s);
    return x < LONGEST ? x : LONGEST;
}

static double upper_bound_of(const struct point *a, const struct point *b)
{
    return fmin(extrapolate(a->seq, a->device, b->seq, b->device),
                extrapolate(a->seq, a->host, b->seq, b->host));
}

static int64_t round_down(const struct finder *f, double seq)
{
    return (int64_t)seq / f->unit * f->unit;
}

/* The shortest length at which ranks have so many tiles. */
static int64_t length_of(const struct finder *f, const struct mds_layout *grid,
                         int64_t tiles)
{
    int64_t seq = tiles * MDS_ACT_TILE * grid->ulysses * grid->ring;

    return mds_round_up(seq, f->unit);
}

/* Two and three tiles. */
static int sample_two(struct finder *f, struct way *w, struct point *a, struct point *b)
{
    return probe_length(f, w, length_of(f, &w->grid, TILES), a) &&
           probe_length(f, w, length_of(f, &w->grid, TILES + 1), b);
}

/* The first bound of a way. */
static int begin_way(struct finder *f, struct way *w)
{
    struct point a, b;

    if (!sample_two(f, w, &a, &b))
        return 0;
    w->bound = upper_bound_of(&a, &b);
    if (point_fits(&b)) {
        w->before = a;
        w->low = b;
    } else if (point_fits(&a)) {
        w->low = a;
        w->high = b;
    } else {
        w->high = a;
    }
    return 1;
}

/* The bound of a grid, by the way that needs least on the device.  0 if the model
 * does not divide so, or fits at no length. */
static int begin_grid(struct finder *f, struct way *g)
{
    struct way device = {.grid = g->grid};
    struct point a, b, least;

    if (!sample_two(f, &device, &a, &b))
        return 0;
    f->widest = g->grid;
    g->bound = extrapolate(a.seq, a.device, b.seq, b.device);
    return a.device <= 1 ||
           (probe_length(f, &device, f->unit, &least) && least.device <= 1);
}

/* ---- one step ---- */

/* A length between one that fits (or 0) and one that does not, by the line through
 * both, which lies above what is needed; every third time the middle. */
static double interpolate_length(const struct point *low, const struct point *high,
                                 int turn)
{
    double need = fmax(high->device, high->host);
    double had = need == high->device ? low->device : low->host;
    double step = (double)(high->seq - low->seq);

    if (low->seq == 0 || turn % 3 == 2 || need <= had)
        return (double)low->seq + step / 2;
    return (double)low->seq + step * (1 - had) / (need - had);
}

/* Short of what would be a gain, that is asked first. */
static int64_t next_length(const struct finder *f, const struct way *w)
{
    int64_t gain = longer_than_now(f), low = w->low.seq;
    double seq =
        fmin(w->bound, w->high.seq ? interpolate_length(&w->low, &w->high, w->turn)
                                   : 4 * (double)low);

    if (w->high.seq ? seq < (double)gain : low < f->out->seq && seq > (double)gain)
        return gain;
    return round_down(f, seq);
}

/* One dry run more, and the bound that follows. */
static void lengthen(struct finder *f, struct way *w)
{
    struct point at;

    if (w->turn++ == PROBES || !probe_length(f, w, next_length(f, w), &at)) {
        w->bound = 0;
        return;
    }
    if (point_fits(&at)) {
        w->before = w->low;
        w->low = at;
    } else {
        w->high = at;
    }
    w->bound = w->high.seq ? (double)(w->high.seq - f->unit) : LONGEST;
    if (w->before.seq)
        w->bound = fmin(w->bound, upper_bound_of(&w->before, &w->low));
}

/* ---- all ---- */

struct ways {
    struct way *v;
    size_t n;
};

static void append_way(struct finder *f, struct ways *all, const struct way *w)
{
    struct way *more = mds_grow(all->v, all->n, sizeof *more);

    if (!more) {
        f->rc = MDS_EMEM;
        return;
    }
    all->v = more;
    all->v[all->n++] = *w;
}

/* A length that tensor ranks cannot share is left whole among them. */
static void add_grid(struct finder *f, struct ways *all, const struct mds_layout *l)
{
    struct way g = {.grid = *l, .step = -1};
    int divides = begin_grid(f, &g);

    if (!divides && !f->rc && l->sequence_parallel) {
        g.grid.sequence_parallel = 0;
        divides = begin_grid(f, &g);
    }
    if (divides)
        append_way(f, all, &g);
}

/* What is fixed makes some ways the same. */
static int is_new(const struct finder *f, const struct ways *all, size_t from,
                  const struct way *w)
{
    struct mds_layout l = w->grid, k;

    mds_plan_set_least(&f->r, &l, w->where, w->step, MDS_ACT_TILE);
    l = mds_layout_keep(l, &f->now, f->fixed);
    for (size_t i = from; i < all->n; i++) {
        k = w->grid;
        mds_plan_set_least(&f->r, &k, all->v[i].where, all->v[i].step, MDS_ACT_TILE);
        k = mds_layout_keep(k, &f->now, f->fixed);
        if (mds_layout_equal(&l, &k))
            return 0;
    }
    return 1;
}

/* Whether a longer sequence than is known to fit may fit on a grid, by the way that
 * needs least on the device, and the one that needs least on the host. */
static int may_gain(struct finder *f, const struct mds_layout *grid)
{
    struct way device = {.grid = *grid};
    struct way host = {
        .grid = *grid, .where = MDS_PLAN_WHERES - 1, .step = MDS_PLAN_STEPS - 1};
    int64_t seq = longer_than_now(f);
    struct point p;

    return probe_length(f, &device, seq, &p) && p.device <= 1 &&
           probe_length(f, &host, seq, &p) && p.host <= 1;
}

static void add_ways(struct finder *f, struct ways *all, struct mds_layout grid)
{
    size_t from = all->n;

    for (int i = 0; i < WAYS && !f->rc; i++) {
        struct way w = {
            .grid = grid, .where = i / MDS_PLAN_STEPS, .step = i % MDS_PLAN_STEPS};

        if (is_new(f, all, from, &w) && begin_way(f, &w))
            append_way(f, all, &w);
    }
}

/* The one that promises most; NULL if none is a gain. */
static struct way *most_promising(const struct finder *f, const struct ways *all)
{
    struct way *best = NULL;

    for (size_t i = 0; i < all->n; i++)
        if (all->v[i].bound >= (double)longer_than_now(f) &&
            (!best || all->v[i].bound > best->bound))
            best = &all->v[i];
    return best;
}

/* No time is left for a grid, nor for all ways of it. */
static void give_up(struct finder *f, struct ways *all, const struct mds_layout *grid)
{
    f->out->untried++;
    for (size_t i = 0; i < all->n; i++)
        if (mds_layout_equal(&all->v[i].grid, grid))
            all->v[i].bound = 0;
}

static void lengthen_all(struct finder *f, const struct mds_plan_grids *grids)
{
    struct ways all = {0};
    struct way *w;

    for (size_t i = 0; i < grids->n && !f->rc; i++)
        if (mds_plan_shards_less(&grids->v[i], &f->widest))
            continue;
        else if (mds_clock_s() > f->end_s)
            f->out->untried++;
        else
            add_grid(f, &all, &grids->v[i]);
    while (!f->rc && (w = most_promising(f, &all)) != NULL)
        if (mds_clock_s() > f->end_s) {
            give_up(f, &all, &w->grid);
        } else if (w->step >= 0) {
            lengthen(f, w);
        } else {
            w->bound = 0;
            if (may_gain(f, &w->grid))
                add_ways(f, &all, w->grid);
        }
    free(all.v);
}

/* What was found by brief runs is run whole. */
static void confirm_longest(struct finder *f)
{
    struct mds_plan_longest *l = f->out;
    int64_t runs;

    while (l->seq > 0 && l->best.estimate.brief && !f->rc) {
        f->run.config.model.seq_length = l->seq;
        f->rc = mds_plan_estimate(&f->r, &f->now, f->fixed, MDS_PREDICT_WHOLE, &l->best,
                                  &runs);
        l->dry_runs += runs;
        if (f->rc || l->best.estimate.fits)
            return;
        l->best.estimate.brief = 1;
        l->seq = round_down(f, (double)(l->seq - mds_max(l->seq / 256, f->unit)));
    }
}

enum mds_rc mds_plan_max_seq(const struct mds_plan_request *r,
                             struct mds_plan_longest *out)
{
    double start = mds_clock_s();
    struct mds_plan_longest longest = {0};
    struct finder f = {.r = *r,
                       .run = *r->run,
                       .unit = 2 * r->world,
                       .end_s = start + r->budget_s,
                       .out = &longest};
    struct mds_plan_grids grids = {0};

    f.r.run = &f.run;
    f.run.config.model.max_positions = 0;
    f.fixed = mds_layout_fixed(&f.run, r->world, &f.now) & ~r->freed;
    MDS_TRY(mds_plan_grids_list(&f.r, &f.now, f.fixed, &grids));
    lengthen_all(&f, &grids);
    confirm_longest(&f);
    mds_plan_grids_fini(&grids);
    longest.took_s = mds_clock_s() - start;
    if (!f.rc)
        *out = longest;
    return f.rc;
}
