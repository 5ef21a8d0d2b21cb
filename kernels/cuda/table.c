#include "kernels/cuda/cuda.h"

static const struct mdsk_table table = {
    .name = "cuda",
    .dtypes = 1u << MDSK_F32 | 1u << MDSK_BF16 | 1u << MDSK_F16,
    .linear_fwd = mdsk_linear_fwd_cuda,
    .linear_bwd_input = mdsk_linear_bwd_input_cuda,
    .linear_bwd_weight = mdsk_linear_bwd_weight_cuda,
    .norm_fwd = mdsk_norm_fwd_cuda,
    .norm_bwd = mdsk_norm_bwd_cuda,
    .attention_fwd = mdsk_attention_fwd_cuda,
    .attention_bwd = mdsk_attention_bwd_cuda,
    .attention_merge = mdsk_attention_merge_cuda,
    .rope = mdsk_rope_cuda,
    .activation_fwd = mdsk_activation_fwd_cuda,
    .activation_bwd = mdsk_activation_bwd_cuda,
    .embedding_fwd = mdsk_embedding_fwd_cuda,
    .embedding_bwd = mdsk_embedding_bwd_cuda,
    .xent_stats = mdsk_xent_stats_cuda,
    .xent_loss = mdsk_xent_loss_cuda,
    .xent_bwd = mdsk_xent_bwd_cuda,
    .dropout = mdsk_dropout_cuda,
    .copy_rows = mdsk_copy_rows_cuda,
    .cast = mdsk_cast_cuda,
    .add = mdsk_add_cuda,
    .sum_squares = mdsk_sum_squares_cuda,
    .adamw = mdsk_adamw_cuda,
};

const struct mdsk_table *mdsk_cuda(void)
{
    return &table;
}
