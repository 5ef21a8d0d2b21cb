#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/minmax.h"
#include "plan/space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a search carries along. */
struct search {
    const struct mds_plan_request *r;
    struct mds_layout now; /* the user's */
    struct mds_plan *plan;
    double end_s;
    double told_s;   /* when something was last said of it */
    int only_frugal; /* each grid's most frugal layout alone: does anything fit? */
    struct {         /* of the grid that is searched */
        struct mds_layout layout;
        int fits;
    } tried[MDS_PLAN_PLACES * MDS_PLAN_LEVELS];
    int tried_count;
    enum mds_rc rc;
};

/* ---- lists ---- */

static void add_fit(struct search *s, const struct mds_plan_entry *e)
{
    struct mds_plan *p = s->plan;
    struct mds_plan_entry *more = mds_grow(p->fits, p->fit_count, sizeof *more);

    if (!more) {
        s->rc = MDS_EMEM;
        return;
    }
    p->fits = more;
    p->fits[p->fit_count++] = *e;
}

static void add_reject(struct search *s, const struct mds_plan_entry *e, int divides,
                       const char *why)
{
    struct mds_plan *p = s->plan;
    struct mds_plan_reject *more = mds_grow(p->out, p->out_count, sizeof *more);

    if (!more) {
        s->rc = MDS_EMEM;
        return;
    }
    p->out = more;
    p->out[p->out_count] = (struct mds_plan_reject){.entry = *e, .divides = divides};
    snprintf(p->out[p->out_count].why, sizeof p->out->why, "%s", why);
    p->out_count++;
}

/* ---- one layout ---- */

/* Where ranks have thousands of micro-batches one grid takes many seconds, so this is
 * asked before each dry run. */
static int is_late(const struct search *s)
{
    return mds_clock_s() > s->end_s;
}

/* A search may take its budget of 20 s. */
static void tell(struct search *s)
{
    double now = mds_clock_s();

    if (s->only_frugal || now - s->told_s < 5)
        return;
    s->told_s = now;
    mds_info("planning: %lld dry runs, %zu layouts fit so far; %.0f s more at most",
             (long long)s->plan->rehearsed, s->plan->fit_count,
             s->end_s > now ? s->end_s - now : 0);
}

/* 0 if the model does not divide so; then mds_fail_text() says why. */
static int try(struct search *s, struct mds_plan_entry *e)
{
    int64_t runs;

    s->rc = mds_plan_rehearse(s->r, &s->now, s->plan->fixed, e, &runs);
    s->plan->rehearsed += runs;
    tell(s);
    return runs > 0 && !s->rc;
}

/* ---- using the room that is left ---- */

/* Whether what is fixed and the rest of the layout let it be so. */
static int is_allowed(const struct search *s, const struct mds_layout *l)
{
    struct mds_layout kept = mds_layout_keep(*l, &s->now, s->plan->fixed);

    return mds_layout_equal(&kept, l);
}

/* Of the fullest stage, or chunk of one. */
static int64_t most_blocks(const struct search *s, const struct mds_layout *l)
{
    int uneven = s->r->run->config.model.layers % l->pipeline != 0;

    return mds_plan_blocks(s->r, l) + uneven;
}

/* Keep attention's results of as many blocks as fit, in a layout that fits. */
static void keep_attention(struct search *s, struct mds_plan_entry *e)
{
    int64_t good = 0, bad = most_blocks(s, &e->layout) + 1, n = bad - 1;
    struct mds_plan_entry best = *e;

    for (; bad - good > 1 && !s->rc && !is_late(s); n = good + (bad - good) / 2) {
        struct mds_plan_entry at = *e;

        at.layout.keep_attention = n;
        if (!is_allowed(s, &at.layout))
            return;
        if (try(s, &at) && at.estimate.fits) {
            best = at;
            good = n;
        } else {
            bad = n;
        }
    }
    *e = best;
}

/* A layout that fits but for what it keeps on the host gets the inputs of some blocks
 * back on the device: as few as will do. */
