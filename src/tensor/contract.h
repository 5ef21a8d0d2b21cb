/* SPDX-License-Identifier: BSD-3-Clause */
/* The contract checks of operations, and helpers for them.  For tensor/ alone. */
#ifndef MDS_TENSOR_CONTRACT_H
#define MDS_TENSOR_CONTRACT_H

#include "tensor/op.h"

/* Fail with MDS_EBUG: the error names the operation and the condition that is false. */
enum mds_rc mds_contract_broken(const char *op, const char *condition);

/* MDS_OK if t can be the type of weights and activations: f32, bf16 or f16, and
 * supported by the device's kernels if it has any.  MDS_EBUG: none of these types;
 * MDS_ENOSUP: the device does not support it. */
enum mds_rc mds_contract_dtype(struct mds_dev *dev, const char *op, enum mdsk_dtype t);

/* mds_check_name, for each operation: MDS_OK if its contract holds.  Also charges the
 * scratch memory that the operation's kernels allocate themselves. */
#define MDS_DECLARE(NAME, name)                                                        \
    enum mds_rc mds_check_##name(struct mds_dev *dev, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDS_DECLARE)
#undef MDS_DECLARE

#endif
