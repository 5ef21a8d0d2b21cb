/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates the modules of a pipeline stage, and registers their parameters. */
#include "model/gpt.h"

#include "base/alloc.h"
#include "model/modules.h"

#include <stdlib.h>

static enum mds_rc register_all(struct mds_gpt *g)
{
    const struct mds_gpt_chunk *first = &g->chunk[0].is;
    const struct mds_gpt_chunk *last = &g->chunk[g->n_chunks - 1].is;
    struct registrar reg = {.g = g};

    if (first->is_first || (last->is_last && g->cfg.tied_head))
        mds_gpt_add_word(&reg, !first->is_first, last->is_last && g->cfg.tied_head);
    if (first->is_first)
        mds_gpt_add_position(&reg);
    for (int i = 0; i < g->n_chunks; i++)
        for (int l = 0; l < g->chunk[i].is.layers; l++)
            mds_gpt_add_block(&reg, g->chunk[i].is.first_layer + l,
                              &g->chunk[i].block[l]);
    if (last->is_last)
        mds_gpt_add_head(&reg);
    return reg.rc;
}

static enum mds_rc copy_chunks(struct mds_gpt *g, const struct mds_gpt_spec *spec)
{
    g->chunk = mds_zalloc((size_t)spec->n_chunks, sizeof *g->chunk);
    if (!g->chunk)
        return MDS_EMEM;
    g->n_chunks = spec->n_chunks;
    for (int i = 0; i < g->n_chunks; i++) {
        g->chunk[i].is = spec->chunks[i];
        if (g->max_layers < spec->chunks[i].layers)
            g->max_layers = spec->chunks[i].layers;
        g->chunk[i].block =
            mds_zalloc((size_t)spec->chunks[i].layers, sizeof *g->chunk[i].block);
        if (!g->chunk[i].block)
            return MDS_EMEM;
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_create(const struct mds_gpt_spec *spec, struct mds_gpt **out)
{
    struct mds_gpt *g = mds_zalloc(1, sizeof *g);
    enum mds_rc rc;

    if (!g)
        return MDS_EMEM;
    g->cfg = *spec->config;
    g->groups = spec->groups;
    g->sequence_parallel =
        spec->sequence_parallel && mds_groups_size(spec->groups, MDS_AXIS_TENSOR) > 1;
    g->tensor_chunks = spec->tensor_chunks;
    g->positions_restart = spec->positions_restart;
    g->ps = spec->params;
    g->embedding = (struct embedding_ids){-1, -1, -1, -1, 0};
    g->head = (struct head_ids){.unit = -1, .weight = -1};
    rc = copy_chunks(g, spec);
    if (!rc && g->cfg.position == MDS_POSITION_ROPE)
        rc = mds_rope_create(&g->cfg, &g->rope);
    if (!rc)
        rc = register_all(g);
    if (rc)
        mds_gpt_destroy(g);
    else
        *out = g;
    return rc;
}

void mds_gpt_destroy(struct mds_gpt *g)
{
    if (!g)
        return;
    for (int i = 0; g->chunk && i < g->n_chunks; i++) {
        for (int l = 0; g->chunk[i].block && l < g->chunk[i].is.layers; l++)
            free(g->chunk[i].block[l].mlp.expert);
        free(g->chunk[i].block);
    }
    free(g->chunk);
    free(g->rope);
    free(g);
}

int mds_gpt_tied_unit(const struct mds_gpt *g)
{
    return g->cfg.tied_head ? g->embedding.word_unit : -1;
}

int64_t mds_gpt_cache_bytes(const struct mds_gpt *g, int64_t B, int64_t tokens)
{
    int64_t heads = g->cfg.kv_heads / mds_groups_size(g->groups, MDS_AXIS_TENSOR);

    return mds_kv_cache_tokens(g->groups, tokens) * B * 2 * heads * g->cfg.head_dim *
           (int64_t)mdsk_dtype_size(mds_params_dtype(g->ps));
}

int64_t mds_gpt_blocks(const struct mds_gpt *g)
{
    return g->max_layers;
}

int64_t mds_gpt_boundary_bytes(const struct mds_gpt *g, int64_t B, int64_t S)
{
    struct mds_par p = {.groups = g->groups, .sequence_parallel = g->sequence_parallel};

    mds_par_set_batch(&p, B, S, 0);
    return mds_par_slice_rows(&p) * g->cfg.hidden *
           (int64_t)mdsk_dtype_size(mds_params_dtype(g->ps));
}
