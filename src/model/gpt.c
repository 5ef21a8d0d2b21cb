/* SPDX-License-Identifier: BSD-3-Clause */
/* A stage's modules, and their parameters in the registry. */
#include "model/gpt.h"

#include "base/alloc.h"
#include "model/modules.h"

#include <stdlib.h>

static enum mds_rc register_all(struct mds_gpt *g)
{
    const struct mds_gpt_piece *first = &g->piece[0].is;
    const struct mds_gpt_piece *last = &g->piece[g->n_pieces - 1].is;
    struct registrar reg = {.g = g};

    if (first->is_first || (last->is_last && g->cfg.tied_head))
        mds_gpt_add_word(&reg, !first->is_first, last->is_last && g->cfg.tied_head);
    if (first->is_first)
        mds_gpt_add_position(&reg);
    for (int i = 0; i < g->n_pieces; i++)
        for (int l = 0; l < g->piece[i].is.layers; l++)
            mds_gpt_add_block(&reg, g->piece[i].is.first_layer + l,
                              &g->piece[i].block[l]);
    if (last->is_last)
        mds_gpt_add_head(&reg);
    return reg.rc;
}

static enum mds_rc copy_pieces(struct mds_gpt *g, const struct mds_gpt_spec *spec)
{
    g->piece = mds_zalloc((size_t)spec->n_pieces, sizeof *g->piece);
    if (!g->piece)
        return MDS_EMEM;
    g->n_pieces = spec->n_pieces;
    for (int i = 0; i < g->n_pieces; i++) {
        g->piece[i].is = spec->pieces[i];
        if (g->most_layers < spec->pieces[i].layers)
            g->most_layers = spec->pieces[i].layers;
        g->piece[i].block =
            mds_zalloc((size_t)spec->pieces[i].layers, sizeof *g->piece[i].block);
        if (!g->piece[i].block)
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
    g->ps = spec->params;
    g->embedding = (struct embedding_ids){-1, -1, -1, -1, 0};
    g->head = (struct head_ids){.unit = -1, .weight = -1};
    rc = copy_pieces(g, spec);
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
    for (int i = 0; g->piece && i < g->n_pieces; i++)
        free(g->piece[i].block);
    free(g->piece);
    free(g);
}

int mds_gpt_tied_unit(const struct mds_gpt *g)
{
    return g->cfg.tied_head ? g->embedding.word_unit : -1;
}

int64_t mds_gpt_boundary_bytes(const struct mds_gpt *g, int64_t B, int64_t S)
{
    struct mds_par p = {.groups = g->groups, .sequence_parallel = g->sequence_parallel};

    mds_par_set_batch(&p, B, S, 0);
    return mds_par_slice_rows(&p) * g->cfg.hidden *
           (int64_t)mdsk_dtype_size(mds_params_dtype(g->ps));
}
