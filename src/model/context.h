/* SPDX-License-Identifier: BSD-3-Clause */
/* The model, and the context that is passed to every module.  Private to model/.
 *
 * struct mds_gpt does not change after it is created.  A struct context holds the
 * model, the options of the step, and a struct mds_par with the device, scratch memory
 * and token range of the call.  With --sequence-tile modules are called once per tile
 * with different token ranges; otherwise there is one tile. */
#ifndef MDS_MODEL_CONTEXT_H
#define MDS_MODEL_CONTEXT_H

#include "model/gpt.h"
#include "parallel/par.h"

/* Registry ids of parameters; -1 if this configuration or pipeline stage does not have
 * it.  If several parameters form one operand (q, k, v; gate, up), the id of the
 * first. */
struct norm_ids {
    int gamma, beta;
    int64_t size;
    int64_t sum_at; /* index of its gradients in context.norm_sums; -1: none */
};

/* Some outputs of an operand, copied; and their gradients, in backward. */
struct linear_part {
    void *w, *b; /* b, db: NULL without a bias */
    float *dw, *db;
    int uninit; /* dw was not written yet */
};

struct linear_ids {
    int weight, bias;
    int64_t in, out;          /* on this rank, summed over all linears of the operand */
    struct linear_part *part; /* to use instead of the parameters; NULL: all of them */
    int fp8;                  /* whether y and dx are computed in FP8 */
    int fp8_wgrad;            /* and the weight's gradient too */
};

struct attention_ids {
    struct linear_ids qkv, out;
    struct norm_ids q_norm, k_norm; /* of heads; --qk-layernorm */
    struct norm_ids out_norm;       /* of its result; --norm-placement */
};

/* Of one expert: the first matrix of each layer. */
struct expert_ids {
    int up, down;
};

/* With experts, up and down are the shared expert's. */
struct mlp_ids {
    struct linear_ids up, down; /* sizes 0: none */
    struct norm_ids router;     /* gamma: the weight */
    struct norm_ids out_norm;
    struct expert_ids *expert; /* [experts of this rank]; NULL without */
    int64_t inner, wide;       /* of each on this rank: inputs of down, outputs of up */
    int unit;                  /* of the experts: the block's if each rank has all */
};

struct block_ids {
    int unit, number; /* number: in the whole model */
    struct norm_ids norm1, norm2;
    struct attention_ids attention;
    struct mlp_ids mlp;
};

struct embedding_ids {
    int word_unit, word, position_unit, position;
    int sliced; /* positions are sharded by rows over tensor ranks */
};

struct head_ids {
    int unit;
    struct norm_ids norm;
    int weight; /* that of the word embedding if tied */
};

struct model_chunk {
    struct mds_gpt_chunk is;
    struct block_ids *block; /* [is.layers] */
};

/* Largest magnitudes of what linear layers in FP8 cast, each by the id of the first
 * parameter of the weight.  A weight's is found by its first cast in a step and read by
 * the others, because weights do not change within a step.  Those of the input and of
 * the gradient are left by what writes these tensors, and read by the casts that
 * follow. */
struct fp8_amax {
    uint32_t *weight, *input, *grad; /* on the device */
    uint8_t *searched;               /* whether that of a weight was found */
};

struct mds_gpt {
    struct mds_model_config cfg;
    struct mds_rope *rope;           /* NULL: positions do not rotate */
    const struct mds_groups *groups; /* borrowed */
    int sequence_parallel, tensor_chunks, positions_restart;
    struct mds_params *ps; /* borrowed */
    struct embedding_ids embedding;
    struct head_ids head;
    int n_chunks;
    struct model_chunk *chunk;
    int max_layers;    /* of a model chunk */
    int64_t norm_sums; /* of a context */
};

/* With sequence parallelism the rows of a tile are in several places of a buffer of
 * whole sequences, one per tensor rank; otherwise they are contiguous. */
