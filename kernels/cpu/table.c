#include "kernels/table.h"

static const struct mdsk_table table = {
    .name = "cpu",
    .dtypes = 1u << MDSK_F32 | 1u << MDSK_BF16 | 1u << MDSK_F16,
    .linear_fwd = mdsk_linear_fwd_cpu,
    .linear_bwd_input = mdsk_linear_bwd_input_cpu,
    .linear_bwd_weight = mdsk_linear_bwd_weight_cpu,
    .norm_fwd = mdsk_norm_fwd_cpu,
    .norm_bwd = mdsk_norm_bwd_cpu,
    .attention_fwd = mdsk_attention_fwd_cpu,
    .attention_bwd = mdsk_attention_bwd_cpu,
    .attention_merge = mdsk_attention_merge_cpu,
    .rope = mdsk_rope_cpu,
    .activation_fwd = mdsk_activation_fwd_cpu,
    .activation_bwd = mdsk_activation_bwd_cpu,
    .embedding_fwd = mdsk_embedding_fwd_cpu,
    .embedding_bwd = mdsk_embedding_bwd_cpu,
    .xent_stats = mdsk_xent_stats_cpu,
    .xent_loss = mdsk_xent_loss_cpu,
    .xent_bwd = mdsk_xent_bwd_cpu,
    .dropout = mdsk_dropout_cpu,
    .copy_rows = mdsk_copy_rows_cpu,
    .cast = mdsk_cast_cpu,
    .add = mdsk_add_cpu,
    .sum_squares = mdsk_sum_squares_cpu,
    .adamw = mdsk_adamw_cpu,
};

const struct mdsk_table *mdsk_cpu(void)
{
    return &table;
}
