/* A stage's parameters. */
#include "model/gpt.h"
#include "base/alloc.h"
#include "model/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Registers parameters one after the other; the first failure is kept and ends the
 * rest. */
struct registrar {
    struct mds_gpt *g;
    enum mds_rc rc;
};

static int add(struct registrar *reg, struct mds_param_spec *spec)
{
    struct mds_comm *tp = reg->g->groups->tp;
    int id = -1;

    spec->parts = mds_comm_size(tp);
    spec->part = mds_comm_rank(tp);
    if (spec->shard == MDS_SHARD_NONE && spec->part > 0)
        spec->duplicate = 1; /* the group's first rank counts what all have */
    if (reg->rc == MDS_OK)
        reg->rc = mds_params_add(reg->g->ps, spec, &id);
    return id;
}

static int add_unit(struct registrar *reg, const char *name)
{
    int unit = -1;

    if (reg->rc == MDS_OK)
        reg->rc = mds_params_add_unit(reg->g->ps, name, &unit);
    return unit;
}

/* The weight of a product. */
static int add_matrix(struct registrar *reg, const char *name, int64_t rows,
                      int64_t cols, enum mds_shard shard, double std, int packed)
{
    struct mds_param_spec s = {.rows = rows,
                               .cols = cols,
                               .init = MDS_INIT_NORMAL,
                               .std = std,
                               .decay = 1,
                               .packed = packed,
                               .shard = shard,
                               .by_product = 1};

    snprintf(s.name, sizeof s.name, "%s.weight", name);
    return add(reg, &s);
}

static int add_vector(struct registrar *reg, const char *name, const char *suffix,
                      int64_t n, enum mds_init init, enum mds_shard shard, int packed)
{
    struct mds_param_spec s = {
        .rows = n, .init = init, .packed = packed, .shard = shard};

    snprintf(s.name, sizeof s.name, "%s.%s", name, suffix);
    return add(reg, &s);
}

static struct norm_ids add_norm(struct registrar *reg, const char *name, int place)
{
    const struct mds_model_config *cfg = &reg->g->cfg;
    struct norm_ids id = {-1, -1, place};

    id.gamma =
        add_vector(reg, name, "gamma", cfg->hidden, MDS_INIT_ONE, MDS_SHARD_NONE, 0);
    if (cfg->norm == MDS_NORM_LAYERNORM)
        id.beta = add_vector(reg, name, "beta", cfg->hidden, MDS_INIT_ZERO,
                             MDS_SHARD_NONE, 0);
    return id;
}

/* n linears of one input, side by side.  Those split by rows share their outputs among
 * ranks, biases included, those by columns their input. */
struct linears {
    const char *const *name;
    int n;
    int64_t in;
    const int64_t *out;
    enum mds_shard shard;
    double std;
};

static struct linear_ids add_weights(struct registrar *reg, const char *layer,
                                     const struct linears *l)
{
    int tp = mds_comm_size(reg->g->groups->tp);
    struct linear_ids id = {.weight = -1, .bias = -1};
    char full[48];

    id.in = l->shard == MDS_SHARD_COLS ? l->in / tp : l->in;
    for (int i = 0; i < l->n; i++) {
        int w;

        snprintf(full, sizeof full, "%s.%s", layer, l->name[i]);
        w = add_matrix(reg, full, l->out[i], l->in, l->shard, l->std, i > 0);
        if (i == 0)
            id.weight = w;
        id.out += l->shard == MDS_SHARD_ROWS ? l->out[i] / tp : l->out[i];
    }
    return id;
}

/* The first one's; -1 where there are none. */
static int add_biases(struct registrar *reg, const char *layer, const struct linears *l)
{
    enum mds_shard s = l->shard == MDS_SHARD_ROWS ? l->shard : MDS_SHARD_NONE;
    int first = -1;
    char full[48];

    for (int i = 0; i < l->n && reg->g->cfg.linear_bias; i++) {
        int b;

        snprintf(full, sizeof full, "%s.%s", layer, l->name[i]);
        b = add_vector(reg, full, "bias", l->out[i], MDS_INIT_ZERO, s, i > 0);
        if (i == 0)
            first = b;
    }
    return first;
}

/* First all matrices: of the gradients only the rest, one run, is to be zero at first.
 * Branches' last linears start smaller, by 1/sqrt(2L), so that the stream's variance
 * does not grow with depth: Radford et al. 2019, section 2.3. */
static void add_layer(struct registrar *reg, int number, struct layer_ids *id)
{
    static const char *const inputs[] = {"attention.q", "attention.k", "attention.v"};
    static const char *const result[] = {"attention.out"}, *const last[] = {"mlp.down"};
    static const char *const first[] = {"mlp.gate", "mlp.up"};
    const struct mds_model_config *cfg = &reg->g->cfg;
    int64_t q = cfg->heads * cfg->head_dim, kv = cfg->kv_heads * cfg->head_dim;
    int64_t ffn = cfg->ffn_hidden, hidden = cfg->hidden;
    const int64_t heads[] = {q, kv, kv}, wide[] = {ffn, ffn};
    double std = cfg->init_std, small = std / sqrt(2.0 * (double)cfg->layers);
    struct linears qkv = {inputs, 3, hidden, heads, MDS_SHARD_ROWS, std};
    struct linears out = {result, 1, q, &hidden, MDS_SHARD_COLS, small};
    struct linears up = {first, 2, hidden, wide, MDS_SHARD_ROWS, std};
    struct linears down = {last, 1, ffn, &hidden, MDS_SHARD_COLS, small};
    char name[24], full[48];

    if (!cfg->swiglu)
        up = (struct linears){first + 1, 1, hidden, wide, MDS_SHARD_ROWS, std};
    snprintf(name, sizeof name, "layer.%d", number);
    id->number = number;
    id->unit = add_unit(reg, name);
    id->qkv = add_weights(reg, name, &qkv);
    id->out = add_weights(reg, name, &out);
    id->up = add_weights(reg, name, &up);
    id->down = add_weights(reg, name, &down);
    snprintf(full, sizeof full, "%s.norm1", name);
    id->norm1 = add_norm(reg, full, 0);
    id->qkv.bias = add_biases(reg, name, &qkv);
    id->out.bias = add_biases(reg, name, &out);
    snprintf(full, sizeof full, "%s.norm2", name);
    id->norm2 = add_norm(reg, full, 1);
    id->up.bias = add_biases(reg, name, &up);
    id->down.bias = add_biases(reg, name, &down);
}

