/* SPDX-License-Identifier: BSD-3-Clause */
/* A group without a transport: what one rank of any grid would send, on one machine. */
#include "comm/internal.h"

#include "base/alloc.h"

#include <stdlib.h>

enum mds_rc mds_comm_create_dry(int rank, int n, const char *tag, struct mds_comm **out)
{
    struct mds_comm *c;
    enum mds_rc rc;

    if (n < 1 || rank < 0 || rank >= n)
        return mds_fail(MDS_EBUG, "%s: rank %d of a group of %d", tag, rank, n);
    c = mds_zalloc(1, sizeof *c);
    if (!c)
        return MDS_EMEM;
    rc = mds_comm_init(c, NULL, rank, n, tag);
    if (rc) {
        free(c);
        return rc;
    }
    c->dry = 1;
    *out = c;
    return MDS_OK;
}
