/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps whose loss or gradient is not finite, losses that stand out, and the checkpoint
 * from which all was well. */
#include "base/log.h"
#include "base/str.h"
#include "ckpt/folder.h"
#include "train/run.h"

#include <inttypes.h>
#include <math.h>

static const char advice[] = "the run has diverged; lower --lr, lengthen "
                             "--lr-warmup-iters or set --clip-grad";

static void record(const struct run *r, const struct mds_step_result *s,
                   int64_t iteration, const char *action, int64_t back_to)
{
    struct mds_metrics_nonfinite n = {.iteration = iteration,
                                      .loss = s->loss,
                                      .grad_norm = s->grad_norm,
                                      .action = action,
                                      .back_to = back_to};

    if (speaks(r))
        mds_metrics_nonfinite(r->metrics, &n);
}

/* Where to go on from by hand; for the first rank. */
static void add_last_good(const struct run *r, struct mds_str *text)
{
    const char *dir = r->config->checkpoint.save;
    char path[MDS_PATH_SIZE];
    int64_t good;

    if (!dir || !speaks(r) || mds_run_good(r, &good))
        return;
    if (good < 0)
        mds_str_add(text, "; no checkpoint in %s is known to be good", dir);
    else if (!mds_ckpt_path(dir, good, 0, path))
        mds_str_add(text, "; the last good checkpoint is %s", path);
}

/* why: what was tried before, or "". */
static enum mds_rc stop(const struct run *r, const struct mds_step_result *s,
                        const char *why)
{
    struct mds_str text = {0};
    enum mds_rc rc;

    if (r->config->train.type == MDS_TYPE_F16 && isfinite(s->loss))
        mds_str_add(&text, " at loss scale %g, which cannot be lowered", s->loss_scale);
    mds_str_add(&text, "%s: %s", why, advice);
    add_last_good(r, &text);
    record(r, s, r->iteration + 1, "stop", -1);
    rc = mds_fail(MDS_EUSER, "iteration %" PRId64 ": loss %g, gradient norm %g%s",
                  r->iteration + 1, s->loss, s->grad_norm, text.s ? text.s : "");
    mds_str_fini(&text);
    return rc;
}

static enum mds_rc skip(struct run *r, const struct mds_step_result *s)
{
    if (++r->skipped > r->config->train.nonfinite_limit)
        return stop(r, s, ", after as many skipped steps as --nonfinite-limit allows");
    if (speaks(r))
        mds_warn("iteration %" PRId64
                 ": loss %g, gradient norm %g: the update is skipped",
                 r->iteration + 1, s->loss, s->grad_norm);
    record(r, s, r->iteration + 1, "skip", -1);
    return MDS_OK;
}

/* The batches from the checkpoint's to this one are not used again: one of them may be
 * the cause.  Iterations, and what follows from them, are counted anew. */
static enum mds_rc roll_back(struct run *r, const struct mds_step_result *s)
{
    int64_t from = r->iteration + 1, to;
    int64_t samples = r->samples + r->config->batch.global;

    if (r->returns == r->config->train.nonfinite_limit)
        return stop(r, s, ", after as many returns as --nonfinite-limit allows");
    MDS_TRY(mds_run_go_back(r, &to));
    if (to < 0)
        return stop(r, s, ", and there is nothing to roll back to");
    r->samples = samples;
    r->returns++;
    r->returned_to = to;
    if (speaks(r))
        mds_warn("iteration %" PRId64
                 ": loss %g, gradient norm %g: back to iteration %" PRId64
                 ", on with sample %" PRId64,
                 from, s->loss, s->grad_norm, to, samples);
    record(r, s, from, "rollback", to);
    return MDS_OK;
}

/* Weights that are not finite stay so: this step says that those saved before it were.
 * A mark that cannot be written is no reason to stop. */
static void mark_good(struct run *r)
{
    if (r->saved < 0 || r->saved == r->good || !r->config->checkpoint.save)
        return;
    if (speaks(r) && mds_ckpt_mark_good(r->config->checkpoint.save, r->saved))
        mds_warn("%s", mds_fail_text());
    else
        r->from = r->saved;
    r->good = r->saved;
    if (r->good != r->returned_to)
        r->returns = 0; /* the next one is to another checkpoint */
}

static void watch_loss(struct run *r, double loss)
{
    double sigmas = r->config->train.spike_sigma, mean = r->spikes.mean, limit;

    if (sigmas == 0 || !speaks(r) || !mds_spikes_add(&r->spikes, loss, sigmas, &limit))
        return;
    mds_warn("iteration %" PRId64 ": loss %g stands out: the mean is %.4f, %g "
             "standard deviations above it %.4f",
             r->iteration + 1, loss, mean, sigmas, limit);
    mds_metrics_spike(r->metrics, r->iteration + 1, loss, limit);
}

enum mds_rc mds_run_judge(struct run *r, const struct mds_step_result *s,
                          enum mds_run_verdict *verdict)
{
    enum mds_nonfinite policy = r->config->train.on_nonfinite;

    *verdict = MDS_RUN_TAKE;
    if (s->overflow) /* the loss scale's */
        return MDS_OK;
    if (isfinite(s->loss) && isfinite(s->grad_norm)) {
        r->skipped = 0;
        mark_good(r);
        watch_loss(r, s->loss);
        return MDS_OK;
    }
    if (policy != MDS_NONFINITE_SKIP)
        MDS_TRY(mds_run_settle_save(r)); /* of an iteration before: it may be needed */
    if (policy == MDS_NONFINITE_STOP)
        return stop(r, s, "");
    *verdict = policy == MDS_NONFINITE_SKIP ? MDS_RUN_SKIP : MDS_RUN_BACK;
    return policy == MDS_NONFINITE_SKIP ? skip(r, s) : roll_back(r, s);
}
