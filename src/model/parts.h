/* The parts of a GPT and what they hand to each other.  For model/ alone. */
#ifndef MDS_MODEL_PARTS_H
#define MDS_MODEL_PARTS_H

#include "kernels/table.h"
#include "model/gpt.h"

/* Registry ids.  -1: this configuration has none.  Where several parameters form one
 * operand (q, k, v; gate, up) it is the first of them. */
struct norm_ids {
    int gamma, beta;
};

struct linear_ids {
    int weight, bias, n; /* n parameters side by side */
    int64_t in, out;     /* of all n together */
};

struct layer_ids {
    int first, n; /* all of the layer's parameters */
    struct norm_ids norm1, norm2;
    struct linear_ids qkv, out, up, down;
};

/* What a layer's backward reads of its forward.
 *   x [R,H] input of norm1    n1 [R,H]  qkv [R,(A+2G)D] after rotation  o [R,A*D]
 *   lse [B,A,S]               x1 [R,H] input of norm2   n2 [R,H]
 *   u [R,F or 2F]  g [R,F]    mean, rstd [R] each */
struct layer_saved {
    float *x, *mean1, *rstd1, *n1, *qkv, *o, *lse, *x1, *mean2, *rstd2, *n2, *u, *g;
};

struct mds_gpt {
    struct mds_model_config cfg;
    struct mds_params *ps;
    int word, position, head; /* head is word when tied */
    struct norm_ids final_norm;
    struct layer_ids *layer;
    struct layer_saved *saved; /* one a layer: where its buffers are, during a pass */
};

/* One micro-batch on its way: what every part needs to know. */
struct pass {
    struct mds_gpt *g;
    const struct mds_gpt_run *run;
    const struct mds_gpt_batch *batch;
    int64_t R;    /* B*S */
    int training; /* dropout is on */
};

/* Dropout sites of one step. */
enum { SITE_EMBEDDING = 0, SITE_ATTENTION = 1, SITE_OUT = 2, SITE_MLP = 3, SITES = 4 };

/* Every buffer of one layer, from the arena under tag. */
enum mds_rc gpt_layer_take(const struct pass *p, enum mds_mem_tag tag,
                           struct layer_saved *s);
/* Those that the recompute setting keeps for each layer; the others are left alone. */
enum mds_rc gpt_layer_take_kept(const struct pass *p, struct layer_saved *s);

/* From the stream (x, r) to (s->x1, m), all of s filled.  r may be NULL: x is s->x. */
enum mds_rc gpt_layer_fwd(const struct pass *p, int l, const float *x, const float *r,
                          const struct layer_saved *s, float *m);

/* Fill what was not kept, from s->x (and s->o, s->lse if kept). */
enum mds_rc gpt_layer_recompute(const struct pass *p, int l,
                                const struct layer_saved *s);

/* d [R,H]: gradient of the stream, in: after the layer, out: before it. */
enum mds_rc gpt_layer_bwd(const struct pass *p, int l, const struct layer_saved *s,
                          float *d);

enum mds_rc gpt_embed_fwd(const struct pass *p, float *x);
enum mds_rc gpt_embed_bwd(const struct pass *p, float *d); /* d is used up */

/* Final norm, logits and loss.  r becomes x + r.  d [R,H], written: the stream's
 * gradient, or NULL when only the loss is wanted. */
enum mds_rc gpt_head(const struct pass *p, const float *x, float *r, float grad_scale,
                     struct mds_gpt_loss *loss, float *d);

/* ---- shared by the parts (ops.c) ---- */
enum mds_rc gpt_take(const struct pass *p, enum mds_mem_tag tag, int64_t elements,
                     float **out);
enum mds_rc gpt_norm_fwd(const struct pass *p, const struct norm_ids *id,
                         const float *x, const float *r, float *sum, float *y,
                         float *mean, float *rstd);
enum mds_rc gpt_norm_bwd(const struct pass *p, const struct norm_ids *id,
                         const float *x, const float *mean, const float *rstd,
                         const float *dy, float *dx);
enum mds_rc gpt_linear_fwd(const struct pass *p, const struct linear_ids *id, int64_t R,
                           const float *x, float *y);
/* dx may be NULL: then only the weights' gradients are formed. */
enum mds_rc gpt_linear_bwd(const struct pass *p, const struct linear_ids *id, int64_t R,
                           const float *x, const float *dy, float *dx);
/* y = x dropped out at a site of layer l; y may be x.  Nothing is done where dropout is
 * off, and then *out is x; else *out is y. */
enum mds_rc gpt_dropout(const struct pass *p, int l, int site, float *x, float *y,
                        float **out);
struct mdsk_dropout_key gpt_dropout_key(const struct pass *p, int l, int site,
                                        double prob);

#endif
