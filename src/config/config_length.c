/* SPDX-License-Identifier: BSD-3-Clause */
/* Lengths: of the run, and of the learning rate's warm-up and decay. */
#include "config/config_impl.h"

#include "base/minmax.h"

/* A length may be given in any of these; the rest of the program counts steps. */
enum { STEPS, SAMPLES, TOKENS, UNITS };

struct length {
    const char *keys[UNITS];
    int64_t *fields[UNITS];
    int shortest_counts; /* several may be given, and the shortest counts */
};

static const char *const how[UNITS] = {
    [SAMPLES] = "samples / global", [TOKENS] = "tokens / (global x sequence)"};

static enum mds_level level_of_key(const struct mds_config_run *run, const char *key)
{
    return mds_settings_of(&run->settings, key)->level;
}

/* As in Megatron a run of samples has only whole batches, a run of tokens all tokens.
 */
static int64_t to_steps(const struct mds_config_run *run, int unit, int64_t n)
{
    int64_t batch = run->config.batch.global;
    int64_t per_step = batch * run->config.model.seq_length;

    if (unit == SAMPLES)
        return mds_max(n / batch, 1);
    return unit == TOKENS ? n / per_step + (n % per_step != 0) : n;
}

/* If a length is given in several units, drop those of lower precedence. */
static void drop_lower_levels(struct mds_config_run *run, const struct length *l)
{
    int nearest = STEPS;

    for (int u = 0; u < UNITS; u++)
        if (*l->fields[u] &&
            (!*l->fields[nearest] ||
             level_of_key(run, l->keys[u]) > level_of_key(run, l->keys[nearest])))
            nearest = u;
    for (int u = 0; u < UNITS; u++)
        if (*l->fields[u] &&
            level_of_key(run, l->keys[u]) < level_of_key(run, l->keys[nearest])) {
            *l->fields[u] = 0;
            mds_settings_derived(&run->settings, l->keys[u], "another unit counts");
        }
}

static void compare_two_lengths(const struct mds_config_run *run,
                                const struct length *l, int a, int b,
                                struct mds_diag *diag)
{
    long long n = *l->fields[a], m = *l->fields[b];
    long long x = to_steps(run, a, n), y = to_steps(run, b, m);
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

static void resolve_length(struct mds_config_run *run, const struct length *l,
                           struct mds_diag *diag)
{
    int64_t least = 0;
    int shortest = -1;

    drop_lower_levels(run, l);
    for (int u = 0; u < UNITS; u++) {
        int64_t steps = to_steps(run, u, *l->fields[u]);

        if (!*l->fields[u])
            continue;
        if (shortest >= 0)
            compare_two_lengths(run, l, u, shortest, diag);
        if (shortest < 0 || steps < least) {
            shortest = u;
            least = steps;
        }
    }
    if (shortest > STEPS) {
        *l->fields[STEPS] = 0;
        derive(run, l->keys[STEPS], l->fields[STEPS], least, how[shortest]);
    }
}

void mds_config_resolve_lengths(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_train_config *t = &run->config.train;
    struct mds_optim_config *o = &run->config.optim;
    const struct length lengths[] = {
        {{"train.iters", "train.samples", "train.tokens"},
         {&t->iters, &t->samples, &t->tokens},
         .shortest_counts = 1},
        {{"optim.decay_iters", "optim.decay_samples", "optim.decay_tokens"},
         {&o->decay_iters, &o->decay_samples, &o->decay_tokens},
         .shortest_counts = 0},
        {{"optim.warmup_iters", "optim.warmup_samples", "optim.warmup_tokens"},
         {&o->warmup_iters, &o->warmup_samples, &o->warmup_tokens},
         .shortest_counts = 0},
    };

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        resolve_length(run, &lengths[i], diag);
}

void mds_config_resolve_schedule(struct mds_config_run *run, struct mds_diag *diag)
{
    struct mds_optim_config *o = &run->config.optim;
    double warmup;

    if (run->config.train.iters)
        derive(run, "optim.decay_iters", &o->decay_iters, run->config.train.iters,
               "the whole run");
    if (o->decay == MDS_LR_WSD && o->decay_iters)
        derive(run, "optim.wsd_decay_iters", &o->wsd_decay_iters,
               (o->decay_iters + 9) / 10, "a tenth of the decay's steps");
    if (o->decay_iters && o->warmup_iters > o->decay_iters)
        mds_diag_fault(
            diag, mds_config_origin(run, "optim.warmup_iters"),
            "--lr-warmup-iters %lld is more than the %lld steps of the decay",
            (long long)o->warmup_iters, (long long)o->decay_iters);
    warmup = o->warmup_iters ? (double)o->warmup_iters
                             : o->warmup_fraction * (double)o->decay_iters;
    if (o->decay == MDS_LR_WSD && o->decay_iters &&
        warmup + (double)o->wsd_decay_iters > (double)o->decay_iters)
        mds_diag_fault(
            diag, mds_config_origin(run, "optim.wsd_decay_iters"),
            "--lr-wsd-decay-iters %lld does not fit between the warm-up's %g "
            "steps and the end at %lld",
            (long long)o->wsd_decay_iters, warmup, (long long)o->decay_iters);
}
