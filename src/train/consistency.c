/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/consistency.h"
#include "base/alloc.h"
#include "base/str.h"
#include "device/device.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum mds_rc mds_broadcast_text(struct mds_comm *start, char **text)
{
    int64_t size = *text ? (int64_t)strlen(*text) + 1 : 0;

    MDS_TRY(mds_comm_broadcast(start, &size, sizeof size, 0));
    if (size == 0)
        return MDS_OK;
    if (mds_comm_rank(start) > 0)
        *text = mds_zalloc((size_t)size, 1);
    return *text ? mds_comm_broadcast(start, *text, size, 0) : MDS_EMEM;
}

/* Options that may differ between nodes or ranks.  train.device is compared after it
 * has been resolved ("auto" may be the same device as "cuda").  The signal handler
 * follows from --save, which is the one to name.  Only rank 0 asks whether it may
 * overwrite, and mpiexec may not hand MDS_OVERWRITE on. */
static const char *const rank_specific[] = {"data.paths",
                                            "data.train_paths",
                                            "data.valid_paths",
                                            "data.test_paths",
                                            "output.log_level",
                                            "output.overwrite",
                                            "train.device",
                                            "train.exit_signal_handler",
                                            "train.threads",
                                            "parallel.nvme_path",
                                            NULL};

void mds_consistency_lines(const struct mds_config_run *run, const char *version,
                           struct mds_str *out)
{
    mds_str_add(out, "the version %s\n", version);
    mds_settings_lines(&run->settings, rank_specific, out);
    mds_str_add(out, "the device %s\n", mds_dev_resolve(run->config.output.device));
}

/* One line "NAME VALUE" for each thing that has to be the same. */
static enum mds_rc describe_settings(const struct mds_config_run *run,
                                     const struct mds_dataset *data,
                                     const char *version, struct mds_str *out)
{
    struct mds_kind_table t = mds_dataset_kinds(data);

    mds_consistency_lines(run, version, out);
    for (int k = 0; k < t.n; k++)
        mds_str_add(out, "tokens of kind %s, which weigh %.17g\n", t.kind[k].name,
                    t.kind[k].weight);
    mds_str_add(out, "the data %" PRId64 " + %" PRId64 " + %" PRId64 " tokens\n",
                mds_dataset_tokens(data, MDS_SPLIT_TRAIN),
                mds_dataset_tokens(data, MDS_SPLIT_VALID),
                mds_dataset_tokens(data, MDS_SPLIT_TEST));
    return out->failed ? MDS_EMEM : MDS_OK;
}

/* MDS_EUSER names the first line that differs from rank 0's. */
static enum mds_rc compare_lines(const char *mine, const char *first)
{
    while (*mine && *first) {
        size_t n = strcspn(mine, "\n"), m = strcspn(first, "\n");

        if (n != m || strncmp(mine, first, n) != 0)
            return mds_fail(MDS_EUSER,
                            "this rank has %.*s, rank 0 has %.*s; all ranks need the "
                            "same options, environment, config files and data",
                            (int)n, mine, (int)m, first);
        mine += n + 1;
        first += m + 1;
    }
    return MDS_OK;
}

static enum mds_rc compare_with_rank0(struct mds_comm *world, const char *mine)
{
    int64_t size = (int64_t)strlen(mine) + 1;
    char *first;
    enum mds_rc rc;

    MDS_TRY(mds_comm_broadcast(world, &size, sizeof size, 0));
    first = mds_zalloc((size_t)size, 1);
    if (!first)
        return MDS_EMEM;
    if (mds_comm_rank(world) == 0)
        memcpy(first, mine, (size_t)size);
    rc = mds_comm_broadcast(world, first, size, 0);
    if (!rc)
        rc = compare_lines(mine, first);
    free(first);
    return rc;
}

enum mds_rc mds_consistency_check(struct mds_comm *world,
                                  const struct mds_config_run *run,
                                  const struct mds_dataset *data, const char *version)
{
    struct mds_str mine = {0};
    enum mds_rc rc = describe_settings(run, data, version, &mine);

    if (!rc)
        rc = compare_with_rank0(world, mine.s);
    mds_str_fini(&mine);
    return rc;
}
