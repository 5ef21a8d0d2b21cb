/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/pretrain.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "ckpt/configuration.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "data/inspect.h"
#include "monitor/monitor.h"
#include "train/consistency.h"
#include "train/preflight.h"
#include "train/run.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

/* Errors about ranks that hang name their hosts from here on. */
static enum mds_rc share_hosts(const struct mds_world *w, struct mds_comm *start,
                               const char (**out)[MDS_HOST_SIZE])
{
    char(*hosts)[MDS_HOST_SIZE] = mds_zalloc((size_t)w->ranks, sizeof *hosts);

    if (!hosts)
        return MDS_EMEM;
    MDS_TRY(mds_comm_gather_records(start, w->host, MDS_HOST_SIZE, hosts));
    mds_peer_timeout_set_hosts(hosts); /* until the process ends */
    *out = hosts;
    return MDS_OK;
}

/* Vocabulary size.  If the files do not state it, each rank scans its part of them. */
static enum mds_rc find_vocab(struct mds_comm *start, struct mds_dataset *d)
{
    int64_t largest;
    double most;

    MDS_TRY(mds_dataset_largest_id(d, mds_comm_rank(start), mds_comm_size(start),
                                   &largest));
    most = (double)largest;
    MDS_TRY(mds_comm_all_reduce_f64(start, &most, 1, MDS_COMM_MAX));
    return mds_dataset_set_vocab(d, (int64_t)most);
}

static enum mds_rc check_before_training(struct mds_comm *start,
                                         const struct mds_train_spec *spec,
                                         const struct mds_config_run *run)
{
    MDS_TRY(mds_consistency_check(start, run, spec->data, spec->version));
    MDS_TRY(find_vocab(start, spec->data));
    mds_comm_destroy(start); /* not after a failure: others may be waiting in it */
    return MDS_OK;
}

/* Take the model's options from the checkpoint to load, which rank 0 reads. */
static enum mds_rc load_saved_model_options(struct mds_comm *start,
                                            struct mds_config_run *run,
                                            struct mds_diag *diag)
{
    char name[MDS_PATH_SIZE] = "", *text = NULL;
    enum mds_rc rc = MDS_OK;

    if (mds_comm_rank(start) == 0)
        MDS_TRY(mds_ckpt_find_configuration(&run->config, name, &text));
    rc = mds_broadcast_text(start, &text);
    if (!rc && text)
        rc = mds_comm_broadcast(start, name, sizeof name, 0);
    if (!rc && text)
        rc = mds_config_inherit_model(run, text, name, diag);
    free(text);
    return rc;
}

/* --pack-documents auto: rank 0 looks at the data, and tells the others. */
static enum mds_rc let_data_decide_packing(struct mds_comm *start,
                                           struct mds_config_run *run)
{
    int64_t pack = MDS_PACK_OFF;

    if (!mds_config_data_decide_packing(run))
        return MDS_OK;
    if (mds_comm_rank(start) == 0)
        pack = mds_data_choose_packing(&run->config.data);
    MDS_TRY(mds_comm_broadcast(start, &pack, sizeof pack, 0));
    mds_config_set_packing(run, (enum mds_pack)pack);
    return MDS_OK;
}

static enum mds_rc train_with_data(struct mds_comm *start, struct mds_train_spec *spec,
                                   struct mds_config_run *run, int *status)
{
    char *configuration = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_dataset_check(spec->data, &run->config));
    MDS_TRY(check_before_training(start, spec, run));
    mds_comm_set_check(run->config.train.comm_check); /* on all ranks alike */
    MDS_TRY(mds_config_set_vocab(run, mds_dataset_vocab(spec->data)));
    run->config.data.kinds = mds_dataset_kinds(spec->data);
    if (spec->world->rank == 0) {
        MDS_TRY(mds_dataset_log(spec->data, !run->config.train.skip_train));
        configuration = mds_settings_text(&run->settings);
        if (!configuration)
            return MDS_EMEM;
    }
    spec->configuration = configuration ? configuration : "";
    rc = mds_train(spec, status);
    free(configuration);
    return rc;
}

enum mds_rc mds_pretrain(const struct mds_world *w, struct mds_config_run *run,
                         struct mds_diag *diag, const char *version, int *status)
{
    const struct mds_config *c = &run->config;
    struct mds_train_spec spec = {
        .config = c, .world = w, .began_s = mds_clock_s(), .version = version};
    struct mds_comm *start;
    enum mds_rc rc;

    MDS_TRY(mds_comm_create_world(w->ranks, "start", &start));
    MDS_TRY(share_hosts(w, start, &spec.hosts));
    MDS_TRY(load_saved_model_options(start, run, diag));
    MDS_TRY(let_data_decide_packing(start, run));
    MDS_TRY(mds_config_resolve(run, w->ranks, diag));
    if (w->rank == 0) /* the same on every rank */
        mds_diag_log(diag);
    if (c->train.preflight || c->train.preflight_only)
        MDS_TRY(mds_preflight(w, run, start, version));
    if (c->train.preflight_only) {
        mds_comm_destroy(start);
        return MDS_OK;
    }
    MDS_TRY(mds_dataset_open(&c->data, c->model.seq_length, (uint64_t)c->train.seed,
                             &spec.data));
    rc = train_with_data(start, &spec, run, status);
    mds_dataset_close(spec.data);
    return rc;
}
