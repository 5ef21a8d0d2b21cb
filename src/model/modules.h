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
#include "model/context.h"
#include "model/saved.h"
#include "parallel/attention.h"
#include "parallel/chunked.h"
#include "parallel/tensor_parallel.h"

/* Registers parameters.  rc keeps the first failure; later calls then do nothing. */
struct registrar {
    struct mds_gpt *g;
    enum mds_rc rc;
    int fp8;           /* of the linear layers that follow */
    int64_t norm_sums; /* of the unit so far */
};

int mds_gpt_add_unit(struct registrar *reg, const char *name);
int mds_gpt_add_param(struct registrar *reg, struct mds_param_spec *spec);
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

/* y = norm(x + r); with r, sum = x + r.  All [R,size]; mean, rstd [R]; amax [1], as in
 * kernels/norm.h. */
enum mds_rc mds_gpt_norm_fwd(const struct context *c, const struct norm_ids *id,
                             int64_t R, const void *x, const void *r, void *sum,
                             void *y, float *mean, float *rstd, uint32_t *amax);
/* dx += the gradient of x, from that of y. */
enum mds_rc mds_gpt_norm_bwd(const struct context *c, const struct norm_ids *id,
                             int64_t R, const void *x, const float *mean,
                             const float *rstd, const void *dy, void *dx);

/* Call begin before and end after all mds_gpt_norm_bwd of a block, so that partial
 * gradients of its n norms are summed once. */
void mds_gpt_norm_grads_begin(const struct context *c);
enum mds_rc mds_gpt_norm_grads_end(const struct context *c, int n,
                                   const struct norm_ids *const *id);

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

/* The input x [R, in].  cast: FP8 only: x as codes by rows already, if they are there.  codes, of mds_gpt_fp8_codes_bytes: forward writes there what
 * the weight's gradient is computed from, and backward reads it instead of x.  amax: of
 * x, as the kernel that wrote it has left it there. */
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

/* A gradient dy [R, out] as the GEMMs of backward read it: in FP8 its codes, which are
 * in working memory until it is closed. */
struct linear_grad {
    const void *dy;
    struct mdsk_fp8_operand rows, cols; /* for dx, for dW */
    struct mds_arena_mark mark;
};

/* amax: of dy, as the kernel that wrote it has left it there; NULL: unknown.
 * for_input, for_weight: which of the functions below will read it.  If the weight's
 * gradient is in FP8, the bias's is added here with for_weight; otherwise by
 * bwd_weight.  Arena memory that was allocated since open is freed by close. */
enum mds_rc mds_gpt_linear_grad_open(const struct context *c,
                                     const struct linear_ids *id, int64_t R,
                                     const void *dy, uint32_t *amax, int for_input,
                                     int for_weight, struct linear_grad *g);
void mds_gpt_linear_grad_close(const struct context *c, const struct linear_grad *g);

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

/* Cast dy->dy [R, out] to dy->rows (for_input) and dy->cols (for_weight), which are
 * allocated here if they are empty, and with for_weight db += its column sums; amax as
 * in mds_gpt_linear_grad_open. */
enum mds_rc mds_gpt_fp8_cast_grad(const struct context *c, int64_t R, int64_t out,
                                  uint32_t *amax, int for_input, int for_weight,
                                  float *db, struct linear_grad *dy);
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

/* ---- attention.c: from the norm's result to the branch of the residual stream ----
 *
 * GEMMs are computed tile by tile, attention itself over whole sequences.  Its buffers
 * are those saved for the block, or those of the pass (struct work). */

/* Buffers that the blocks of a pass share for what they do not save.  With
 * --attention-chunk attention's buffers are in host memory, and d_o is a second x. */
struct work {
    void *x;       /* [Rs,H] input of a block; is swapped with d_o */
    void *branch;  /* [Rs,H] the last branch, not yet added; without tiles */
    void *qkv, *o; /* parallel/attention.h's `inside`, heads inside */
    float *lse;
    void *dqkv, *d_o;                         /* gradients; d_o heads inside */
    struct mds_chunked chunked;               /* with --attention-chunk, except its o */
    struct saved *group;                      /* [blocks per kept input]: in backward */
    struct mds_dev_async_copy x_copy, o_copy; /* copies of x and o in progress */
};

void mds_gpt_add_attention_weights(struct registrar *reg, const char *layer,
                                   struct attention_ids *id);
void mds_gpt_add_attention_vectors(struct registrar *reg, const char *layer,
                                   struct attention_ids *id);

/* A block's attention, as parallel/ takes it. */
struct mds_attention mds_gpt_attention_spec(const struct context *c,
                                            const struct block_ids *id);

