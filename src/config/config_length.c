/* SPDX-License-Identifier: BSD-3-Clause */
/* Lengths: of the run, and of the learning rate's warm-up and decay. */
#include "config/config_impl.h"

#include <stdio.h>

/* A length may be given in any unit; config/extent.h follows it in that unit. */
struct length {
    const char *keys[MDS_UNITS];
    struct mds_extent *extent;
    int shortest_counts; /* several may be given, and the shortest counts */
};

static struct length run_length(struct mds_config_run *run)
{
    return (struct length){
        {"train.iters", "train.samples", "train.tokens"}, &run->config.train.length, 1};
}

static struct length decay_length(struct mds_config_run *run)
{
    return (struct length){
        {"optim.decay_iters", "optim.decay_samples", "optim.decay_tokens"},
        &run->config.optim.decay_length,
        0};
}

static struct length warmup_length(struct mds_config_run *run)
{
    return (struct length){
        {"optim.warmup_iters", "optim.warmup_samples", "optim.warmup_tokens"},
        &run->config.optim.warmup_length,
        0};
}

static enum mds_level level_of_key(const struct mds_config_run *run, const char *key)
{
    return mds_settings_of(&run->settings, key)->level;
}

/* Steps of a new run with this run's batch. */
static int64_t steps_of(const struct mds_config_run *run, const struct length *l, int u)
{
    static const struct mds_extent start;
    struct mds_extent only = {{0}};

    only.in[u] = l->extent->in[u];
    return mds_config_end(&run->config, &only, &start).in[MDS_STEPS];
}

/* If a length is given in several units, drop those of lower precedence. */
static void drop_lower_levels(struct mds_config_run *run, const struct length *l)
{
    int64_t *in = l->extent->in;
    int nearest = MDS_STEPS;

    for (int u = 0; u < MDS_UNITS; u++)
        if (in[u] && (!in[nearest] || level_of_key(run, l->keys[u]) >
                                          level_of_key(run, l->keys[nearest])))
            nearest = u;
    for (int u = 0; u < MDS_UNITS; u++)
        if (in[u] &&
            level_of_key(run, l->keys[u]) < level_of_key(run, l->keys[nearest])) {
            in[u] = 0;
            mds_settings_derived(&run->settings, l->keys[u], "another unit counts");
        }
}

static void compare_two_lengths(const struct mds_config_run *run,
                                const struct length *l, int a, int b,
                                struct mds_diag *diag)
{
    long long n = l->extent->in[a], m = l->extent->in[b];
    long long x = steps_of(run, l, a), y = steps_of(run, l, b);
    const char *flag = mds_settings_flag(&run->settings, l->keys[a]),
               *other = mds_settings_flag(&run->settings, l->keys[b]);
    const char *origin = mds_config_origin(run, l->keys[a]);

    if (x != y && l->shortest_counts)
        mds_diag_warn(diag, origin,
                      "%s %lld takes %lld steps, %s %lld takes %lld: the shorter "
                      "counts",
                      flag, n, x, other, m, y);
    else if (x != y)
        mds_diag_fault(diag, origin,
                       "%s %lld is %lld steps, but %s %lld is %lld; leave one out",
                       flag, n, x, other, m, y);
}

/* The unit of the shortest; MDS_UNITS if none is given. */
static int shortest(const struct mds_config_run *run, const struct length *l)
{
    int best = MDS_UNITS;

    for (int u = 0; u < MDS_UNITS; u++)
        if (l->extent->in[u] &&
            (best == MDS_UNITS || steps_of(run, l, u) < steps_of(run, l, best)))
            best = u;
    return best;
}

static void resolve_length(struct mds_config_run *run, const struct length *l,
                           struct mds_diag *diag)
{
    int first = MDS_UNITS;

    drop_lower_levels(run, l);
    for (int u = 0; u < MDS_UNITS; u++) {
        if (!l->extent->in[u])
            continue;
        if (first < MDS_UNITS)
            compare_two_lengths(run, l, u, first, diag);
        if (first == MDS_UNITS || steps_of(run, l, u) < steps_of(run, l, first))
            first = u;
    }
}

/* The whole run, unless a length is given. */
static void resolve_decay(struct mds_config_run *run)
{
    struct length whole = run_length(run), decay = decay_length(run);
    int u = shortest(run, &whole);

    if (u < MDS_UNITS && mds_extent_unit(decay.extent) == MDS_UNITS)
        derive(run, decay.keys[u], &decay.extent->in[u], whole.extent->in[u],
               "the whole run");
}