struct context {
    const struct mds_gpt *g;       /* borrowed */
    const struct mds_gpt_run *run; /* borrowed */
    struct mds_par par;            /* of this tile */
    const struct mds_par *all; /* of a tile, borrowed: par of the whole micro-batch */
    float
        *norm_sums; /* partial gradients of a block's norms, to sum over tensor ranks */
    const struct fp8_amax *fp8_amax; /* borrowed */
    int64_t row;                     /* the tile's first row in this rank's slice */
    int64_t part;                    /* contiguous rows of the tile in GEMMs */
    int64_t stride;                  /* rows from part to part in whole buffers */
    int micro_batch;                 /* its number in the step, from 0 */
    int head_group, head_groups; /* attention's heads here: which group, of how many */
};

/* Whether keys and values are kept. */
static inline int mds_gpt_generates(const struct context *c)
{
    return c->run->cache.tokens > 0;
}

/* Ranks that exchange tokens for heads around attention; with a cache none do. */
static inline int mds_gpt_ulysses(const struct context *c)
{
    return mds_gpt_generates(c) ? 1 : mds_groups_size(c->g->groups, MDS_AXIS_ULYSSES);
}

/* Elements of the residual stream, or of its gradient: [slice rows, H]. */
static inline int64_t mds_gpt_residual_size(const struct context *c)
{
    return mds_par_slice_rows(&c->par) * c->g->cfg.hidden;
}

/* The rows of this tile in x, the whole residual stream or its gradient. */
static inline void *mds_gpt_residual_at(const struct context *c, const void *x)
{
    return mds_par_at(&c->par, x, c->row * c->g->cfg.hidden);
}

/* Of so many heads of the model, how many a group has on this tensor rank. */
static inline int64_t mds_gpt_heads(const struct context *c, int64_t heads)
{
    return heads / mds_groups_size(c->g->groups, MDS_AXIS_TENSOR) / c->head_groups;
}

/* Key/value heads of such a group in attention, on all Ulysses ranks together: more
 * than it has where ranks share heads (parallel/attention.h). */
int64_t mds_gpt_kv_heads_inside(const struct context *c);

/* A parameter's weight and its gradient; NULL for id -1. */
static inline const void *mds_gpt_weight(const struct context *c, int id)
{
    return id < 0 ? NULL : mds_param_weight(c->g->ps, id);
}

static inline float *mds_gpt_grad(const struct context *c, int id)
{
    return id < 0 ? NULL : mds_param_grad(c->g->ps, id);
}

/* Allocate scratch for `elements` elements, unless *buffer is already set. */
static inline enum mds_rc mds_gpt_scratch(const struct context *c, int64_t elements,
                                          void **buffer)
{
    return *buffer ? MDS_OK : mds_par_alloc(&c->par, MDS_MEM_WORK, elements, buffer);
}

/* ---- context.c ---- */

/* The context of a whole micro-batch.  run is borrowed. */
void mds_gpt_context(const struct mds_gpt *g, const struct mds_gpt_run *run,
                     const struct mds_gpt_batch *batch, struct context *c);

/* Whether --sequence-tile is given; without, the only tile is all rows. */
int mds_gpt_is_tiled(const struct context *c);

/* *t = the tile that starts at token `at` of this rank's tokens; returns 0 after the
 * last. */
int mds_gpt_tile(const struct context *whole, int64_t at, struct context *t);

/* One past the last token of a tile. */
static inline int64_t mds_gpt_tile_end(const struct context *t)
{
    return t->row / t->par.B + t->par.slice.n;
}

/* The same tile, with rows exchanged between tensor ranks in chunks: for operations
 * that accept rows in any order. */
struct context mds_gpt_in_chunks(const struct context *t);

/* n rows that are contiguous both in a tile's buffers, from row `at` on, and in buffers
 * of whole sequences, from row `whole` on; n <= limit.  Returns 0 after the last. */
struct span {
    int64_t at, n, whole;
};

int mds_gpt_span(const struct context *t, int64_t at, int64_t limit, struct span *s);

#endif
