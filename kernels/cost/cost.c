/* SPDX-License-Identifier: BSD-3-Clause */
/* What each operation must do at least, from its shapes.
 *
 * flops: two for each multiply-add of matrix products, as is usual.  Sums, exponentials
 * and the like count 0: their cost is bytes.  bytes: every input read once and every
 * output written once; tensors that are added to count twice. */
#include "kernels/unfused/attention.h"
#include "kernels/table.h"

static double dtype_bytes(enum mdsk_dtype t)
{
    return (double)mdsk_dtype_size(t);
}

static double gemm_flops(int64_t m, int64_t n, int64_t k)
{
    return 2 * (double)m * (double)n * (double)k;
}

static struct mdsk_cost bytes_only(double bytes)
{
    return (struct mdsk_cost){.bytes = bytes};
}

struct mdsk_cost mdsk_linear_fwd_cost(const struct mdsk_linear_fwd *a)
{
    double R = (double)a->R, in = (double)a->in, out = (double)a->out;
    double elements =
        R * in + in * out + (a->gelu ? 2 : 1) * R * out + (a->b ? out : 0);

    return (struct mdsk_cost){gemm_flops(a->R, a->in, a->out),
                              elements * dtype_bytes(a->dtype)};
}

struct mdsk_cost mdsk_linear_bwd_input_cost(const struct mdsk_linear_bwd_input *a)
{
    double R = (double)a->R, in = (double)a->in, out = (double)a->out;
    double elements = (a->u ? 2 : 1) * R * in + in * out + R * out;

    return (struct mdsk_cost){gemm_flops(a->R, a->in, a->out),
                              elements * dtype_bytes(a->dtype)};
}

struct mdsk_cost mdsk_linear_bwd_weight_cost(const struct mdsk_linear_bwd_weight *a)
{
    double R = (double)a->R, in = (double)a->in, out = (double)a->out;
    double sums =
        ((a->write ? 1 : 2) * in * out + (a->db ? 2 * out : 0)) * sizeof(float);

    return (struct mdsk_cost){gemm_flops(a->R, a->in, a->out),
                              (R * in + R * out) * dtype_bytes(a->dtype) + sums};
}

/* x is read for its largest magnitude unless that is known, and for the codes. */
struct mdsk_cost mdsk_fp8_cast_cost(const struct mdsk_fp8_cast *a)
{
    double R = (double)a->R, C = (double)a->C;
    double codes = (a->rows ? R * (double)mdsk_fp8_ld(a->C) : 0) +
                   (a->cols ? C * (double)mdsk_fp8_ld(a->R) : 0);
    int reads = a->amax_known ? 1 : 2;

    return bytes_only(reads * (double)mdsk_fp8_cast_inputs(a) * dtype_bytes(a->dtype) +
                      codes + (a->sum ? 2 * C + 1 : 1) * sizeof(float) +
                      (a->amax ? sizeof *a->amax : 0));
}

struct mdsk_cost mdsk_fp8_gemm_cost(const struct mdsk_fp8_gemm *a)
{
    double M = (double)a->M, N = (double)a->N, ld = (double)mdsk_fp8_ld(a->K);
    double written = (a->add ? 2 : 1) * M * N + (a->bias ? N : 0);

    return (struct mdsk_cost){gemm_flops(a->M, a->N, a->K),
                              (M + N) * ld + written * dtype_bytes(a->dtype) +
                                  2 * sizeof(float)};
}

struct mdsk_cost mdsk_norm_fwd_cost(const struct mdsk_norm_fwd *a)
{
    double R = (double)a->R, H = (double)a->H, size = dtype_bytes(a->dtype);
    double rows = ((a->r ? 3 : 1) + (a->y ? 1 : 0)) * R * H;
    double weights = (a->beta ? 2 : 1) * H;
    double stats = ((a->kind == MDSK_LAYERNORM ? 2 : 1) + (a->part.step ? 1 : 0)) * R *
                   sizeof(float);

    return bytes_only((rows + weights) * size + stats +
                      (a->amax ? sizeof *a->amax : 0));
}

struct mdsk_cost mdsk_norm_bwd_cost(const struct mdsk_norm_bwd *a)
{
    double R = (double)a->R, H = (double)a->H, size = dtype_bytes(a->dtype);
    double stats = ((a->kind == MDSK_LAYERNORM ? 2 : 1) + (a->part.step ? 2 : 0)) * R *
                   sizeof(float);
    double sums = 2 * (a->dbeta ? 2 : 1) * H * sizeof(float);

