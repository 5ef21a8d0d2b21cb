/* SPDX-License-Identifier: BSD-3-Clause */
/* What the checks of operations share, and their list.  For tensor/ alone. */
#ifndef MDS_TENSOR_CONTRACT_H
#define MDS_TENSOR_CONTRACT_H

#include "tensor/op.h"

/* MDS_EBUG with the operation's name and the condition that does not hold. */
enum mds_rc mds_contract_broken(const char *op, const char *condition);

/* MDS_OK if weights and activations may be of type t: f32, bf16 and f16 where the
 * device's kernels know it, or where there are none.  MDS_EBUG: no such type may be;
 * MDS_ENOSUP: not here. */
enum mds_rc mds_contract_dtype(struct mds_dev *dev, const char *op, enum mdsk_dtype t);

/* mds_check_name, for each operation: MDS_OK if its contract holds.  Where kernels take
 * memory by themselves it is charged here. */
#define MDS_DECLARE(NAME, name)                                                        \
    enum mds_rc mds_check_##name(struct mds_dev *dev, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDS_DECLARE)
#undef MDS_DECLARE

#endif
