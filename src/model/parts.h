/* The parts of a GPT and what they hand to each other.  For model/ alone. */
#ifndef MDS_MODEL_PARTS_H
#define MDS_MODEL_PARTS_H

#include "kernels/table.h"
#include "model/gpt.h"
#include "parallel/chunked.h"

/* Registry ids.  -1: this configuration, or this stage, has none.  Where several
 * parameters form one operand (q, k, v; gate, up) it is the first of them. */
struct norm_ids {
    int gamma, beta;
    int place; /* 0 or 1: of the two of a block */
};

struct linear_ids {
    int weight, bias;
    int64_t in, out; /* on this rank, of all side by side */
};

struct layer_ids {
    int unit, number; /* number: in the whole model */
    struct norm_ids norm1, norm2;
    struct linear_ids qkv, out, up, down;
};

/* What a layer's backward reads of its forward.  Rs: rows of this rank's slice; R: rows
 * in matrix products.  NULL, of n1, n2, g, and with tiles of the MLP u: not kept, but
 * made again of what is. */
struct layer_saved {
    void *x, *n1;  /* [Rs,H] norm1's input and result */
    void *qkv;     /* parallel/attention.h's `inside` */
    void *o;       /* [R,A*D] */
    void *x1, *n2; /* [Rs,H] norm2's input and result */
    void *u, *g;   /* [R,F or 2F] before the activation, [R,F] behind it */
    float *mean1, *rstd1, *mean2, *rstd2; /* [Rs] */
    float *lse;                           /* parallel/attention.h */
    int64_t bytes; /* of all but n1, n2 and g, one behind the other from x on */
};

/* What is put away of a layer until its backward, elsewhere than where forward has it,
 * or in tiles where it has it. */
struct kept {
    void *x;    /* [Rs,H], or this rank's part of it; NULL: nothing of this layer */
    void *o;    /* [R,A*D]; NULL: computed again.  With chunks always on the host */
    float *lse; /* with o */
    int x_on_host, o_on_host;
    void *all;                   /* on the host: layer_saved's bytes; NULL: they stay */
    struct mds_dev_copying copy; /* of them */
};

/* What is kept of one micro-batch in one piece between forward and backward; any
 * piece's, in turn. */
struct piece_set {
    struct layer_saved *saved; /* [most layers of a piece]: where its buffers are */
    struct kept *kept;         /* [most layers of a piece] */
    void *d;                   /* last piece: the stream's gradient, from the head */
};

struct piece {
    struct mds_gpt_piece is;
    struct layer_ids *layer;
};

struct mds_gpt {
    struct mds_model_config cfg;
    const struct mds_groups *groups; /* borrowed */
    int sequence_parallel, slices_positions, tensor_chunks;
    struct mds_params *ps; /* borrowed */
    int word_unit, word, position_unit, position, head_unit, head;
    struct norm_ids final_norm;
    int n_pieces;
    struct piece *piece;
    int most_layers; /* of a piece */
    int sets;        /* allocated below */
    struct piece_set *set;

    /* during a step */
    struct mds_gpt_run run;
    struct mds_arena_mark mark, host_mark;
    struct mds_par par;         /* of the micro-batch under way */
    struct layer_saved *shared; /* [shareds] buffers that layers use in turn */
    int shareds;
    void *m, *d;       /* [Rs,H]: an open branch, the stream's gradient */
    float *norm_grads; /* [2,2,H]: of a block's norms, of this rank's rows */
};

/* Dropout sites of one step. */
enum { SITE_EMBEDDING = 0, SITE_ATTENTION = 1, SITE_OUT = 2, SITE_MLP = 3, SITES = 4 };

/* Elements of the stream, or of its gradient, on this rank: [slice rows, H]. */
static inline int64_t mds_gpt_stream_size(const struct mds_gpt *g)
{
    return mds_par_slice_rows(&g->par) * g->cfg.hidden;
}

/* Elements of attention's log-sum-exp on this rank: [rows, A/tp].  Its result has
 * head_dim as many. */
static inline int64_t mds_gpt_lse_size(const struct mds_gpt *g)
{
    return mds_par_rows(&g->par) * (g->cfg.heads / mds_comm_size(g->groups->tp));
}

/* In how many chunks the rows of g->par should travel between tensor ranks. */
int mds_gpt_tensor_chunks(const struct mds_gpt *g);

/* ---- memory.c: buffers of a step ---- */

enum mds_rc mds_gpt_take_step(struct mds_gpt *g);
enum mds_rc mds_gpt_take(const struct mds_gpt *g, enum mds_mem_tag tag,
                         int64_t elements, void **out);

/* If *buffer is NULL, working memory for it: for what a layer does not keep. */
enum mds_rc mds_gpt_lend(const struct mds_gpt *g, int64_t elements, void **buffer);

