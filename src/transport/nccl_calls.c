/* SPDX-License-Identifier: BSD-3-Clause */
/* See nccl_calls.h. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_NCCL

#include "transport/nccl_calls.h"

struct mds_nccl mds_nccl;

enum mds_rc mds_nccl_open(void)
{
    static const char *const names[] = {MDS_NCCL_CALLS(MDSK_LIBRARY_NAME) NULL};

    if (mds_nccl.ncclSend || !mdsk_library_open(MDS_NCCL_FILE, names, &mds_nccl))
        return MDS_OK;
    return mds_fail(
        MDS_EUSER, "NCCL: %s; load its module, or add its directory to LD_LIBRARY_PATH",
        mdsk_library_error_text());
}

#else

typedef int mds_nccl_calls_needs_nccl; /* ISO C forbids an empty source */

#endif
