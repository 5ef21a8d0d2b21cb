/* Operation fronts: check the contract, charge the ledger, launch if the device has
 * kernels.  One per operation of kernels/; the argument structs and what they mean are
 * documented there.  MDS_EBUG: the contract is broken; MDS_ENOSUP: this backend does
 * not compute that type. */
#ifndef MDS_TENSOR_OP_H
#define MDS_TENSOR_OP_H

#include "base/status.h"
#include "device/device.h"
#include "kernels/table.h"

enum mds_rc mds_op_linear_fwd(struct mds_dev *dev, const struct mdsk_linear_fwd *a);
enum mds_rc mds_op_linear_bwd_input(struct mds_dev *dev,
                                    const struct mdsk_linear_bwd_input *a);
enum mds_rc mds_op_linear_bwd_weight(struct mds_dev *dev,
                                     const struct mdsk_linear_bwd_weight *a);
enum mds_rc mds_op_norm_fwd(struct mds_dev *dev, const struct mdsk_norm_fwd *a);
enum mds_rc mds_op_norm_bwd(struct mds_dev *dev, const struct mdsk_norm_bwd *a);
enum mds_rc mds_op_attention_fwd(struct mds_dev *dev,
                                 const struct mdsk_attention_fwd *a);
enum mds_rc mds_op_attention_bwd(struct mds_dev *dev,
                                 const struct mdsk_attention_bwd *a);
enum mds_rc mds_op_attention_merge(struct mds_dev *dev,
                                   const struct mdsk_attention_merge *a);
enum mds_rc mds_op_rope(struct mds_dev *dev, const struct mdsk_rope *a);
enum mds_rc mds_op_activation_fwd(struct mds_dev *dev,
                                  const struct mdsk_activation_fwd *a);
enum mds_rc mds_op_activation_bwd(struct mds_dev *dev,
                                  const struct mdsk_activation_bwd *a);
enum mds_rc mds_op_embedding_fwd(struct mds_dev *dev,
                                 const struct mdsk_embedding_fwd *a);
enum mds_rc mds_op_embedding_bwd(struct mds_dev *dev,
                                 const struct mdsk_embedding_bwd *a);
enum mds_rc mds_op_xent_stats(struct mds_dev *dev, const struct mdsk_xent_stats *a);
enum mds_rc mds_op_xent_loss(struct mds_dev *dev, const struct mdsk_xent_loss *a);
enum mds_rc mds_op_xent_bwd(struct mds_dev *dev, const struct mdsk_xent_bwd *a);
enum mds_rc mds_op_dropout(struct mds_dev *dev, const struct mdsk_dropout *a);
enum mds_rc mds_op_copy_rows(struct mds_dev *dev, const struct mdsk_copy_rows *a);
enum mds_rc mds_op_cast(struct mds_dev *dev, const struct mdsk_cast *a);
enum mds_rc mds_op_add(struct mds_dev *dev, const struct mdsk_add *a);
enum mds_rc mds_op_sum_squares(struct mds_dev *dev, const struct mdsk_sum_squares *a);
enum mds_rc mds_op_adamw(struct mds_dev *dev, const struct mdsk_adamw *a);

#endif