/* The buffers of a block's attention: saved, or those of the pass. */
struct attention_buffers {
    void *qkv, *o; /* with --attention-chunk NULL, and in host memory */
    float *lse;
};

struct attention_buffers mds_gpt_attention_buffers(const struct context *c,
                                                   const struct work *w,
                                                   const struct saved *s);

/* Whether GEMMs use staging buffers of one tile, whose rows are exchanged with other
 * ranks (Ulysses) or copied to and from the host (--attention-chunk). */
int mds_gpt_attention_stages_rows(const struct context *c);

/* ---- head_groups.c: a part of attention's heads at a time ----
 *
 * The context and the ids for the attention of one group, with which the functions
 * above and below then work on its heads alone.  With one group they are those of the
 * block.  Groups are opened one after the other; backward: weights' gradients are
 * computed, and close adds them to those of the block. */
struct head_group {
    struct context c;
    struct block_ids id;
    struct linear_part part;
    struct mds_arena_mark mark;
};

enum mds_rc mds_gpt_head_group_open(const struct context *c, const struct block_ids *id,
                                    int group, int backward, struct head_group *h);
enum mds_rc mds_gpt_head_group_close(const struct block_ids *id,
                                     const struct head_group *h);

/* The log-sum-exp is stored group by group: where that of this group is, and how many
 * elements it has. */
float *mds_gpt_group_lse(const struct context *c, float *lse);
int64_t mds_gpt_group_lse_elements(const struct context *c);

/* Attention over whole sequences: qkv -> o, lse; and backward: d_o -> dqkv. */
enum mds_rc mds_gpt_attend(const struct context *c, const struct block_ids *id,
                           const struct work *w, const struct attention_buffers *b);
enum mds_rc mds_gpt_attend_bwd(const struct context *c, const struct block_ids *id,
                               const struct work *w, const struct attention_buffers *b);

/* The rows [R, (A+2G) D] of q, k, v, or of their gradients, that the GEMMs of a tile
 * use: in the whole buffer, or in a staging buffer of one tile. */
struct qkv_rows {
    struct mds_attention a;
    void *whole; /* attention's buffer; with --attention-chunk NULL */
    void *rows;  /* what GEMMs write or read */
    int gradient;
    struct mds_chunked_rows chunked;
};

/* open: whole, gradient: as in the struct; gradient 1: the gradients of q, k, v.  put:
 * call it after writing the tile's rows.  get: call it before reading them.  close:
 * call it after all tiles. */
enum mds_rc mds_gpt_qkv_open(const struct context *c, const struct block_ids *id,
                             const struct work *w, void *whole, int gradient,
                             struct qkv_rows *v);
enum mds_rc mds_gpt_qkv_put(const struct context *t, struct qkv_rows *v);
enum mds_rc mds_gpt_qkv_get(const struct context *t, struct qkv_rows *v);
enum mds_rc mds_gpt_qkv_close(const struct context *c, struct qkv_rows *v);

/* The same for attention's result or its gradient: rows [R, A D]. */
struct o_rows {
    struct mds_attention a;
    void *whole; /* with --attention-chunk in host memory; `window` buffers tiles */
    void *tile;  /* with Ulysses: rows of the current tile; else NULL */
    struct mds_multibuffer window;
    int64_t row_bytes;
};

enum mds_rc mds_gpt_o_open(const struct context *c, const struct block_ids *id,
                           void *whole, struct o_rows *v);
/* *rows: the tile's rows, for reading.  Starts to prefetch the next tile's. */
enum mds_rc mds_gpt_o_get(const struct context *t, struct o_rows *v, const void **rows);
/* fill: the address to write the tile's rows to.  put: call it after writing them. */
void *mds_gpt_o_fill(const struct context *t, struct o_rows *v);
enum mds_rc mds_gpt_o_put(const struct context *t, struct o_rows *v);
void mds_gpt_o_close(const struct context *c, struct o_rows *v);

/* GEMMs of a tile, and head norms.  Forward: x [Rs,H] -> rows of q, k, v.  Backward:
 * dx [Rs,H] and the weights' gradients; dqkv is overwritten with the gradient before
 * the norms. */
enum mds_rc mds_gpt_qkv_fwd(const struct context *t, const struct attention_ids *id,
                            const struct saved *s, const void *x, uint32_t *amax,
                            void *qkv);
enum mds_rc mds_gpt_qkv_bwd(const struct context *t, const struct attention_ids *id,
                            const struct saved *s, const void *x, void *dqkv, void *dx);