/* Put the layer input x away in k; *saving is its copy to the host, or zero. */
enum mds_rc mds_gpt_keep(const struct mds_gpt *g, const void *x, const struct kept *k,
                         struct mds_dev_copying *saving);
/* Get a layer input back into x: begin to copy it from the host, if it is there; and
 * wait for that copy, and gather what other tensor ranks have. */
struct mds_dev_copying mds_gpt_fetch_start(const struct mds_gpt *g,
                                           const struct kept *k, void *x);
enum mds_rc mds_gpt_fetch(const struct mds_gpt *g, const struct kept *k,
                          struct mds_dev_copying coming, void *x);

/* --cpu-offloading-num-layers: a set has fewer buffers than layers, `slots`.  Layer l
 * has those that layer l - slots had, which is on the host meanwhile: it leaves behind
 * its own forward, and is met before that of layer l; it comes behind the backward of
 * layer l, and is met before its own.  n1, n2 and g stay behind, and are made again.
 * These do nothing for a layer that stays, or of a negative number; meet tells.
 * Without the option, and without training, there are as many slots as layers. */
int mds_gpt_slots(const struct mds_gpt *g);
void mds_gpt_layer_leave(const struct mds_gpt *g, const struct piece *p,
                         const struct piece_set *set, int l);
void mds_gpt_layer_return(const struct mds_gpt *g, const struct piece *p,
                          const struct piece_set *set, int l);
int mds_gpt_layer_meet(const struct mds_gpt *g, const struct piece *p,
                       const struct piece_set *set, int l);

/* Whether inputs of layers are kept elsewhere than where forward has them, and whether
 * the one of k is, where blocks run in tiles. */
int mds_gpt_moves_kept(const struct mds_gpt *g);
int mds_gpt_is_moved(const struct mds_gpt *g, const struct kept *k);

/* Whether blocks run in tiles along the sequence. */
int mds_gpt_is_tiled(const struct mds_gpt *g);

/* ---- block.c: one transformer block ---- */

/* From the stream (x, r) to (s->x1, m).  Without r (NULL) x is s->x.  With k, s->x is
 * put away meanwhile. */
enum mds_rc mds_gpt_block_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const void *x, const void *r, const struct layer_saved *s,
                              const struct kept *k, void *m);

/* The same before backward, where s->x and perhaps s->o and s->lse (kept_attention)
 * were kept: compute the rest of *s, and m unless it is NULL. */
enum mds_rc mds_gpt_block_recompute(const struct mds_gpt *g, const struct layer_ids *id,
                                    const void *x, const void *r,
                                    const struct layer_saved *s, int kept_attention,
                                    void *m);

/* d [Rs,H]: gradient of the stream, in: after the block, out: before it.  came_back:
 * s->n1, s->n2 and s->g, where there is room for them, are to be made again. */
enum mds_rc mds_gpt_block_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const struct layer_saved *s, int came_back, void *d);

struct mds_attention mds_gpt_attention(const struct mds_gpt *g,
                                       const struct layer_ids *id);

/* ---- tiled.c: blocks in tiles along the sequence ---- */

/* A stretch of this rank's rows, as if it were a micro-batch.  In whole buffers of what
 * enters and leaves products its rows lie in `parts` places, `stride` rows apart: one
 * place for each tensor rank with sequence parallelism, else one. */
struct tile {
    struct mds_gpt g; /* a copy whose par is the tile's */
    int64_t row, rows;
    int64_t place; /* of its first row in whole buffers */
    int64_t stride;
    int64_t slice_rows; /* of this rank's slice, all tiles */
    int parts;
};

/* The tile from token `at` of the slice on; 0 behind the last. */
int mds_gpt_tile_at(const struct mds_gpt *g, int64_t at, struct tile *t);

/* Buffers that blocks use in turn.  x and d_o may change places.  If attention is
 * chunked its buffers and gradients are in host memory, and d_o is a second x. */
struct tiled_room {
    void *x;       /* [Rs,H] */
    void *o, *d_o; /* heads inside (parallel/attention.h), or rows [R,A*D] */
    void *qkv;     /* parallel/attention.h's `inside` */
    void *dqkv;    /* the same; without Ulysses rows [R,(A+2G)*D] */
    float *lse;
    struct mds_chunked chunked; /* chunk 0: there are none */
    void *inputs;               /* [blocks per kept input - 1, Rs,H]: those not kept */
    struct mds_dev_copying x_copy, o_copy; /* under way, of x and o */
};

/* x [Rs,H] -> y [Rs,H], which may be x.  k: what to put away, NULL for nothing. */
enum mds_rc mds_gpt_tiled_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                              struct tiled_room *w, const struct kept *k, const void *x,
                              void *y);

/* Begin to bring what was put away of a layer to where its backward looks for it: the
 * input, if it was moved, to w->x, which changes places with w->d_o first. */
