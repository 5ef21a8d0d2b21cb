/* SPDX-License-Identifier: BSD-3-Clause */
/* The modules of a GPT: the parameters of each, its forward and backward.  Private to
 * model/.
 *
 * Shapes: Rs rows of this rank's shard of a tile, R rows in GEMMs, H hidden, A and G
 * heads of queries and of keys on this tensor rank, D their size, F the MLP's inner
 * size on this tensor rank. */
#ifndef MDS_MODEL_MODULES_H
#define MDS_MODEL_MODULES_H

#include "kernels/fp8.h"
#include "kernels/linear.h"
#include "kernels/norm.h"
#include "model/context.h"
#include "model/saved.h"
#include "parallel/attention.h"
#include "parallel/tensor_parallel.h"

/* Registers parameters.  rc keeps the first failure; later calls then do nothing. */
struct registrar {
    struct mds_gpt *g;
    enum mds_rc rc;
    int fp8;           /* of the linear layers that follow */
    int64_t norm_sums; /* of the unit so far */
    unsigned apart;    /* axes along which ranks have parameters of their own */
};

int mds_gpt_add_unit(struct registrar *reg, const char *name);
int mds_gpt_add_param(struct registrar *reg, struct mds_param_spec *spec);
/* muP: a parameter that reads what is as wide as the model, and makes no logits of it,
 * starts smaller and learns slower the wider it is. */
void mds_gpt_set_width(const struct registrar *reg, struct mds_param_spec *spec);
/* matrix: name.weight, used in a GEMM; vector: name.suffix [n].  packed: directly after
 * the previous parameter. */
int mds_gpt_add_matrix(struct registrar *reg, const char *name, int64_t rows,
                       int64_t cols, enum mds_shard shard, double std, int packed,
                       int in_block);
int mds_gpt_add_vector(struct registrar *reg, const char *name, const char *suffix,
                       int64_t n, enum mds_init init, enum mds_shard shard, int packed);

/* ---- norm.c ---- */

/* partial: axes along which ranks have different rows or heads, and so compute partial
 * sums of the gradients.  With sequence parallelism that includes the tensor axis. */
struct norm_ids mds_gpt_add_norm(struct registrar *reg, const char *name, int64_t size,
                                 unsigned partial);
/* One parameter of `size` elements, whose gradient is summed with the norms' if its
 * spec says that it is partial. */
struct norm_ids mds_gpt_add_summed(struct registrar *reg, struct mds_param_spec *s,
                                   int64_t size);
/* `partial` for norms of the residual stream. */
unsigned mds_gpt_residual_partial(const struct mds_gpt *g);

/* y = norm(x + r); with r, sum = x + r.  All [R,size]; mean, rstd [R]; y, amax [1] as
 * in kernels/norm.h. */
enum mds_rc mds_gpt_norm_fwd(const struct context *c, const struct norm_ids *id,
                             int64_t R, const void *x, const void *r, void *sum,
                             void *y, float *mean, float *rstd, uint32_t *amax);
/* dx = d + the gradient of x, from that of y; d may be dx, or NULL for 0. */
enum mds_rc mds_gpt_norm_bwd(const struct context *c, const struct norm_ids *id,
                             int64_t R, const void *x, const float *mean,
                             const float *rstd, const void *dy, const void *d,
                             void *dx);

/* The same without r and d, of rows of which other ranks may have columns. */
enum mds_rc mds_gpt_norm_part_fwd(const struct context *c, const struct norm_ids *id,
                                  int64_t R, const void *x, void *y, float *mean,
                                  float *rstd, const struct mdsk_norm_part *part);
enum mds_rc mds_gpt_norm_part_bwd(const struct context *c, const struct norm_ids *id,
                                  int64_t R, const void *x, const float *mean,
                                  const float *rstd, const void *dy, void *dx,
                                  const struct mdsk_norm_part *part);

/* Call begin before and end after all mds_gpt_norm_bwd of a block, so that partial
 * gradients of its n norms are summed once. */
void mds_gpt_norm_grads_begin(const struct context *c);
enum mds_rc mds_gpt_norm_grads_end(const struct context *c, int n,
                                   const struct norm_ids *const *id);

/* ---- embedding.c ---- */

/* x *= factor, n elements. */
enum mds_rc mds_gpt_scale(const struct context *c, double factor, int64_t n, void *x);

/* ---- linear.c ---- */

/* n linears of the same input, computed as one GEMM.  Sharded by rows, each tensor rank
 * has part of the outputs and biases; by columns, part of the input. */