static void keep_inputs_on_device(struct search *s, struct mds_plan_entry *e)
{
    const struct mds_estimate *is = &e->estimate;
    int64_t few = 0, enough = most_blocks(s, &e->layout) + 1;
    struct mds_plan_entry best = *e;

    if (is->fits || is->device_bytes > is->device_limit)
        return;
    while (enough - few > 1 && !s->rc && !is_late(s)) {
        struct mds_plan_entry at = *e;

        at.layout.device_inputs = few + (enough - few) / 2;
        if (!is_allowed(s, &at.layout) || !try(s, &at))
            return;
        if (at.estimate.host_bytes > at.estimate.host_limit) {
            few = at.layout.device_inputs;
        } else {
            enough = at.layout.device_inputs;
            best = at;
        }
    }
    *e = best;
}

/* A layout that needs too much of the device puts all that blocks keep on the host, of
 * as few blocks as will do.  Blocks have most of what activations take.  1 if it fits
 * then. */
static int let_blocks_leave(struct search *s, struct mds_plan_entry *e)
{
    const struct mds_estimate *is = &e->estimate;
    int64_t blocks = mds_plan_blocks(s->r, &e->layout);
    int64_t most = mds_plan_leaving(s->r, &e->layout);
    int64_t block = is->memory.peak[MDS_MEM_ACT] / mds_max(blocks, 1);
    int64_t over = is->device_bytes - is->device_limit;
    int64_t n = block > 0 ? (over + block - 1) / block : blocks, end = n + 2;

    if (over <= 0)
        return 0;
    for (; n < end && n <= most && !s->rc && !is_late(s); n++) {
        struct mds_plan_entry at = *e;

        at.layout.offload_layers = n;
        if (!is_allowed(s, &at.layout) || !try(s, &at))
            return 0;
        if (at.estimate.fits) {
            *e = at;
            return 1;
        }
    }
    return 0;
}

/* Whether full recompute may run in tiles instead: that is faster, for then blocks keep
 * attention's results, and needs less. */
static int may_keep(const struct search *s, struct mds_layout l, int64_t tile)
{
    int whole = l.recompute == MDS_RECOMPUTE_FULL && l.sequence_tile == 0;

    l.sequence_tile = tile;
    l.keep_attention = 1;
    return whole && tile > 0 && is_allowed(s, &l);
}

/* Whether this layout of the grid was tried: 1 if it fitted, 0 if it did not, -1 if it
 * was not tried.  Many are the same because of what is fixed. */
static int find_tried(const struct search *s, const struct mds_layout *l)
{
    for (int i = 0; i < s->tried_count; i++)
        if (mds_layout_equal(&s->tried[i].layout, l))
            return s->tried[i].fits;
    return -1;
}

static void note_tried(struct search *s, const struct mds_layout *l, int fits)
{
    s->tried[s->tried_count].layout = *l;
    s->tried[s->tried_count++].fits = fits;
}

/* Whether weights, gradients and states are too much already: no level of activations
 * will do then. */
static int is_hopeless(const struct mds_estimate *e)
{
    const int64_t *peak = e->memory.peak;

    return peak[MDS_MEM_PARAM] + peak[MDS_MEM_GRAD] + peak[MDS_MEM_OPTIM] >
           e->device_limit;
}

/* The levels of activations up to the first that fits: those behind it are slower. */
static void try_place(struct search *s, const struct mds_layout *grid, int place,
                      int64_t tile)
{
    int fits = 0;

    for (int level = 0; level < MDS_PLAN_LEVELS && !fits && !s->rc && !is_late(s);
         level++) {
        struct mds_plan_entry e = {.layout = *grid};
        struct mds_layout asked;

        mds_plan_set_states(&e.layout, place);
        mds_plan_set_activations(&e.layout, level, tile);
        e.layout = mds_layout_keep(e.layout, &s->now, s->plan->fixed);
        asked = e.layout;
        if (may_keep(s, asked, tile))
            continue;
        fits = find_tried(s, &asked);
        if (fits >= 0)
            continue;
        fits = 0;
        if (try(s, &e)) {
            keep_inputs_on_device(s, &e);
            fits = e.estimate.fits;
        }
        note_tried(s, &asked, fits);
        if (is_hopeless(&e.estimate))
            break;
        if (fits) {
            keep_attention(s, &e);
            add_fit(s, &e);
        } else if (let_blocks_leave(s, &e)) {
            add_fit(s, &e);
        }
    }
}

