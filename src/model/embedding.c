/* SPDX-License-Identifier: BSD-3-Clause */
/* Word embedding and learned positions. */
#include "model/modules.h"
#include "parallel/vocab.h"
#include "tensor/op.h"

void mds_gpt_add_word(struct registrar *reg, int is_copy, int with_head)
{
    struct mds_gpt *g = reg->g;
    struct mds_param_spec s = {.name = "embedding.word.weight",
                               .rows = g->cfg.padded_vocab,
                               .cols = g->cfg.hidden,
                               .init = MDS_INIT_NORMAL,
                               .std = g->cfg.init_std,
                               .decay = 1,
                               .shard = MDS_SHARD_ROWS,
                               .duplicate = is_copy,
                               .by_gemm = with_head};

    g->embedding.word_unit = mds_gpt_add_unit(reg, "embedding.word");
    g->embedding.word = mds_gpt_add_param(reg, &s);
    /* Between its begin and its ready the gradient of the positions is made; if tied,
     * those of all layers, too. */
    if (reg->rc == MDS_OK)
        mds_params_set_encloses(g->ps, g->embedding.word_unit);
}

void mds_gpt_add_position(struct registrar *reg)
{
    struct mds_gpt *g = reg->g;
    int sliced = g->sequence_parallel && !g->positions_restart &&
                 mds_groups_size(g->groups, MDS_AXIS_ULYSSES | MDS_AXIS_RING) == 1 &&
                 g->cfg.max_positions == g->cfg.seq_length;
    struct mds_param_spec s = {.name = "embedding.position.weight",
                               .rows = g->cfg.max_positions,
                               .cols = g->cfg.hidden,
                               .init = MDS_INIT_NORMAL,
                               .std = g->cfg.init_std,
                               .decay = 1,
                               .shard = sliced ? MDS_SHARD_ROWS : MDS_SHARD_NONE};

    if (g->cfg.position != MDS_POSITION_LEARNED)
        return;
    g->embedding.sliced = sliced;
    g->embedding.position_unit = mds_gpt_add_unit(reg, "embedding.position");
    g->embedding.position = mds_gpt_add_param(reg, &s);
}

static struct mds_embedding embedding_spec(const struct context *c, int backward)
{
    const struct embedding_ids *id = &c->g->embedding;
    const struct mds_param *word = mds_params_get(c->g->ps, id->word);
    int rank = mds_groups_rank(c->g->groups, MDS_AXIS_TENSOR);
    struct mds_embedding e = {.H = c->g->cfg.hidden,
                              .first_word = word->rows * rank,
                              .words = word->rows,
                              .first_position = id->sliced ? rank * c->par.slice.n : 0,
                              .sliced = id->sliced};

    if (backward) {
        e.dword = mds_gpt_grad(c, id->word);
        e.dposition = mds_gpt_grad(c, id->position);
    } else {
        e.word = mds_gpt_weight(c, id->word);
        e.position = mds_gpt_weight(c, id->position);
    }
    return e;
}

enum mds_rc mds_gpt_scale(const struct context *c, double factor, int64_t n, void *x)
{
    struct mdsk_axpby a = {
        .n = n, .from = c->par.dtype, .to = c->par.dtype, .b = (float)factor, .y = x};

    return factor == 1 ? MDS_OK : mds_op_axpby(c->par.dev, &a);
}

enum mds_rc mds_gpt_embed_fwd(const struct context *c, const int32_t *token, void *x)
{
    const struct embedding_ids *id = &c->g->embedding;
    int has = id->position >= 0;
    struct mds_embedding e;

    MDS_TRY(mds_params_acquire(c->g->ps, id->word_unit));
    if (has)
        MDS_TRY(mds_params_acquire(c->g->ps, id->position_unit));
    e = embedding_spec(c, 0);
    MDS_TRY(mds_embedding_fwd(&c->par, &e, token, x));
    MDS_TRY(mds_gpt_scale(c, mds_mup_embedding_scale(&c->g->cfg),
                          mds_gpt_residual_size(c), x));
    MDS_TRY(mds_gpt_dropout(c, 0, SITE_EMBEDDING, x, x, &x));
    if (has)
        MDS_TRY(mds_params_release(c->g->ps, id->position_unit));
    return mds_params_release(c->g->ps, id->word_unit);
}

/* If the embedding is tied and the head is on this stage, the head has called
 * mds_params_grad_begin for it. */
enum mds_rc mds_gpt_embed_bwd(const struct context *c, const int32_t *token, void *d)
{
    const struct embedding_ids *id = &c->g->embedding;
    int has = id->position >= 0;
    struct mds_embedding e;

    if (c->g->head.weight != id->word)
        MDS_TRY(mds_params_grad_begin(c->g->ps, id->word_unit));
    if (has)
        MDS_TRY(mds_params_grad_begin(c->g->ps, id->position_unit));
    e = embedding_spec(c, 1);
    MDS_TRY(mds_gpt_dropout(c, 0, SITE_EMBEDDING, d, d, &d));
    MDS_TRY(mds_gpt_scale(c, mds_mup_embedding_scale(&c->g->cfg),
                          mds_gpt_residual_size(c), d));
    MDS_TRY(mds_embedding_bwd(&c->par, &e, token, d));
    if (has)
        MDS_TRY(mds_params_grad_ready(c->g->ps, id->position_unit));
    return mds_params_grad_ready(c->g->ps, id->word_unit);
}
