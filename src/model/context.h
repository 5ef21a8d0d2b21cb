/* SPDX-License-Identifier: BSD-3-Clause */
/* The model, and the context of a call into it.  For model/ alone.
 *
 * struct mds_gpt does not change after it is created.  A module is called with a struct
 * context: the model, the options of the step, and a struct mds_par with the device,
 * the working memory and the tokens that the call is about.  A sequence tile is the
 * same call with another token range; without --sequence-tile there is one tile. */
#ifndef MDS_MODEL_CONTEXT_H
#define MDS_MODEL_CONTEXT_H

#include "model/gpt.h"
#include "parallel/par.h"

/* Registry ids of parameters; -1: this configuration, or this pipeline stage, has none.
 * Where several parameters form one operand (q, k, v; gate, up) it is the first. */
struct norm_ids {
    int gamma, beta;
    int64_t size;
    int64_t sum_at; /* its gradients' place in context.norm_sums; -1: none */
};

struct linear_ids {
    int weight, bias;
    int64_t in, out; /* on this rank, of all side by side */
};

struct attention_ids {
    struct linear_ids qkv, out;
    struct norm_ids q_norm, k_norm; /* of heads; --qk-layernorm */
};

struct mlp_ids {
    struct linear_ids up, down;
};

struct block_ids {
    int unit, number; /* number: in the whole model */
    struct norm_ids norm1, norm2;
    struct attention_ids attention;
    struct mlp_ids mlp;
};

struct embedding_ids {
    int word_unit, word, position_unit, position;
    int sliced; /* each tensor rank holds an equal share of the positions' rows */
};

struct head_ids {
    int unit;
    struct norm_ids norm;
    int weight; /* that of the word embedding if tied */
};

struct piece {
    struct mds_gpt_piece is;
    struct block_ids *block; /* [is.layers] */
};

struct mds_gpt {
    struct mds_model_config cfg;
    const struct mds_groups *groups; /* borrowed */
    int sequence_parallel, tensor_chunks;
    struct mds_params *ps; /* borrowed */
    struct embedding_ids embedding;
    struct head_ids head;
    int n_pieces;
    struct piece *piece;
    int most_layers;   /* of a piece */
    int64_t norm_sums; /* of a context */
};

/* In buffers of whole sequences that products read or write, the rows of a tile lie in
 * one place for each tensor rank with sequence parallelism, else in one. */
struct context {
    const struct mds_gpt *g;       /* borrowed */
    const struct mds_gpt_run *run; /* borrowed */
    struct mds_par par;            /* of this tile */
    const struct mds_par *all; /* of a tile, borrowed: par of the whole micro-batch */
    float *norm_sums; /* gradients of a block's norms that tensor ranks have in parts */
    int64_t row;      /* the tile's first row in this rank's slice */
    int64_t part;     /* adjacent rows of the tile in products */
    int64_t first, stride; /* row of the first part in whole buffers, and from part to
                              part */
};

/* Elements of the residual stream, or of its gradient: [slice rows, H]. */
static inline int64_t mds_gpt_stream_size(const struct context *c)
{
    return mds_par_slice_rows(&c->par) * c->g->cfg.hidden;
}

/* The rows of this tile in x, the whole stream or its gradient. */
static inline void *mds_gpt_stream_at(const struct context *c, const void *x)
{
    return mds_par_at(&c->par, x, c->row * c->g->cfg.hidden);
}

/* A parameter's weight and its gradient; NULL of id -1. */
static inline const void *mds_gpt_weight(const struct context *c, int id)
{
    return id < 0 ? NULL : mds_param_weight(c->g->ps, id);
}

static inline float *mds_gpt_grad(const struct context *c, int id)
{
    return id < 0 ? NULL : mds_param_grad(c->g->ps, id);
}

/* Working memory for `elements` elements, unless *buffer has memory already. */
static inline enum mds_rc mds_gpt_scratch(const struct context *c, int64_t elements,
                                          void **buffer)
{
    return *buffer ? MDS_OK : mds_par_take(&c->par, MDS_MEM_WORK, elements, buffer);
}

/* ---- context.c ---- */

/* The context of whole micro-batches, whose first sequence has this number in the run.
 * run, norm_sums: as in the struct. */
void mds_gpt_context(const struct mds_gpt *g, const struct mds_gpt_run *run,
                     int64_t first_sample, struct context *c);

/* Whether --sequence-tile is given; without, the only tile is all rows. */
int mds_gpt_is_tiled(const struct context *c);

/* Whether --attention-chunk is given: then attention has q, k, v, its result and
 * backward their gradients in host memory. */
int mds_gpt_is_chunked(const struct context *c);

/* The tile from token `at` of the slice on; 0 behind the last.  apart: buffers of
 * products are the tile's own, not those of whole sequences. */
int mds_gpt_tile(const struct context *whole, int64_t at, int apart, struct context *t);

/* The token behind a tile. */
static inline int64_t mds_gpt_tile_end(const struct context *t)
{
    return t->row / t->par.B + t->par.slice.n;
}

/* The same tile, whose rows travel between tensor ranks in chunks: for operations that
 * take rows in any order. */
struct context mds_gpt_in_chunks(const struct context *t);

/* Rows of a tile that are adjacent in the tile's buffers, from row `at` on, and in
 * whole ones, from row `whole` on; at most `limit` of them.  0 behind the last. */
struct span {
    int64_t at, n, whole;
};

int mds_gpt_span(const struct context *t, int64_t at, int64_t limit, struct span *s);

#endif
