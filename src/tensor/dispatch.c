/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations on a device, from contract check to kernel.  The macro DISPATCH below
 * defines one function for each row of kernels/operations.h:
 *
 *     mds_op_linear_fwd, mds_op_linear_bwd_input, mds_op_linear_bwd_weight,
 *     mds_op_fp8_cast, mds_op_fp8_gemm, mds_op_norm_fwd, mds_op_norm_bwd,
 *     mds_op_attention_fwd, mds_op_attention_bwd, mds_op_attention_cached,
 *     mds_op_attention_merge,
 *     mds_op_attention_most, mds_op_rope, mds_op_activation_fwd, mds_op_activation_bwd,
 *     mds_op_embedding_fwd, mds_op_embedding_bwd, mds_op_next_token,
 *     mds_op_xent_stats, mds_op_xent_loss, mds_op_xent_bwd, mds_op_dropout,
 *     mds_op_route, mds_op_route_sort,
 *     mds_op_route_load, mds_op_route_losses, mds_op_route_bwd, mds_op_dispatch,
 *     mds_op_combine, mds_op_weigh, mds_op_weigh_bwd, mds_op_experts_fwd,
 *     mds_op_experts_bwd_input,
 *     mds_op_experts_bwd_weight, mds_op_copy_rows, mds_op_cast, mds_op_add,
 *     mds_op_axpby, mds_op_sum_squares, mds_op_adamw, mds_op_muon_momentum,
 *     mds_op_muon_product, mds_op_muon_step */
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

/* Check the contract (mds_check_...: op_dense.c, op_experts.c, op_sparse.c), charge the
 * ledger with the cost (kernels/cost/cost.c), call the kernel of the device's table. */
#define DISPATCH(NAME, name)                                                           \
    enum mds_rc mds_op_##name(struct mds_dev *dev, const struct mdsk_##name *a)        \
    {                                                                                  \
        const struct mdsk_table *kern = mds_dev_kernels(dev);                          \
                                                                                       \
        MDS_TRY(mds_check_##name(dev, a));                                             \
        mds_dev_charge(dev, MDS_OP_##NAME, a, mdsk_##name##_cost(a));                  \
        if (!kern)                                                                     \
            return MDS_OK;                                                             \
        return finish_launch(dev, #name, kern->name(mds_dev_stream(dev), a));          \
    }
MDSK_OPERATIONS(DISPATCH)
#undef DISPATCH