struct linears {
    const char *const *name;
    int n;
    int64_t in;
    const int64_t *out;
    enum mds_shard shard;
    double std;
    int bias; /* whether they have biases */
};

struct linear_ids mds_gpt_add_weights(struct registrar *reg, const char *layer,
                                      const struct linears *l);
/* Id of the first bias; -1 if there are none. */
int mds_gpt_add_biases(struct registrar *reg, const char *layer,
                       const struct linears *l);

/* The input x [R, in].  cast: FP8 only: x as codes by rows already, if they are
 * there.  codes, of mds_gpt_fp8_codes_bytes: forward writes there what the weight's
 * gradient is computed from, and backward reads it instead of x.  amax: of x, as the
 * kernel that wrote it has left it there. */
struct linear_input {
    const void *x;
    void *codes;    /* NULL: they are not saved, or it is not FP8 */
    uint32_t *amax; /* NULL: unknown */
    int activated;  /* FP8 only: the input is the MLP's activation of x */
    struct mdsk_fp8_operand cast;
};

/* y = x W^T + b, of R rows.  first_bias: only the first tensor rank adds the bias,
 * because the results are summed over ranks. */
enum mds_rc mds_gpt_linear_fwd(const struct context *c, const struct linear_ids *id,
                               int64_t R, int first_bias, struct linear_input in,
                               void *y);
/* The same with the bias, and gelu = GELU(y); not in FP8. */
enum mds_rc mds_gpt_linear_gelu_fwd(const struct context *c,
                                    const struct linear_ids *id, int64_t R,
                                    struct linear_input in, void *y, void *gelu);

/* A gradient dy [R, out] as the GEMMs of backward read it: in FP8 its codes. */
struct linear_grad {
    const void *dy;
    struct mdsk_fp8_operand rows, cols; /* for dx, for dW */
};

/* In FP8 the bias's gradient is added by the cast if the weight's is in FP8. */
enum mds_rc mds_gpt_linear_bwd_weight(const struct context *c,
                                      const struct linear_ids *id, int64_t R,
                                      struct linear_input in,
                                      const struct linear_grad *dy);
enum mds_rc mds_gpt_linear_bwd_input(const struct context *c,
                                     const struct linear_ids *id, int64_t R,
                                     const struct linear_grad *dy, void *dx);
/* dx = dy W * GELU'(u). */
enum mds_rc mds_gpt_linear_gelu_bwd_input(const struct context *c,
                                          const struct linear_ids *id, int64_t R,
                                          const struct linear_grad *dy, const void *u,
                                          void *dx);

/* ---- fp8.c: the same in FP8 (docs/adr/0026) ---- */

/* Allocate a step's largest magnitudes.  Those of weights are unknown again, since the
 * last step has changed the weights. */
enum mds_rc mds_gpt_fp8_step_begin(const struct context *c, struct fp8_amax *m);
void mds_gpt_fp8_free(struct fp8_amax *m);

/* Where the kernel that writes the input of a linear layer, or the gradient of its
 * output, leaves the largest magnitude; NULL if that layer is not in FP8. */
uint32_t *mds_gpt_fp8_input_amax(const struct context *c, const struct linear_ids *id);
uint32_t *mds_gpt_fp8_grad_amax(const struct context *c, const struct linear_ids *id);

/* Bytes of linear_input.codes: x [R, in] transposed, and its scale. */
int64_t mds_gpt_fp8_codes_bytes(int64_t R, int64_t in);

/* in->cast = the codes of R rows, in working memory. */
enum mds_rc mds_gpt_fp8_cast_input(const struct context *c, const struct linear_ids *id,
                                   int64_t R, struct linear_input *in);
enum mds_rc mds_gpt_fp8_linear_fwd(const struct context *c, const struct linear_ids *id,
                                   const struct mdsk_linear_fwd *a,
                                   const struct linear_input *in);
/* The codes of a gradient in one buffer of so many bytes: by rows, and with for_weight
 * by columns.  at: *dy refers to those in `codes`. */
int64_t mds_gpt_fp8_gradient_bytes(int64_t R, int64_t out, int for_weight);
void mds_gpt_fp8_gradient_at(const struct context *c, int64_t R, int64_t out,
                             int for_weight, void *codes, struct linear_grad *dy);

/* Cast dy->dy [R, out] to dy->rows, and if there are dy->cols to these, too: then db +=
 * its column sums.  amax: of dy, as the kernel that wrote it has left it; NULL:
 * unknown. */
