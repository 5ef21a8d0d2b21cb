/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that operations have in common. */
#include "tensor/contract.h"

enum mds_rc mds_contract_broken(const char *op, const char *condition)
{
    return mds_fail(MDS_EBUG, "%s: the caller must ensure: %s", op, condition);
}

static const char *const names[] = {
    [MDSK_F32] = "f32", [MDSK_BF16] = "bf16", [MDSK_F16] = "f16"};

enum mds_rc mds_contract_dtype(struct mds_dev *dev, const char *op, enum mdsk_dtype t)
{
    const struct mdsk_table *kern = mds_dev_kernels(dev);

    if (t != MDSK_F32 && t != MDSK_BF16 && t != MDSK_F16)
        return mds_contract_broken(op, "dtype f32, bf16 or f16");
    if (!kern || kern->dtypes >> t & 1)
        return MDS_OK;
    return mds_fail(MDS_ENOSUP, "%s: %s does not support %s", op, mds_dev_describe(dev),
                    names[t]);
}
