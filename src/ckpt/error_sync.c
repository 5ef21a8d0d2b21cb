/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/error_sync.h"
#include "base/host.h"

#include <stdio.h>

struct status {
    enum mds_rc rc;
    char text[2048];
};

int mds_ckpt_is_file_error(enum mds_rc rc)
{
    return rc == MDS_EIO || rc == MDS_EUSER;
}

/* Rank 0 reports the error, so the text names the rank if it is another one. */
static void format_error(struct status *v, int rank)
{
    char host[MDS_HOST_SIZE];

    mds_host_name(host);
    if (rank == 0)
        snprintf(v->text, sizeof v->text, "%s", mds_fail_text());
    else
        snprintf(v->text, sizeof v->text, "%s (on rank %d, %s)", mds_fail_text(), rank,
                 host);
}

enum mds_rc mds_ckpt_sync_error(struct mds_comm *world, enum mds_rc rc)
{
    int ranks = mds_comm_size(world), first;
    double failed = rc ? ranks - mds_comm_rank(world) : 0;
    struct status v = {.rc = rc};

    if (rc && !mds_ckpt_is_file_error(rc))
        return rc;
    MDS_TRY(mds_comm_all_reduce_f64(world, &failed, 1, MDS_COMM_MAX));
    if (failed <= 0)
        return MDS_OK;
    first = ranks - (int)failed;
    if (first == mds_comm_rank(world))
        format_error(&v, first);
    MDS_TRY(mds_comm_broadcast(world, &v, sizeof v, first));
    return mds_fail(v.rc, "%s", v.text);
}
