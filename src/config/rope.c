/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/rope.h"

#include "config/config_impl.h"

#include <math.h>

const char *const mds_rope_scaling_names[] = {"none", "linear", "ntk",
                                              "yarn", "llama3", NULL};

static const double two_pi = 6.28318530717958647693;

/* ---- formulas ---- */

int64_t mds_rope_size(const struct mds_model_config *m)
{
    return (int64_t)((double)m->head_dim * m->rotary_percent) / 2 * 2;
}

double mds_rope_base(const struct mds_model_config *m)
{
    double rot = (double)mds_rope_size(m);

    return m->rope_scaling == MDS_ROPE_NTK
               ? m->rotary_base * pow(m->rope_factor, rot / (rot - 2))
               : m->rotary_base;
}

double mds_rope_beta_fast(const struct mds_model_config *m)
{
    if (m->rope_beta_fast > 0)
        return m->rope_beta_fast;
    return m->rope_scaling == MDS_ROPE_LLAMA3 ? 4 : 32;
}

static double clamp(double x)
{
    return fmin(fmax(x, 0), 1);
}

/* The index (not a whole number) of the pair that makes this many turns in the original
 * length. */
static double pair_with_turns(const struct mds_model_config *m, double turns)
{
    return (double)mds_rope_size(m) * log((double)m->rope_original / (turns * two_pi)) /
           (2 * log(m->rotary_base));
}

static double yarn_weight(const struct mds_model_config *m, int64_t i)
{
    double low = fmax(floor(pair_with_turns(m, mds_rope_beta_fast(m))), 0);
    double high =
        fmin(ceil(pair_with_turns(m, m->rope_beta_slow)), (double)mds_rope_size(m) - 1);

    if (low == high)
        high += 0.001;
    return 1 - clamp(((double)i - low) / (high - low));
}

static double llama3_weight(const struct mds_model_config *m, double frequency)
{
    double turns = (double)m->rope_original * frequency / two_pi;

    return clamp((turns - m->rope_beta_slow) /
                 (mds_rope_beta_fast(m) - m->rope_beta_slow));
}

/* From 1 (frequency i is not scaled) to 0 (it is divided by the factor). */
static double unscaled_weight(const struct mds_model_config *m, int64_t i,
                              double frequency)
{
    switch (m->rope_scaling) {
    case MDS_ROPE_LINEAR:
        return 0;
    case MDS_ROPE_YARN:
        return yarn_weight(m, i);
    case MDS_ROPE_LLAMA3:
        return llama3_weight(m, frequency);
    case MDS_ROPE_UNSCALED:
    case MDS_ROPE_NTK:
        break;
    }
    return 1;
}

void mds_rope_frequencies(const struct mds_model_config *m, double *frequency)
{
    int64_t rot = mds_rope_size(m);
    double base = mds_rope_base(m);

    for (int64_t i = 0; i < rot / 2; i++) {
        double f = pow(base, -2 * (double)i / (double)rot),
               w = unscaled_weight(m, i, f);

        frequency[i] = w < 1 ? f * w + f / m->rope_factor * (1 - w) : f;
    }
}

double mds_rope_attention_factor(const struct mds_model_config *m)
{
    if (m->rope_scaling != MDS_ROPE_YARN)
        return 1;
    return m->rope_attention_factor > 0 ? m->rope_attention_factor
                                        : 0.1 * log(m->rope_factor) + 1;
}

/* ---- options ---- */

static int is_given(const struct mds_config_run *run, const char *key)
{
    return mds_settings_of(&run->settings, key)->level > MDS_LEVEL_DEFAULT;
}

/* Warn of numbers that were given without a scaling type.  Those of a checkpoint cause
 * no warning: a run may turn the checkpoint's scaling off. */
static void warn_about_unused_numbers(const struct mds_config_run *run,
                                      struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    const struct {
        const char *key;
        int has_value;
    } numbers[] = {{"model.rope_scaling_factor", m->rope_factor > 1},
                   {"model.rope_original", m->rope_original > 0},
                   {"model.rope_beta_fast", m->rope_beta_fast > 0},
                   {"model.rope_attention_factor", m->rope_attention_factor > 0}};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].has_value &&
            mds_settings_of(&run->settings, numbers[i].key)->level >
                MDS_LEVEL_CHECKPOINT)
            mds_diag_warn(diag, mds_config_origin(run, numbers[i].key),
                          "%s has no effect without --rope-scaling-type",
                          mds_settings_flag(&run->settings, numbers[i].key));
}

void mds_config_check_rope(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    const char *origin = mds_config_origin(run, "model.rope_scaling_type");
    const char *kind = mds_rope_scaling_names[m->rope_scaling];
    int by_turns =
        m->rope_scaling == MDS_ROPE_YARN || m->rope_scaling == MDS_ROPE_LLAMA3;

    if (m->rope_scaling == MDS_ROPE_UNSCALED) {
        warn_about_unused_numbers(run, diag);
        return;
    }
    if (m->position != MDS_POSITION_ROPE)
        mds_diag_fault(diag, origin,
                       "--rope-scaling-type %s is for rotary positions; give "
                       "--position-embedding-type rope, or leave it out",
                       kind);
    if (!is_given(run, "model.rope_scaling_factor"))
        mds_diag_fault(diag, origin,
                       "--rope-scaling-type %s needs --rope-scaling-factor: the "
                       "sequence length divided by that of the first training",
                       kind);
    if (by_turns && m->rope_original == 0)
        mds_diag_fault(
            diag, origin,
            "--rope-scaling-type %s needs "
            "--original-max-position-embeddings: the sequence length of the first "
            "training",
            kind);
    if (by_turns && mds_rope_beta_fast(m) <= m->rope_beta_slow)
        mds_diag_fault(diag, mds_config_origin(run, "model.rope_beta_slow"),
                       "--rope-beta-slow %g is not below --rope-beta-fast %g",
                       m->rope_beta_slow, mds_rope_beta_fast(m));
    if (m->rope_scaling == MDS_ROPE_YARN && m->rotary_base <= 1)
        mds_diag_fault(
            diag, mds_config_origin(run, "model.rotary_base"),
            "--rotary-base %g: --rope-scaling-type yarn needs a base above 1",
            m->rotary_base);
    if (m->rope_scaling == MDS_ROPE_NTK && mds_rope_size(m) < 4)
        mds_diag_fault(
            diag, origin,
            "--rope-scaling-type ntk needs at least 4 rotating elements per head; give "
            "a larger --rotary-percent or --kv-channels");
}