/* Without other holders of the same weights ZeRO has nothing to share, but stage 1 and
 * 3 are what offload goes with. */
static int is_pointless(const struct search *s, const struct mds_layout *grid,
                        int place)
{
    int64_t holders = s->r->world / (grid->tensor * grid->pipeline);

    return holders == 1 && mds_plan_shares(place);
}

/* ---- grids ---- */

/* What needs least on the device, with weights and optimizer on the host or, which
 * leaves the host to kept inputs, without; the first that fits, or the one that is
 * nearest to it. */
static int try_least(struct search *s, const struct mds_layout *grid, int64_t tile,
                     struct mds_plan_entry *e)
{
    int divides = 0;

    for (int where = 0; where < MDS_PLAN_WHERES; where++)
        for (int step = 0; step < MDS_PLAN_STEPS && !s->rc; step++) {
            struct mds_plan_entry at = {.layout = *grid};

            if (divides && is_late(s))
                return 1;
            mds_plan_set_least(s->r, &at.layout, where, step, tile);
            if (!try(s, &at)) {
                *e = at;
                return 0;
            }
            if (!divides ||
                mds_estimate_part(&at.estimate) < mds_estimate_part(&e->estimate))
                *e = at;
            divides = 1;
            if (e->estimate.fits)
                return 1;
        }
    return divides;
}

/* The least that a grid can need.  A length that tensor ranks cannot share is left
 * whole among them.  0 if the model does not divide so. */
static int try_frugal(struct search *s, struct mds_layout *grid, int64_t tile,
                      struct mds_plan_entry *e)
{
    if (try_least(s, grid, tile, e))
        return 1;
    if (s->rc || !grid->sequence_parallel)
        return 0;
    grid->sequence_parallel = 0;
    return try_least(s, grid, tile, e);
}

/* Whether blocks that leave the device may make a grid fit whose least does not: that
 * recomputes nothing only if it has to, by what is fixed. */
static int may_leave(const struct search *s, const struct mds_plan_entry *least)
{
    return !s->only_frugal && mds_layout_keeps_insides(&least->layout);
}

static void try_places(struct search *s, const struct mds_layout *grid, int64_t tile)
{
    s->tried_count = 0;
    for (int place = 0; place < MDS_PLAN_PLACES && !s->rc; place++)
        if (!is_pointless(s, grid, place))
            try_place(s, grid, place, tile);
}

static void try_grid(struct search *s, struct mds_layout grid)
{
    int64_t tile = mds_plan_tile(&grid, s->r->run->config.model.seq_length);
    size_t before = s->plan->fit_count;
    struct mds_plan_entry least;

    if (!try_frugal(s, &grid, tile, &least)) {
        if (!s->rc)
            add_reject(s, &least, 0, mds_fail_text());
    } else if (s->only_frugal && least.estimate.fits) {
        add_fit(s, &least);
    } else {
        if (least.estimate.fits || may_leave(s, &least))
            try_places(s, &grid, tile);
        /* Where it is late there was more to try. */
        if (!least.estimate.fits && s->plan->fit_count == before && !s->rc &&
            !is_late(s))
            add_reject(s, &least, 1, "");
    }
}

static void try_all(struct search *s)
{
    struct mds_plan_grids g = {0};

    s->rc = mds_plan_grids_list(s->r, &s->now, s->plan->fixed, s->only_frugal, &g);
    for (size_t i = 0; i < g.n && !s->rc; i++) {
        if (!is_late(s))
            try_grid(s, g.v[i]);
        s->plan->untried += is_late(s);
        if (s->only_frugal && s->plan->fit_count > 0)
            break;
    }
    mds_plan_grids_fini(&g);
}