void mds_gpt_tiled_bring(const struct mds_gpt *g, struct tiled_room *w,
                         const struct kept *k);

/* d [Rs,H] as mds_gpt_block_bwd's; x: the layer's input.  k: what was put away of this
 * layer; next: of the one to bring meanwhile, or NULL. */
enum mds_rc mds_gpt_tiled_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                              struct tiled_room *w, const struct kept *k,
                              const struct kept *next, const void *x, void *d);

/* ---- tiled_step.c ---- */

/* Take room for forward; *x is where the first layer expects its input. */
enum mds_rc mds_gpt_tiled_begin(const struct mds_gpt *g, const struct piece_set *set,
                                struct tiled_room *w, void **x);
/* Take room for backward. */
enum mds_rc mds_gpt_tiled_take(const struct mds_gpt *g, struct tiled_room *w);
/* All layers of a piece; the last one's result is in y. */
enum mds_rc mds_gpt_tiled_layers_fwd(const struct mds_gpt *g, const struct piece *p,
                                     const struct piece_set *set, struct tiled_room *w,
                                     void *y);
enum mds_rc mds_gpt_tiled_layers_bwd(const struct mds_gpt *g, const struct piece *p,
                                     const struct piece_set *set, void *d);
struct mds_head;
/* x [Rs,H] -> loss, and in training its gradient d. */
enum mds_rc mds_gpt_tiled_head(const struct mds_gpt *g, struct mds_head *h,
                               const void *x, const int32_t *target,
                               struct mds_gpt_loss *loss, void *d);

/* ---- mlp.c ---- */

enum mds_rc mds_gpt_mlp_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct layer_saved *s, void *m);
/* Compute s->u and s->g from s->n2, if the layer keeps them whole. */
enum mds_rc mds_gpt_mlp_recompute(const struct mds_gpt *g, const struct layer_ids *id,
                                  const struct layer_saved *s);
/* Compute s->g from s->u, if the layer keeps both whole. */
enum mds_rc mds_gpt_mlp_activate(const struct mds_gpt *g, const struct layer_saved *s);
/* dm [Rs,H] -> dn [Rs,H], the gradient of s->n2. */
enum mds_rc mds_gpt_mlp_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct layer_saved *s, const void *dm, void *dn);

/* ---- ops.c: operations with parameters by id ---- */

/* Around all mds_gpt_norm_bwd of a block: with sequence parallelism each tensor rank
 * has norms of rows of its own, whose gradients are summed once.  second: NULL, or the
 * block's other norm. */
void mds_gpt_norm_grads_begin(const struct mds_gpt *g);
enum mds_rc mds_gpt_norm_grads_end(const struct mds_gpt *g,
                                   const struct norm_ids *first,
                                   const struct norm_ids *second);

enum mds_rc mds_gpt_norm_fwd(const struct mds_gpt *g, const struct norm_ids *id,
                             const void *x, const void *r, void *sum, void *y,
                             float *mean, float *rstd);
enum mds_rc mds_gpt_norm_bwd(const struct mds_gpt *g, const struct norm_ids *id,
                             const void *x, const float *mean, const float *rstd,
                             const void *dy, void *dx);
/* first_bias: add the bias on the group's first tensor rank alone, because the results
 * will be summed. */
enum mds_rc mds_gpt_linear_fwd(const struct mds_gpt *g, const struct linear_ids *id,
                               int64_t R, int first_bias, const void *x, void *y);
/* The same with the bias, and gelu = GELU(y). */
enum mds_rc mds_gpt_linear_gelu_fwd(const struct mds_gpt *g,
                                    const struct linear_ids *id, int64_t R,
                                    const void *x, void *y, void *gelu);
enum mds_rc mds_gpt_linear_bwd_weight(const struct mds_gpt *g,
                                      const struct linear_ids *id, int64_t R,
                                      const void *x, const void *dy);
enum mds_rc mds_gpt_linear_bwd_input(const struct mds_gpt *g,
                                     const struct linear_ids *id, int64_t R,
                                     const void *dy, void *dx);
/* dx = dy W * GELU'(u). */
enum mds_rc mds_gpt_linear_gelu_bwd_input(const struct mds_gpt *g,
                                          const struct linear_ids *id, int64_t R,
                                          const void *dy, const void *u, void *dx);
/* y = x dropped out at a site of a layer, [Rs,H]; y may be x.  Where dropout is off
 * nothing is done and *out is x; else *out is y. */
enum mds_rc mds_gpt_dropout(const struct mds_gpt *g, int layer, int site, const void *x,
                            void *y, void **out);
struct mdsk_dropout_key mds_gpt_dropout_key(const struct mds_gpt *g, int layer,
                                            int site, double prob);

#endif
