/* SPDX-License-Identifier: BSD-3-Clause */
/* What rank 0 tells other programs of the run (--events, docs/events.md). */
#include "base/events.h"
#include "base/log.h"
#include "base/scheduler.h"
#include "base/str.h"
#include "config/options.h"
#include "train/run.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const char *const split_names[] = {"training", "validation", "test"};

static void begin(struct mds_event *e, const char *name, int64_t iteration)
{
    mds_event_begin(e, name);
    mds_event_add_int(e, "iteration", iteration);
}

/* An event that is lost does not end a run. */
static void end(const struct run *r, struct mds_event *e)
{
    static int warned;

    if (mds_event_end(e) && !warned++)
        mds_warn("--events %s: cannot be written: %s; the run continues",
                 r->config->output.events, strerror(errno));
}

/* ---- the start ---- */

/* "n1,n2", each once; of very many the first ones.  Returns how many there are. */
static int list_hosts(const struct run *r, struct mds_str *out)
{
    const size_t most = 2048;
    int nodes = 0, ranks = r->spec->world->ranks;

    for (int i = 0; i < ranks; i++) {
        const char *host = r->spec->hosts[i];
        int k = i; /* ranks of a node follow each other, as a rule */

        while (k > 0 && strcmp(r->spec->hosts[k - 1], host) != 0)
            k--;
        if (k > 0)
            continue;
        if (out->len < most)
            mds_str_add(out, "%s%s", nodes ? "," : "", host);
        nodes++;
    }
    return nodes;
}

static void add_layout(const struct run *r, struct mds_event *e)
{
    struct mds_str layout = {0}, hosts = {0};
    int nodes = list_hosts(r, &hosts);

    mds_axes_format(mds_axes, r->config->parallel.size, &layout);
    mds_event_add_text(e, "layout", layout.s);
    mds_event_add_int(e, "ranks", r->spec->world->ranks);
    mds_event_add_int(e, "nodes", nodes);
    mds_event_add_text(e, "hosts", hosts.s);
    mds_str_fini(&layout);
    mds_str_fini(&hosts);
}

static void add_settings(const struct run *r, struct mds_event *e)
{
    const struct mds_config *c = r->config;

    mds_event_add_text(e, "version", r->spec->version);
    mds_event_add_text(e, "model", c->model.size_key);
    mds_event_add_int(e, "parameters", mds_model_params(&c->model));
    mds_event_add_int(e, "seq_length", c->model.seq_length);
    mds_event_add_int(e, "global_batch_size", next_step(r).in[MDS_SAMPLES]);
    mds_event_add_text(e, "device", mds_dev_name(r->dev));
    mds_event_add_text(e, "job", mds_scheduler_job());
    mds_event_add_int(e, "last_iteration", r->iteration + steps_left(r));
    mds_event_add_real(e, "leaves_after_s",
                       c->train.exit_duration_s > 0 ? c->train.exit_duration_s : NAN);
    mds_event_add_text(e, "metrics", c->output.metrics_jsonl);
    mds_event_add_text(e, "save", c->checkpoint.save);
    mds_event_add_text(e, "load", r->iteration > 0 ? r->load : NULL);
}

enum mds_rc mds_run_event_started(const struct run *r)
{
    struct mds_event e;

    if (!is_rank0(r) || !r->config->output.events)
        return MDS_OK;
    begin(&e, "started", r->iteration);
    add_layout(r, &e);
    add_settings(r, &e);
    return mds_event_end(&e) ? mds_fail_write(r->config->output.events) : MDS_OK;
}

void mds_run_event_data(const struct run *r)
{
    static const char *const keys[MDS_SPLITS] = {"training_windows",
                                                 "validation_windows", "test_windows"};
    const struct mds_dataset *d = r->spec->data;
    int64_t there = mds_dataset_samples(d, MDS_SPLIT_TRAIN);
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "data", r->iteration);
    for (int s = 0; s < MDS_SPLITS; s++)
        mds_event_add_int(&e, keys[s], mds_dataset_samples(d, (enum mds_split)s));
    mds_event_add_int(&e, "read_windows", all_samples(r));
    mds_event_add_real(&e, "epochs",
                       there > 0 ? (double)all_samples(r) / (double)there : NAN);
    end(r, &e);
}

/* ---- on the way ---- */

void mds_run_event_evaluating(const struct run *r, enum mds_split split,
                              int64_t samples, double expected_s)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "evaluating", r->iteration);
    mds_event_add_text(&e, "split", split_names[split]);
    mds_event_add_int(&e, "windows", samples);
    mds_event_add_real(&e, "expected_s", expected_s);
    end(r, &e);
}

void mds_run_event_evaluated(const struct run *r, enum mds_split split, double loss)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "evaluated", r->iteration);
    mds_event_add_text(&e, "split", split_names[split]);
    mds_event_add_real(&e, "loss", loss);
    mds_event_add_real(&e, "took_s", r->eval_s[split]);
    end(r, &e);
}

void mds_run_event_saved(const struct run *r, int64_t iteration, const char *path,
                         int64_t bytes, double took_s)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "saved", iteration);
    mds_event_add_text(&e, "path", path);
    mds_event_add_int(&e, "bytes", bytes);
    mds_event_add_real(&e, "took_s", took_s);
    end(r, &e);
}

void mds_run_event_spike(const struct run *r, double loss, double limit)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "spike", r->iteration + 1);
    mds_event_add_real(&e, "loss", loss);
    mds_event_add_real(&e, "limit", limit);
    end(r, &e);
}

void mds_run_event_rolled_back(const struct run *r, int64_t from, int64_t to)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "rolled_back", from);
    mds_event_add_int(&e, "to", to);
    end(r, &e);
}

void mds_run_event_batch(const struct run *r, int64_t samples)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "batch", r->iteration + 1);
    mds_event_add_int(&e, "global_batch_size", samples);
    end(r, &e);
}

/* ---- the end ---- */

void mds_run_event_walltime(const struct run *r, const char *reason)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "walltime", r->iteration);
    mds_event_add_text(&e, "reason", reason);
    if (r->signal)
        mds_event_add_int(&e, "signal", r->signal);
    end(r, &e);
}

void mds_run_event_finished(const struct run *r, const char *reason, int status)
{
    struct mds_event e;

    if (!is_rank0(r))
        return;
    begin(&e, "finished", r->iteration);
    mds_event_add_text(&e, "reason", reason);
    mds_event_add_int(&e, "status", status);
    mds_event_add_int(&e, "saved", r->saved);
    mds_event_add_real(&e, "training_loss", r->train_loss);
    mds_event_add_real(&e, "validation_loss", r->valid_loss);
    mds_event_add_real(&e, "test_loss", r->test_loss);
    end(r, &e);
}