    if (a->part.step == MDSK_NORM_SUMS)
        return bytes_only((2 * R * H + H) * size + stats);
    return bytes_only(((a->d ? 4 : 3) * R * H + H) * size + stats + sums);
}

static double visible_scores(const struct mdsk_attention_shape *s)
{
    return (double)s->B * (double)s->A * mdsk_attention_pairs(s);
}

/* Bytes of `q` tensors of the queries' shape and `kv` of the keys', and of `stats` f32
 * numbers per query. */
static double heads_bytes(const struct mdsk_attention_shape *s, int q, int kv,
                          int stats)
{
    double B = (double)s->B, D = (double)s->D;
    double queries = B * (double)s->Sq * (double)s->A;
    double keys = B * (double)s->Sk * (double)s->G;

    return (q * queries + kv * keys) * D * dtype_bytes(s->dtype) +
           stats * queries * (double)sizeof(float);
}

/* Bytes that unfused attention moves for each visible pair: so many f32 numbers, and so
 * many of the type, written or read. */
static double unfused_bytes(const struct mdsk_attention_shape *s, int wide, int narrow)
{
    if (!s->unfused)
        return 0;
    return visible_scores(s) *
           (wide * (double)sizeof(float) + narrow * dtype_bytes(s->dtype));
}

/* Two products: q k^T and p v.  Unfused: scores are read for their maximum, for their
 * sum and for p. */
struct mdsk_cost mdsk_attention_fwd_cost(const struct mdsk_attention_fwd *a)
{
    return (struct mdsk_cost){4 * visible_scores(&a->shape) * (double)a->shape.D,
                              heads_bytes(&a->shape, 2, 2, 1) +
                                  unfused_bytes(&a->shape, 4, 2)};
}

/* Five products: q k^T again, d_o v^T, and one each for dq, dk, dv. delta is written
 * and read.  Unfused: two make scores, which become p, read once, and ds, read twice.
 */
struct mdsk_cost mdsk_attention_bwd_cost(const struct mdsk_attention_bwd *a)
{
    return (struct mdsk_cost){10 * visible_scores(&a->shape) * (double)a->shape.D,
                              heads_bytes(&a->shape, 4, 4, 3) +
                                  unfused_bytes(&a->shape, 4, 5)};
}

/* The token's own key and value are read and appended. */
struct mdsk_cost mdsk_attention_cached_cost(const struct mdsk_attention_cached *a)
{
    double appended = 2 * (double)a->shape.B * (double)a->shape.G * (double)a->shape.D;

    return (struct mdsk_cost){4 * visible_scores(&a->shape) * (double)a->shape.D,
                              heads_bytes(&a->shape, 2, 2, 0) +
                                  appended * dtype_bytes(a->shape.dtype)};
}

/* acc and lse are read and written. */
struct mdsk_cost mdsk_attention_merge_cost(const struct mdsk_attention_merge *a)
{
    double rows = (double)a->B * (double)a->A * (double)a->Sq, D = (double)a->D;

    return bytes_only(
        rows * (D * (2 * sizeof(float) + dtype_bytes(a->dtype)) + 3 * sizeof(float)));
}

struct mdsk_cost mdsk_attention_most_cost(const struct mdsk_attention_most *a)
{
    return bytes_only((double)a->B * (double)a->A * (double)a->Sq * sizeof(float));
}

struct mdsk_cost mdsk_rope_cost(const struct mdsk_rope *a)
{
    double heads = (double)a->B * (double)a->S * (double)a->A;

