/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on a device, mds_op_name for each of kernels/operations.h: check the
 * contract, charge the ledger, launch if the device has kernels.  The argument structs
 * are documented in kernels/.  MDS_EBUG: the contract is broken; MDS_ENOSUP: the
 * backend does not support the type. */
#ifndef MDS_TENSOR_OP_H
#define MDS_TENSOR_OP_H

#include "base/status.h"
#include "device/device.h"
#include "kernels/table.h"

#define MDS_DECLARE(NAME, name)                                                        \
    enum mds_rc mds_op_##name(struct mds_dev *dev, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDS_DECLARE)
#undef MDS_DECLARE

#endif
