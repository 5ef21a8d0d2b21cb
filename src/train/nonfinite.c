/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps whose loss or gradient is not finite, loss spikes, and which checkpoint is
 * known to be good. */
#include "base/log.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "train/run.h"

#include <inttypes.h>
#include <math.h>

static const char advice[] = "the run has diverged; lower --lr, lengthen "
                             "--lr-warmup-iters or set --clip-grad";

static void record_nonfinite(const struct run *r, const struct mds_step_result *s,
                             int64_t iteration, const char *action, int64_t back_to)
{
    struct mds_metrics_nonfinite n = {.iteration = iteration,
                                      .loss = s->loss,
                                      .grad_norm = s->grad_norm,
                                      .action = action,
                                      .back_to = back_to};

    if (is_rank0(r))
        mds_metrics_nonfinite(r->metrics, &n);
}

/* Tell the user which checkpoint to resume from by hand.  Rank 0 only. */
static void add_last_good(const struct run *r, struct mds_str *text)
{
    const char *dir = r->config->checkpoint.save;
    char path[MDS_PATH_SIZE];
    int64_t good;

    if (!dir || !is_rank0(r) || mds_run_last_good(r, &good))
        return;
    if (good < 0)
        mds_str_add(text, "; no checkpoint in %s is known to be good", dir);
    else if (!mds_ckpt_path(dir, good, 0, path))
        mds_str_add(text, "; the last good checkpoint is %s", path);
}

/* why: what was tried before giving up, or "". */
static enum mds_rc stop_diverged_run(const struct run *r,
                                     const struct mds_step_result *s, const char *why)
{
    struct mds_str text = {0};
    enum mds_rc rc;

    if (r->config->train.type == MDS_TYPE_F16 && isfinite(s->loss))
        mds_str_add(&text, " at loss scale %g, which cannot be lowered", s->loss_scale);
    mds_str_add(&text, "%s: %s", why, advice);
    add_last_good(r, &text);
    record_nonfinite(r, s, r->iteration + 1, "stop", -1);
    rc = mds_fail(MDS_EUSER, "iteration %" PRId64 ": loss %g, gradient norm %g%s",
                  r->iteration + 1, s->loss, s->grad_norm, text.s ? text.s : "");
    mds_str_fini(&text);
    return rc;
}

static enum mds_rc skip_update(struct run *r, const struct mds_step_result *s)
{
    if (++r->skipped > r->config->train.nonfinite_limit)
        return stop_diverged_run(
            r, s, ", after as many skipped steps as --nonfinite-limit allows");
    if (is_rank0(r))
        mds_warn("iteration %" PRId64
                 ": loss %g, gradient norm %g: the update is skipped",
                 r->iteration + 1, s->loss, s->grad_norm);
    record_nonfinite(r, s, r->iteration + 1, "skip", -1);
    return MDS_OK;
}

/* Load the last good checkpoint, but go on with new data: one of the batches since then
 * may be the cause.  Iterations go back, consumed samples and tokens do not, and the
 * learning rate follows the unit of its lengths. */
static enum mds_rc roll_back_run(struct run *r, const struct mds_step_result *s)
{
    int64_t from = r->iteration + 1, to;
    struct mds_extent done = progress_of(r), step = next_step(r);
    struct mds_extent after = mds_extent_after(&done, &step, 1);

    if (r->rollbacks == r->config->train.nonfinite_limit)
        return stop_diverged_run(
            r, s, ", after as many rollbacks as --nonfinite-limit allows");
    MDS_TRY(mds_run_roll_back(r, &to));
    if (to < 0)
        return stop_diverged_run(r, s, ", and there is nothing to roll back to");
    after.in[MDS_STEPS] = r->iteration;
    set_progress(r, &after);
    r->rollbacks++;
    r->rolled_back_to = to;
    if (is_rank0(r))
        mds_warn("iteration %" PRId64
                 ": loss %g, gradient norm %g: rolled back to iteration %" PRId64
                 ", continuing with sample %" PRId64,
                 from, s->loss, s->grad_norm, to, r->samples);
    record_nonfinite(r, s, from, "rollback", to);
    mds_run_event_rolled_back(r, from, to);
    return MDS_OK;
}

/* Weights that are not finite never become finite again, so this finite step proves
 * that the checkpoint saved before it is good.  If the mark cannot be written, only
 * warn. */
static void mark_good(struct run *r)
{
    if (r->saved < 0 || r->saved == r->good || !r->config->checkpoint.save)
        return;
    if (is_rank0(r) && mds_ckpt_mark_good(r->config->checkpoint.save, r->saved))
        mds_warn("%s", mds_fail_text());
    else
        r->from = r->saved;
    r->good = r->saved;
    if (r->good != r->rolled_back_to)
        r->rollbacks = 0; /* the next one is to another checkpoint */
}

static void watch_for_spike(struct run *r, double loss)
{
    double sigmas = r->config->train.spike_sigma, mean = r->spikes.mean, limit;

    if (sigmas == 0 || !is_rank0(r) ||
        !mds_spikes_add(&r->spikes, loss, sigmas, &limit))
        return;
    mds_warn("iteration %" PRId64 ": loss spike: %g, mean %.4f, threshold (%g standard "
             "deviations above it) %.4f",
             r->iteration + 1, loss, mean, sigmas, limit);
    mds_metrics_spike(r->metrics, r->iteration + 1, loss, limit);
    mds_run_event_spike(r, loss, limit);
}

enum mds_rc mds_run_check_step(struct run *r, const struct mds_step_result *s,
                               enum mds_run_decision *decision)
{
    enum mds_nonfinite policy = r->config->train.on_nonfinite;

    *decision = MDS_RUN_APPLY;
    if (s->overflow) /* the loss scale's */
        return MDS_OK;
    if (isfinite(s->loss) && isfinite(s->grad_norm)) {
        r->skipped = 0;
        mark_good(r);
        watch_for_spike(r, s->loss);
        return MDS_OK;
    }
    if (policy != MDS_NONFINITE_SKIP)
        MDS_TRY(
            mds_run_wait_for_save(r)); /* of an iteration before: it may be needed */
    if (policy == MDS_NONFINITE_STOP)
        return stop_diverged_run(r, s, "");
    *decision = policy == MDS_NONFINITE_SKIP ? MDS_RUN_SKIP : MDS_RUN_ROLLED_BACK;
    return policy == MDS_NONFINITE_SKIP ? skip_update(r, s) : roll_back_run(r, s);
}