    return bytes_only(2 * heads * (double)a->rot * dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_activation_fwd_cost(const struct mdsk_activation_fwd *a)
{
    double x = (double)mdsk_activation_inputs(a->kind, a->R, a->F);

    return bytes_only((x + (double)a->R * (double)a->F) * dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_activation_bwd_cost(const struct mdsk_activation_bwd *a)
{
    double x = (double)mdsk_activation_inputs(a->kind, a->R, a->F);

    return bytes_only((2 * x + (double)a->R * (double)a->F) * dtype_bytes(a->dtype) +
                      (a->amax ? sizeof *a->amax : 0));
}

struct mdsk_cost mdsk_next_token_cost(const struct mdsk_next_token *a)
{
    return bytes_only((double)a->B * (double)a->V * dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_embedding_fwd_cost(const struct mdsk_embedding_fwd *a)
{
    double rows = (double)a->B * (double)a->S, H = (double)a->H;
    double read = rows * H + (a->position ? (double)a->S * H : 0);

    return bytes_only((read + rows * H) * dtype_bytes(a->dtype) +
                      rows * sizeof(int32_t));
}

/* Each row is added to its word's row; a position's row is read and written once for
 * all sequences. */
struct mdsk_cost mdsk_embedding_bwd_cost(const struct mdsk_embedding_bwd *a)
{
    double rows = (double)a->B * (double)a->S, H = (double)a->H;
    double sums = 2 * (rows * H + (a->dposition ? (double)a->S * H : 0));

    return bytes_only(rows * H * dtype_bytes(a->dtype) + sums * sizeof(float) +
                      rows * sizeof(int32_t));
}

/* Of each row: the number of its kind. */
static double kind_bytes(const struct mdsk_kinds *k)
{
    return k->of ? sizeof *k->of : 0;
}

struct mdsk_cost mdsk_xent_stats_cost(const struct mdsk_xent_stats *a)
{
    double R = (double)a->R, written = a->gradient ? (double)a->words : 0;

    return bytes_only(R * ((double)a->valid + written) * dtype_bytes(a->dtype) +
                      R * (sizeof(int32_t) + 3 * sizeof(float) +
                           (a->gradient ? kind_bytes(&a->kinds) : 0)));
}

struct mdsk_cost mdsk_xent_loss_cost(const struct mdsk_xent_loss *a)
{
    double row = sizeof(int32_t) + (3 * (double)a->parts + 1) * sizeof(float) +
                 (a->loss ? sizeof *a->loss : 0) + kind_bytes(&a->kinds);
    double sums = a->kinds.n > 1 ? a->kinds.n : 1;

    return bytes_only((double)a->R * row + 4 * sums * sizeof(double));
}

struct mdsk_cost mdsk_xent_bwd_cost(const struct mdsk_xent_bwd *a)
{
    double R = (double)a->R;

    return bytes_only(R * (double)(a->valid + a->words) * dtype_bytes(a->dtype) +
                      R * (sizeof(int32_t) + sizeof(float) + kind_bytes(&a->kinds)));
}

struct mdsk_cost mdsk_dropout_cost(const struct mdsk_dropout *a)
{
    double n = (double)a->rows.B * (double)a->rows.S * (double)a->H;

    return bytes_only(2 * n * dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_copy_rows_cost(const struct mdsk_copy_rows *a)
{
    return bytes_only(2 * (double)a->R * (double)a->C * dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_cast_cost(const struct mdsk_cast *a)
{
    return bytes_only((double)a->n *
                      ((a->x ? dtype_bytes(a->from) : 0) + dtype_bytes(a->to)));
}

struct mdsk_cost mdsk_add_cost(const struct mdsk_add *a)
{
    return bytes_only(3 * (double)a->n * dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_sum_squares_cost(const struct mdsk_sum_squares *a)
{
    return bytes_only((double)a->n * sizeof(float) + 2 * sizeof(double));
}

/* Reads the gradient, reads and writes the weight and two moments. */
struct mdsk_cost mdsk_adamw_cost(const struct mdsk_adamw *a)
{
    return bytes_only((double)a->n *
                      (7 * sizeof(float) + (a->weight ? dtype_bytes(a->dtype) : 0)));
}

struct mdsk_cost mdsk_muon_momentum_cost(const struct mdsk_muon_momentum *a)
{
    return bytes_only((double)a->n * 4 * sizeof(float));
}

struct mdsk_cost mdsk_axpby_cost(const struct mdsk_axpby *a)
{
    return bytes_only((double)a->n * ((a->x ? dtype_bytes(a->from) : 0) +
                                      (a->b != 0 ? 2 : 1) * dtype_bytes(a->to)));
}

struct mdsk_cost mdsk_muon_product_cost(const struct mdsk_muon_product *a)
{
    double m = (double)a->m, n = (double)a->n, k = (double)a->k;
    double elements = m * k + k * n + (a->z ? 2 : 1) * m * n;

    return (struct mdsk_cost){(double)a->batch * gemm_flops(a->m, a->n, a->k),
                              (double)a->batch * elements * dtype_bytes(a->dtype)};
}

struct mdsk_cost mdsk_muon_step_cost(const struct mdsk_muon_step *a)
{
    return bytes_only((double)a->n * (2 * sizeof(float) + dtype_bytes(a->o_dtype) +
                                      (a->weight ? dtype_bytes(a->dtype) : 0)));
}

/* ---- experts (experts.h) ---- */

static double route_numbers(int64_t R, int64_t E, int64_t k)
{
    return (double)R * (double)(E + 1 + 2 * k) * sizeof(float);
}

struct mdsk_cost mdsk_route_cost(const struct mdsk_route *a)
{
    double elements = ((double)a->R + (double)a->E) * (double)a->H;
    double more = a->unbiased ? (double)a->R * (double)a->k * sizeof(int32_t) : 0;

    if (a->bias)
        more += (double)a->E * sizeof(float);
    return (struct mdsk_cost){gemm_flops(a->R, a->E, a->H),
                              elements * dtype_bytes(a->dtype) +
                                  route_numbers(a->R, a->E, a->k) + more};
}

struct mdsk_cost mdsk_route_sort_cost(const struct mdsk_route_sort *a)
{
    return bytes_only((3 * (double)a->R * (double)a->k + (double)a->E + 1) *
                      sizeof(int32_t));
}

struct mdsk_cost mdsk_route_load_cost(const struct mdsk_route_load *a)
{
    return bytes_only(((double)a->R * (double)a->k + (double)a->groups * (double)a->E) *
                      sizeof(float));
}

struct mdsk_cost mdsk_route_losses_cost(const struct mdsk_route_losses *a)
{
    double scores = (double)a->R * (double)(a->E + 1);

    return bytes_only((scores + (double)a->groups * (double)a->E) * sizeof(float));
}

struct mdsk_cost mdsk_route_bwd_cost(const struct mdsk_route_bwd *a)
{
    double rows = (double)a->R * (double)a->H, w = (double)a->E * (double)a->H;
    double load = a->load ? (double)a->groups * (double)a->E : 0;

    return (struct mdsk_cost){
        2 * gemm_flops(a->R, a->E, a->H),
        (3 * rows + w) * dtype_bytes(a->dtype) +
            (2 * w + load + (double)a->R * (double)(a->E + a->k)) * sizeof(float) +
            route_numbers(a->R, a->E, a->k)};
}

/* Rows and their copies, and one number of each copy. */
static struct mdsk_cost copies_cost(int64_t R, int64_t k, int64_t H, enum mdsk_dtype t)
{
    double rows = (double)R, copies = (double)R * (double)k;

    return bytes_only((rows + copies) * (double)H * dtype_bytes(t) +
                      copies * sizeof(int32_t));
}

struct mdsk_cost mdsk_dispatch_cost(const struct mdsk_dispatch *a)
{
    return copies_cost(a->R, a->k, a->H, a->dtype);
}

struct mdsk_cost mdsk_combine_cost(const struct mdsk_combine *a)
{
    return copies_cost(a->R, a->k, a->H, a->dtype);
}

struct mdsk_cost mdsk_weigh_cost(const struct mdsk_weigh *a)
{
    double copies = (double)a->R * (double)a->k;

    double columns = (double)(mdsk_activation_inputs(a->kind, 1, a->F) + a->F);

    return bytes_only(copies * (columns * dtype_bytes(a->dtype) + 2 * sizeof(float)));
}

struct mdsk_cost mdsk_weigh_bwd_cost(const struct mdsk_weigh_bwd *a)
{
    double copies = (double)a->R * (double)a->k;

    double columns = (double)(2 * mdsk_activation_inputs(a->kind, 1, a->F) + a->F);

    return bytes_only(copies * (columns * dtype_bytes(a->dtype) + 3 * sizeof(float)));
}

/* Weights of all experts count, also of those that no row goes to. */
static struct mdsk_cost experts_cost(int64_t rows, int64_t E, int64_t in, int64_t out,
                                     enum mdsk_dtype t, double weight_bytes)
{
    double elements = (double)rows * (double)(in + out);

    return (struct mdsk_cost){gemm_flops(rows, in, out),
                              elements * dtype_bytes(t) +
                                  (double)E * (double)in * (double)out * weight_bytes};
}

struct mdsk_cost mdsk_experts_fwd_cost(const struct mdsk_experts_fwd *a)
{
    return experts_cost(a->rows, a->E, a->in, a->out, a->dtype, dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_experts_bwd_input_cost(const struct mdsk_experts_bwd_input *a)
{
    return experts_cost(a->rows, a->E, a->in, a->out, a->dtype, dtype_bytes(a->dtype));
}

struct mdsk_cost mdsk_experts_bwd_weight_cost(const struct mdsk_experts_bwd_weight *a)
{
    return experts_cost(a->rows, a->E, a->in, a->out, a->dtype,
                        (a->write ? 1 : 2) * sizeof(float));
}