enum mds_rc mds_gpt_fp8_cast_grad(const struct context *c, int64_t R, int64_t out,
                                  uint32_t *amax, float *db,
                                  const struct linear_grad *dy);
enum mds_rc mds_gpt_fp8_linear_bwd_input(const struct context *c,
                                         const struct linear_ids *id,
                                         const struct mdsk_linear_bwd_input *a,
                                         const struct linear_grad *dy);
enum mds_rc mds_gpt_fp8_linear_bwd_weight(const struct context *c,
                                          const struct mdsk_linear_bwd_weight *a,
                                          const struct linear_input *in,
                                          const struct linear_grad *dy);

/* ---- dropout.c ---- */

/* Dropout sites of one block; the embedding's is of block 0. */
enum { SITE_EMBEDDING = 0, SITE_ATTENTION = 1, SITE_OUT = 2, SITE_MLP = 3, SITES = 4 };

struct mdsk_dropout_key mds_gpt_dropout_key(const struct context *c, int layer,
                                            int site, double prob);
/* y = dropout(x) at a site of a block, [Rs,H]; y may be x.  *out = y, or x if dropout
 * is off, without copying. */
enum mds_rc mds_gpt_dropout(const struct context *c, int layer, int site, const void *x,
                            void *y, void **out);

/* ---- head_norm.c: norms of queries and keys, if the model has them ---- */

void mds_gpt_add_head_norms(struct registrar *reg, const char *layer,
                            struct attention_ids *id);

static inline int mds_gpt_has_head_norms(const struct attention_ids *id)
{
    return id->q_norm.gamma >= 0;
}

/* n rows from row `at` of the tensors below on. */
struct head_norm_rows {
    int64_t at, n;
    void *before; /* [R,A D], then [R,G D]: q and k before the norms; NULL: not kept */
    float *stats; /* means [R,A], [R,G], and as many reciprocal deviations; across heads
                     [R], [R] */
};

/* Norm q and k in these rows of q, k, v, in place. */
enum mds_rc mds_gpt_head_norms_fwd(const struct context *c,
                                   const struct attention_ids *id,
                                   const struct head_norm_rows *r, void *qkv);
/* dqkv: gradient after the norms -> before them, in place. */
enum mds_rc mds_gpt_head_norms_bwd(const struct context *c,
                                   const struct attention_ids *id,
                                   const struct head_norm_rows *r, void *dqkv);

/* ---- experts.c: experts in place of the MLP ---- */

/* The router, and experts if each rank has all of them; add_spread: a unit of those of
 * this rank if not, behind the block's. */
void mds_gpt_add_experts(struct registrar *reg, const char *layer, struct mlp_ids *id);
void mds_gpt_add_spread(struct registrar *reg, const char *layer, struct mlp_ids *id);
/* How many this rank has. */
int mds_gpt_experts_here(const struct mds_gpt *g);

/* Rows of struct saved.load: experts are balanced over each sequence, or over all of
 * the micro-batch. */
int64_t mds_gpt_load_groups(const struct context *c);

/* ---- block.c ---- */

void mds_gpt_add_block(struct registrar *reg, int number, struct block_ids *id);

/* The residual stream: x + branch, or x alone (branch NULL).  Without tiles the next
 * norm's kernel adds them. */
struct residual {
    void *x, *branch;
};

/* ---- embedding.c ---- */

/* is_copy: the first stage has the same weight; with_head: the head uses it too. */
void mds_gpt_add_word(struct registrar *reg, int is_copy, int with_head);
void mds_gpt_add_position(struct registrar *reg);
/* x [Rs,H] */
enum mds_rc mds_gpt_embed_fwd(const struct context *c, const int32_t *token, void *x);
enum mds_rc mds_gpt_embed_bwd(const struct context *c, const int32_t *token, void *d);

/* ---- head.c ---- */

void mds_gpt_add_head(struct registrar *reg);
/* The residual stream -> loss; and if d [Rs,H] is not NULL, d is its gradient.
 * word_is_here: this rank also has the first model chunk, which reports the tied word
 * embedding's gradient as ready. */
enum mds_rc mds_gpt_head(const struct context *c, int word_is_here, struct residual x,
                         const struct mds_targets *targets, void *d);

/* out [tensor ranks, B, words of a rank] = the logits of each sequence's last token;
 * the stream may be overwritten. */
enum mds_rc mds_gpt_logits(const struct context *c, struct residual x, void *out);

/* out [Rs,H] = the final norm of the residual stream, which may be overwritten. */
enum mds_rc mds_gpt_final_norm(const struct context *c, struct residual x, void *out);

#endif
