/* The parts of a GPT and what they hand to each other.  For model/ alone. */
#ifndef MDS_MODEL_PARTS_H
#define MDS_MODEL_PARTS_H

#include "kernels/table.h"
#include "model/gpt.h"

/* Registry ids.  -1: this configuration, or this stage, has none.  Where several
 * parameters form one operand (q, k, v; gate, up) it is the first of them. */
struct norm_ids {
    int gamma, beta;
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
 * in matrix products. x [Rs,H] input of norm1   n1 [Rs,H]   qkv: parallel/attention.h's
 * `inside` o [R,A*D]   lse f32       x1 [Rs,H] input of norm2   n2 [Rs,H] u [R,F or 2F]
 * g [R,F], neither with MLP tiles   mean, rstd [Rs] f32 each */
struct layer_saved {
    void *x, *n1, *qkv, *o, *x1, *n2, *u, *g;
    float *mean1, *rstd1, *lse, *mean2, *rstd2;
};

/* What is kept of one micro-batch in one piece between forward and backward; any
 * piece's, in turn. */
struct piece_set {
    struct layer_saved *saved; /* [most layers of a piece]: where its buffers are */
    void **kept;               /* full recompute: layer inputs that moved elsewhere */
    void *d;                   /* last piece: the stream's gradient, from the head */
};

struct piece {
    struct mds_gpt_piece is;
    struct layer_ids *layer;
};

struct mds_gpt {
    struct mds_model_config cfg;
    const struct mds_groups *groups; /* borrowed */
    int sequence_parallel, slices_positions;
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
    struct layer_saved *shared; /* [recompute_layers] sets that layers use in turn */
    void *m, *d;                /* [Rs,H]: an open branch, the stream's gradient */
};

/* Dropout sites of one step. */
enum { SITE_EMBEDDING = 0, SITE_ATTENTION = 1, SITE_OUT = 2, SITE_MLP = 3, SITES = 4 };

/* ---- memory.c: buffers of a step ---- */

enum mds_rc mds_gpt_take_step(struct mds_gpt *g);
enum mds_rc mds_gpt_take(const struct mds_gpt *g, enum mds_mem_tag tag,
                         int64_t elements, void **out);

/* Put a layer input away, and get it back into x. */
enum mds_rc mds_gpt_keep(const struct mds_gpt *g, const void *x, void *kept);
enum mds_rc mds_gpt_fetch(const struct mds_gpt *g, const void *kept, void *x);

/* Whether inputs of layers are kept elsewhere than where forward has them. */
int mds_gpt_moves_kept(const struct mds_gpt *g);

/* ---- block.c: one transformer block ---- */

/* From the stream (x, r) to (s->x1, m).  r may be NULL: then x is s->x. */
enum mds_rc mds_gpt_block_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const void *x, const void *r, const struct layer_saved *s,
                              void *m);

/* The same from s->x, without what is there already (s->o, s->lse if kept_attention)
 * and without the last product if m is NULL. */
enum mds_rc mds_gpt_block_refill(const struct mds_gpt *g, const struct layer_ids *id,
                                 const void *x, const void *r,
                                 const struct layer_saved *s, int kept_attention,
                                 void *m);

/* d [Rs,H]: gradient of the stream, in: after the block, out: before it. */
enum mds_rc mds_gpt_block_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                              const struct layer_saved *s, void *d);

/* ---- mlp.c ---- */

enum mds_rc mds_gpt_mlp_fwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct layer_saved *s, void *m);
/* s->u and s->g again, where they are kept whole. */
enum mds_rc mds_gpt_mlp_refill(const struct mds_gpt *g, const struct layer_ids *id,
                               const struct layer_saved *s);
/* dm [Rs,H] -> dn [Rs,H], the gradient of s->n2. */
enum mds_rc mds_gpt_mlp_bwd(const struct mds_gpt *g, const struct layer_ids *id,
                            const struct layer_saved *s, const void *dm, void *dn);

/* ---- ops.c: operations with parameters by id ---- */

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
enum mds_rc mds_gpt_linear_bwd_weight(const struct mds_gpt *g,
                                      const struct linear_ids *id, int64_t R,
                                      const void *x, const void *dy);
enum mds_rc mds_gpt_linear_bwd_input(const struct mds_gpt *g,
                                     const struct linear_ids *id, int64_t R,
                                     const void *dy, void *dx);
/* y = x dropped out at a site of a layer, [Rs,H]; y may be x.  Where dropout is off
 * nothing is done and *out is x; else *out is y. */
enum mds_rc mds_gpt_dropout(const struct mds_gpt *g, int layer, int site, const void *x,
                            void *y, void **out);
struct mdsk_dropout_key mds_gpt_dropout_key(const struct mds_gpt *g, int layer,
                                            int site, double prob);

#endif
