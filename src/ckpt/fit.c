/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/fit.h"
#include "base/log.h"
#include "ckpt/index.h"
#include "config/options.h"

#include <inttypes.h>
#include <stdlib.h>

static enum mds_rc check_changes(const struct mds_config *c, const char *path,
                                 const struct mds_config_changes *changes)
{
    const char *function = changes->function.s;

    if (function && !c->checkpoint.override_model)
        return mds_fail(MDS_EUSER,
                        "%s: was saved with %s, which changes what the model computes; "
                        "leave these options out to use the checkpoint's values, or "
                        "give --override-model-config",
                        path, function);
    if (function)
        mds_warn("%s: was saved with %s, and --override-model-config is given", path,
                 function);
    if (changes->others.s && !c->train.skip_train)
        mds_info("%s: was saved with %s", path, changes->others.s);
    return MDS_OK;
}

enum mds_rc mds_ckpt_check_options(const char *path, const struct mds_ckpt_run *run,
                                   int *other_model)
{
    struct mds_config_changes changes;
    char *configuration, *provenance;
    enum mds_rc rc;

    *other_model = 0;
    MDS_TRY(mds_ckpt_index_texts(path, &configuration, &provenance));
    rc = mds_config_compare(configuration, path, run->configuration, &changes);
    if (!rc) {
        rc = check_changes(run->config, path, &changes);
        *other_model = rc == MDS_EUSER;
        mds_config_changes_fini(&changes);
    }
    free(configuration);
    free(provenance);
    return rc;
}

enum mds_rc mds_ckpt_check_vocabulary(const char *path, int64_t words,
                                      const struct mds_config *c)
{
    int64_t is = c->model.vocab;
    int how = c->checkpoint.resize_vocab;

    if (is < words)
        return mds_fail(MDS_EUSER,
                        "%s: has a vocabulary of %" PRId64
                        " words, and this run %" PRId64
                        "; a vocabulary does not shrink: leave --vocab-size out",
                        path, words, is);
    if (is > words && how == MDS_RESIZE_OFF)
        return mds_fail(MDS_EUSER,
                        "%s: has a vocabulary of %" PRId64
                        " words, and this run %" PRId64
                        ": was its data made with another tokenizer?  If words were "
                        "added to the same one, give --resize-vocab mean or init",
                        path, words, is);
    if (is > words)
        mds_info("%s: has a vocabulary of %" PRId64 " words: %" PRId64
                 " more begin with %s, in embedding and head",
                 path, words, is - words,
                 how == MDS_RESIZE_MEAN ? "the mean of the others" : "initial values");
    return MDS_OK;
}
