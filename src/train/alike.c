#include "train/alike.h"
#include "base/alloc.h"
#include "base/str.h"
#include "comm/comm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* These are a node's own, or a rank's. */
static const char *const own[] = {"data.paths",    "output.log_level",   "train.device",
                                  "train.threads", "parallel.nvme_path", NULL};

/* "what value" a line. */
static enum mds_rc describe(const struct mds_config_run *run,
                            const struct mds_dataset *data, const char *version,
                            struct mds_str *out)
{
    mds_str_add(out, "the version %s\n", version);
    mds_settings_lines(&run->settings, own, out);
    mds_str_add(out,
                "the data %" PRId64 " + %" PRId64 " + %" PRId64 " tokens, %" PRId64
                " words\n",
                mds_dataset_tokens(data, MDS_SPLIT_TRAIN),
                mds_dataset_tokens(data, MDS_SPLIT_VALID),
                mds_dataset_tokens(data, MDS_SPLIT_TEST), mds_dataset_vocab(data));
    return out->failed ? MDS_EMEM : MDS_OK;
}

/* The first line in which this rank's text differs from the first rank's. */
static enum mds_rc compare(const char *mine, const char *first)
{
    while (*mine && *first) {
        size_t n = strcspn(mine, "\n"), m = strcspn(first, "\n");

        if (n != m || strncmp(mine, first, n) != 0)
            return mds_fail(MDS_EUSER,
                            "this rank has %.*s, rank 0 has %.*s; all need the same "
                            "options, environment, files of settings and data",
                            (int)n, mine, (int)m, first);
        mine += n + 1;
        first += m + 1;
    }
    return MDS_OK;
}

static enum mds_rc compare_with_first(struct mds_comm *world, const char *mine)
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
        rc = compare(mine, first);
    free(first);
    return rc;
}

static enum mds_rc make_group(const struct mds_world *w, struct mds_comm **out)
{
    int *ranks = mds_zalloc((size_t)w->ranks, sizeof *ranks);
    enum mds_rc rc;

    if (!ranks)
        return MDS_EMEM;
    for (int i = 0; i < w->ranks; i++)
        ranks[i] = i;
    rc = mds_comm_create_mpi(ranks, w->ranks, "start", out);
    free(ranks);
    return rc;
}

enum mds_rc mds_alike_check(const struct mds_world *w, const struct mds_config_run *run,
                            const struct mds_dataset *data, const char *version)
{
    struct mds_comm *world = NULL;
    struct mds_str mine = {0};
    enum mds_rc rc;

    if (w->ranks == 1)
        return MDS_OK;
    rc = describe(run, data, version, &mine);
    if (!rc)
        rc = make_group(w, &world);
    if (!rc)
        rc = compare_with_first(world, mine.s);
    if (!rc) /* else others may be waiting in it */
        mds_comm_destroy(world);
    mds_str_fini(&mine);
    return rc;
}
