/* What every front shares.  For tensor/ alone. */
#ifndef MDS_TENSOR_FRONT_H
#define MDS_TENSOR_FRONT_H

#include "tensor/op.h"

/* MDS_EBUG with the operation's name and the condition that does not hold. */
enum mds_rc mds_front_broken(const char *op, const char *condition);

/* MDS_OK if weights and activations may be of type t: f32, bf16 and f16 where the
 * device's kernels know it, or where there are none.  MDS_EBUG: no such type may be;
 * MDS_ENOSUP: not here. */
enum mds_rc mds_front_dtype(struct mds_dev *dev, const char *op, enum mdsk_dtype t);

/* The operation is queued: its kernel's return value (0 or -errno) as a status. */
enum mds_rc mds_front_launched(struct mds_dev *dev, const char *op, int err);

#endif