static void add_word(struct registrar *reg, int is_copy, int with_head)
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
                               .by_product = with_head};

    g->word_unit = add_unit(reg, "embedding.word");
    g->word = add(reg, &s);
    /* Meanwhile that of the positions is made; if tied, those of layers, too. */
    if (reg->rc == MDS_OK)
        mds_params_set_encloses(g->ps, g->word_unit);
}

static void add_position(struct registrar *reg)
{
    struct mds_gpt *g = reg->g;
    struct mds_param_spec s = {.name = "embedding.position.weight",
                               .rows = g->cfg.max_positions,
                               .cols = g->cfg.hidden,
                               .init = MDS_INIT_NORMAL,
                               .std = g->cfg.init_std,
                               .decay = 1,
                               .shard = g->slices_positions ? MDS_SHARD_ROWS
                                                            : MDS_SHARD_NONE};

    if (g->cfg.position != MDS_POSITION_LEARNED)
        return;
    g->position_unit = add_unit(reg, "embedding.position");
    g->position = add(reg, &s);
}

static void add_head(struct registrar *reg)
{
    struct mds_gpt *g = reg->g;

    g->head_unit = add_unit(reg, "head");
    g->final_norm = add_norm(reg, "final_norm", 0);
    if (!g->cfg.tied_head)
        g->head = add_matrix(reg, "head", g->cfg.padded_vocab, g->cfg.hidden,
                             MDS_SHARD_ROWS, g->cfg.init_std, 0);
}

static enum mds_rc register_all(struct mds_gpt *g)
{
    const struct mds_gpt_piece *first = &g->piece[0].is;
    const struct mds_gpt_piece *last = &g->piece[g->n_pieces - 1].is;
    struct registrar reg = {g, MDS_OK};

    if (first->is_first || (last->is_last && g->cfg.tied_head))
        add_word(&reg, !first->is_first, last->is_last && g->cfg.tied_head);
    if (first->is_first)
        add_position(&reg);
    for (int i = 0; i < g->n_pieces; i++)
        for (int l = 0; l < g->piece[i].is.layers; l++)
            add_layer(&reg, g->piece[i].is.first_layer + l, &g->piece[i].layer[l]);
    if (last->is_last)
        add_head(&reg);
    if (last->is_last && g->cfg.tied_head)
        g->head = g->word;
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
        g->piece[i].layer =
            mds_zalloc((size_t)spec->pieces[i].layers, sizeof *g->piece[i].layer);
        if (!g->piece[i].layer)
            return MDS_EMEM;
    }
    return MDS_OK;
}

/* Whether each tensor rank holds, adds and updates an equal share of the position
 * table's rows, and no others. */
static int slices_positions(const struct mds_gpt *g)
{
    return g->sequence_parallel && g->groups->grid.sp == 1 &&
           g->cfg.max_positions == g->cfg.seq_length;
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
        spec->sequence_parallel && mds_comm_size(spec->groups->tp) > 1;
    g->tensor_chunks = spec->tensor_chunks;
    g->slices_positions = slices_positions(g);
    g->ps = spec->params;
    g->word_unit = g->position_unit = g->head_unit = -1;
    g->word = g->position = g->head = -1;
    rc = copy_pieces(g, spec);
    if (!rc)
        rc = register_all(g);
    if (rc)
        mds_gpt_destroy(g);
    else
        *out = g;
    return rc;
}

static void free_sets(struct mds_gpt *g)
{
    for (int i = 0; g->set && i < g->sets; i++) {
        free(g->set[i].saved);
        free(g->set[i].kept);
    }
    free(g->set);
}

void mds_gpt_destroy(struct mds_gpt *g)
{
    if (!g)
        return;
    for (int i = 0; g->piece && i < g->n_pieces; i++)
        free(g->piece[i].layer);
    free(g->piece);
    free_sets(g);
    free(g->shared);
    free(g);
}

int mds_gpt_tied_unit(const struct mds_gpt *g)
{
    return g->cfg.tied_head ? g->word_unit : -1;
}

int64_t mds_gpt_boundary_bytes(const struct mds_gpt *g, int64_t B, int64_t S)
{
    struct mds_par p = {.groups = g->groups, .sequence_parallel = g->sequence_parallel};

    mds_par_set_batch(&p, B, S, 0);
    return mds_par_slice_rows(&p) * g->cfg.hidden *
           (int64_t)mdsk_dtype_size(mds_params_dtype(g->ps));
}
