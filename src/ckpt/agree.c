#include "ckpt/agree.h"

#include <stdio.h>

struct verdict {
    enum mds_rc rc;
    char text[2048];
};

int mds_ckpt_is_of_files(enum mds_rc rc)
{
    return rc == MDS_EIO || rc == MDS_EUSER;
}

enum mds_rc mds_ckpt_agree(struct mds_comm *world, enum mds_rc rc)
{
    int ranks = mds_comm_size(world), first;
    double failed = rc ? ranks - mds_comm_rank(world) : 0;
    struct verdict v = {.rc = rc};

    if (rc && !mds_ckpt_is_of_files(rc))
        return rc;
    MDS_TRY(mds_comm_all_reduce_f64(world, &failed, 1, MDS_COMM_MAX));
    if (failed <= 0)
        return MDS_OK;
    first = ranks - (int)failed;
    if (first == mds_comm_rank(world))
        snprintf(v.text, sizeof v.text, "%s", mds_fail_text());
    MDS_TRY(mds_comm_broadcast(world, &v, sizeof v, first));
    return first == 0 ? mds_fail(v.rc, "%s", v.text)
                      : mds_fail(v.rc, "%s (on rank %d)", v.text, first);
}