/* In the unit of the decay; if it was given in another one, with this run's batch,
 * which is constant. */
static double in_unit_of_decay(const struct mds_config_run *run,
                               const struct mds_extent *length)
{
    enum mds_unit unit = mds_extent_unit(length),
                  to = mds_extent_unit(&run->config.optim.decay_length);
    static const struct mds_extent start;
    struct mds_extent step = mds_config_step(&run->config, &start);

    if (unit == MDS_UNITS)
        return 0;
    return unit == to
               ? (double)length->in[unit]
               : (double)length->in[unit] / (double)step.in[unit] * (double)step.in[to];
}

/* A fault; if two units are compared only a warning, since the batch decides. */
static void report_misfit(int warn, struct mds_diag *diag, const char *origin,
                          const char *text)
{
    if (warn)
        mds_diag_warn(diag, origin, "%s, with this run's batch", text);
    else
        mds_diag_fault(diag, origin, "%s", text);
}

static void check_warmup(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_optim_config *o = &run->config.optim;
    const struct length l = warmup_length(run);
    enum mds_unit unit = mds_extent_unit(l.extent),
                  to = mds_extent_unit(&o->decay_length);
    char text[192];

    if (unit == MDS_UNITS ||
        in_unit_of_decay(run, l.extent) <= (double)o->decay_length.in[to])
        return;
    snprintf(text, sizeof text, "%s %lld is more than the %lld %s of the decay",
             mds_settings_flag(&run->settings, l.keys[unit]),
             (long long)l.extent->in[unit], (long long)o->decay_length.in[to],
             mds_unit_names[to]);
    report_misfit(unit != to, diag, mds_config_origin(run, l.keys[unit]), text);
}

static void check_wsd(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_optim_config *o = &run->config.optim;
    const struct mds_extent tail = {{o->wsd_decay_iters}};
    enum mds_unit unit = mds_extent_unit(&o->warmup_length),
                  to = mds_extent_unit(&o->decay_length);
    double end = (double)o->decay_length.in[to];
    double warmup = unit == MDS_UNITS ? o->warmup_fraction * end
                                      : in_unit_of_decay(run, &o->warmup_length);
    char text[192];

    if (warmup + in_unit_of_decay(run, &tail) <= end)
        return;
    snprintf(text, sizeof text,
             "--lr-wsd-decay-iters %lld does not fit between the warm-up's %g %s and "
             "the end at %g",
             (long long)o->wsd_decay_iters, warmup, mds_unit_names[to], end);
    report_misfit(to != MDS_STEPS || (unit != MDS_UNITS && unit != to), diag,
                  mds_config_origin(run, "optim.wsd_decay_iters"), text);
}

/* The rate converts one unit into another by the steps so far (optim/schedule.c), which
 * says little of the ones to come where their sizes differ. */
static int units_differ(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_optim_config *o = &run->config.optim;
    const struct length warmup = warmup_length(run), decay = decay_length(run);
    enum mds_unit unit = mds_extent_unit(warmup.extent),
                  to = mds_extent_unit(decay.extent);
    const char *key = NULL;

    if (run->config.batch.schedule.n == 0)
        return 0;
    if (unit != MDS_UNITS && unit != to)
        key = warmup.keys[unit];
    else if (o->decay == MDS_LR_WSD && o->wsd_decay_iters > 0 && to != MDS_STEPS)
        key = "optim.wsd_decay_iters";
    if (key)
        mds_diag_fault(diag, mds_config_origin(run, key),
                       "%s: where the batch size changes, it has to be in %s, as %s is",
                       mds_settings_flag(&run->settings, key), mds_unit_names[to],
                       mds_settings_flag(&run->settings, decay.keys[to]));
    return key != NULL;
}

void mds_config_resolve_lengths(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct length lengths[] = {run_length(run), decay_length(run),
                                     warmup_length(run)};
    struct mds_optim_config *o = &run->config.optim;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        resolve_length(run, &lengths[i], diag);
    resolve_decay(run);
    if (mds_extent_unit(&o->decay_length) == MDS_UNITS)
        return;
    if (units_differ(run, diag))
        return;
    if (o->decay == MDS_LR_WSD && o->decay_length.in[MDS_STEPS])
        derive(run, "optim.wsd_decay_iters", &o->wsd_decay_iters,
               (o->decay_length.in[MDS_STEPS] + 9) / 10, "a tenth of the decay");
    check_warmup(run, diag);
    if (o->decay == MDS_LR_WSD)
        check_wsd(run, diag);
}