/* Rows of attention's result -> y [Rs,H]; and the backward. */
enum mds_rc mds_gpt_out_fwd(const struct context *t, const struct attention_ids *id,
                            const void *o, void *y);
enum mds_rc mds_gpt_out_bwd(const struct context *t, const struct attention_ids *id,
                            const void *o, const void *dy, void *d_o);

/* ---- head_norm.c: norms of queries and keys, if the model has them ---- */

void mds_gpt_add_head_norms(struct registrar *reg, const char *layer,
                            struct attention_ids *id);

static inline int mds_gpt_has_head_norms(const struct attention_ids *id)
{
    return id->q_norm.gamma >= 0;
}

/* Norm q and k in some rows of q, k, v, in place.  Their values before that are saved
 * to s if it has a buffer. */
enum mds_rc mds_gpt_head_norms_fwd(const struct context *c,
                                   const struct attention_ids *id,
                                   const struct saved *s, const struct span *at,
                                   void *qkv);
/* dqkv: gradient after the norms -> before them, in place.  x: the GEMM's input, read
 * if s does not have the values from before the norms. */
enum mds_rc mds_gpt_head_norms_bwd(const struct context *c,
                                   const struct attention_ids *id,
                                   const struct saved *s, const struct span *at,
                                   const void *x, void *dqkv);
/* Allocate in s the values that backward reads, for a forward that is recomputed. */
enum mds_rc mds_gpt_head_norms_alloc(const struct context *c,
                                     const struct attention_ids *id, struct saved *s);

/* ---- mlp.c ---- */

void mds_gpt_add_mlp_weights(struct registrar *reg, const char *layer,
                             struct mlp_ids *id);
void mds_gpt_add_mlp_biases(struct registrar *reg, const char *layer,
                            struct mlp_ids *id);

/* x [Rs,H] -> y [Rs,H]; amax: of x, or NULL.  u and g are saved to s if it has buffers
 * for them. */
enum mds_rc mds_gpt_mlp_fwd(const struct context *t, const struct mlp_ids *id,
                            const struct saved *s, const void *x, uint32_t *amax,
                            void *y);
/* dy -> dx, the gradient of x.  u and g are read if saved, else computed from x. */
enum mds_rc mds_gpt_mlp_bwd(const struct context *t, const struct mlp_ids *id,
                            const struct saved *s, const void *x, const void *dy,
                            void *dx);
/* Compute g from u, if both are saved and more than casts to FP8 will read g. */
enum mds_rc mds_gpt_mlp_activate(const struct context *c, const struct mlp_ids *id,
                                 const struct saved *s);

/* ---- experts.c: experts in place of the MLP ---- */

void mds_gpt_add_experts(struct registrar *reg, const char *layer, struct mlp_ids *id);

/* ---- block.c ---- */

/* The residual stream: x + branch, or x alone (branch NULL).  Without tiles the next
 * norm's kernel adds them. */
struct residual {
    void *x, *branch;
};

void mds_gpt_add_block(struct registrar *reg, int number, struct block_ids *id);

/* The buffer of a block's input: saved, or that of the pass. */
static inline void *mds_gpt_block_input(const struct work *w, const struct saved *s)
{
    return s->at[SAVED_X] ? s->at[SAVED_X] : w->x;
}

/* *x: the residual stream before the block -> after it.  s: buffers to save to; a
 * struct of NULLs saves nothing.  y [Rs,H]: buffer for the result's x if that is not
 * saved; may be x->x. */
enum mds_rc mds_gpt_block_fwd(const struct context *c, const struct block_ids *id,
                              struct work *w, const struct saved *s, struct residual *x,
                              void *y);

/* Start to reload what a block has offloaded; its input goes to w->x, which is first
 * swapped with w->d_o. */
void mds_gpt_block_prefetch(const struct context *c, struct work *w,
                            const struct saved *s);

/* d [Rs,H]: gradient of the residual stream; in: after the block, out: before it.  x:
 * the stream before the block; its branch may be unadded only if s has a buffer for the
 * sum.  Whatever s does not have is recomputed.  next: the block to prefetch, or NULL.
 */
enum mds_rc mds_gpt_block_bwd(const struct context *c, const struct block_ids *id,
                              struct work *w, const struct saved *s,
                              const struct saved *next, struct residual x, void *d);

/* ---- step.c ---- */

/* Allocate a pass's buffers for what blocks do not save of attention and, in backward,
 * for the gradient of attention's result. */
enum mds_rc mds_gpt_alloc_attention(const struct context *c, struct work *w,
                                    int backward);

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
