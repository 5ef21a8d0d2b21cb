#include "train/pretrain.h"
#include "base/log.h"
#include "comm/comm.h"
#include "data/dataset.h"
#include "train/alike.h"
#include "train/train.h"

#include <stdlib.h>

static enum mds_rc train_on(struct mds_train_spec *spec, struct mds_config_run *run,
                            int *unfinished)
{
    char *configuration = NULL;
    enum mds_rc rc;

    MDS_TRY(mds_config_set_vocab(run, mds_dataset_vocab(spec->data)));
    MDS_TRY(mds_alike_check(spec->world, run, spec->data, spec->version));
    if (spec->world->rank == 0) {
        mds_info("data: %s", mds_dataset_describe(spec->data));
        configuration = mds_settings_text(&run->settings);
        if (!configuration)
            return MDS_EMEM;
    }
    spec->configuration = configuration ? configuration : "";
    rc = mds_train(spec, unfinished);
    free(configuration);
    return rc;
}

enum mds_rc mds_pretrain(const struct mds_world *w, struct mds_config_run *run,
                         struct mds_diag *diag, const char *version, int *unfinished)
{
    const struct mds_config *c = &run->config;
    struct mds_train_spec spec = {.config = c, .world = w, .version = version};
    enum mds_rc rc;

    MDS_TRY(mds_config_resolve(run, w->ranks, diag));
    if (w->rank == 0) /* the same on every rank */
        mds_diag_log(diag);
    mds_comm_set_timeout_s(c->parallel.timeout_s);
    mds_comm_set_check(c->train.comm_check);
    MDS_TRY(mds_dataset_open(&c->data, c->model.seq_length, (uint64_t)c->train.seed,
                             &spec.data));
    rc = train_on(&spec, run, unfinished);
    mds_dataset_close(spec.data);
    return rc;
}
