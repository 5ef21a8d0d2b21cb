/* SPDX-License-Identifier: BSD-3-Clause */
/* From an operation to a backend's kernel. */
#include "tensor/contract.h"

#include <string.h>

/* The operation is queued: its kernel's return value (0 or -errno) as a status. */
static enum mds_rc finish_launch(struct mds_dev *dev, const char *op, int err)
{
    mds_dev_launched(dev);
    if (err == 0)
        return MDS_OK;
    return mds_fail(MDS_EDEVICE, "%s: %s%s%s", op, strerror(-err),
                    mds_cuda_why()[0] ? ": " : "", mds_cuda_why());
}

#define DISPATCH(NAME, name)                                                           \
    enum mds_rc mds_op_##name(struct mds_dev *dev, const struct mdsk_##name *a)        \
    {                                                                                  \
        const struct mdsk_table *kern = mds_dev_kernels(dev);                          \
                                                                                       \
        MDS_TRY(mds_check_##name(dev, a));                                             \
        mds_dev_charge(dev, MDS_OP_##NAME, mdsk_##name##_cost(a));                     \
        if (!kern)                                                                     \
            return MDS_OK;                                                             \
        return finish_launch(dev, #name, kern->name(mds_dev_stream(dev), a));          \
    }
MDSK_OPERATIONS(DISPATCH)
#undef DISPATCH