/* ---- order ---- */

/* Each thing kept on the host has to gain 2 %: what hides behind computing in a
 * forecast may show, on a host that others use as well. */
static double worth(const struct mds_plan_entry *e)
{
    const struct mds_layout *l = &e->layout;
    int on_host = (l->offload_optimizer != MDS_PLACE_DEVICE) +
                  (l->offload_params != MDS_PLACE_DEVICE) +
                  (l->offload_activations != 0) + (l->offload_layers != 0);

    return e->estimate.tokens_s * (1 - 0.02 * on_host);
}

static int by_worth(const void *a, const void *b)
{
    double x = worth(a), y = worth(b);

    return (x < y) - (x > y);
}

static int by_need(const void *a, const void *b)
{
    const struct mds_plan_reject *x = a, *y = b;
    double m, n;

    if (x->divides != y->divides || !x->divides)
        return y->divides - x->divides;
    m = mds_estimate_part(&x->entry.estimate);
    n = mds_estimate_part(&y->entry.estimate);
    return (m > n) - (m < n);
}

static void sort(struct mds_plan *p)
{
    if (p->fit_count > 0)
        qsort(p->fits, p->fit_count, sizeof *p->fits, by_worth);
    if (p->out_count > 0)
        qsort(p->out, p->out_count, sizeof *p->out, by_need);
}

/* What is in the way of a row of the table, NULL if nothing is. */
static const char *row_fault(struct search *s, struct mds_plan_entry *e)
{
    const struct mds_plan *p = s->plan;

    if (!try(s, e))
        return mds_fail_text();
    if (!e->estimate.fits)
        return "it does not fit";
    if (p->fit_count > 0 && 2 * e->estimate.tokens_s < p->fits[0].estimate.tokens_s)
        return "not half as fast as 1";
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
    const char *fault = row_fault(s, &e);
    struct mds_plan *p = s->plan;
    size_t at = 0;

    snprintf(p->origin, sizeof p->origin, "%s", row->origin);
    snprintf(p->row_fault, sizeof p->row_fault, "%s", fault ? fault : "");
    if (s->rc || fault)
        return;
    while (at < p->fit_count && !is_same_run(&p->fits[at], &e))
        at++;
    if (at == p->fit_count) /* else the search came by it, too */
        add_fit(s, &e);
    if (s->rc)
        return;
    memmove(p->fits + 1, p->fits, at * sizeof *p->fits);
    p->fits[0] = e;
}

enum mds_rc mds_plan_search(const struct mds_plan_request *r, struct mds_diag *diag,
                            struct mds_plan *out)
{
    struct mds_plan plan = {0};
    double start = mds_clock_s();
    struct search s = {
        .r = r, .plan = &plan, .end_s = start + r->budget_s, .told_s = start};
    struct mds_layout_row row;

    plan.fixed = mds_layout_fixed(r->run, r->world, &s.now) & ~r->freed;
    try_all(&s);
    if (!s.rc) {
        sort(&plan);
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
    free(p->out);
    *p = (struct mds_plan){0};
}

/* ---- a length ---- */

int mds_plan_fits(const struct mds_plan_request *r, int64_t seq,
                  struct mds_plan_entry *best, enum mds_rc *rc)
{
    struct mds_config_run run = *r->run;
    struct mds_plan_request at = *r;
    struct mds_plan plan = {0};
    struct search s = {.r = &at,
                       .plan = &plan,
                       .end_s = mds_clock_s() + 0.25 + r->budget_s / 16,
                       .only_frugal = 1};
    int fits;

    run.config.model.seq_length = seq;
    run.config.model.max_positions = 0;
    at.run = &run;
    plan.fixed = mds_layout_fixed(&run, r->world, &s.now) & ~r->freed;
    try_all(&s);
    fits = plan.fit_count > 0;
    if (fits)
        *best = plan.fits[0];
    *rc = s.rc;
    mds_plan_fini(&plan);
    return fits && !s.rc;
}
