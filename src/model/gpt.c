#include "model/gpt.h"
#include "base/alloc.h"
#include "model/parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Registers parameters one after the other; the first failure is kept and ends the
 * rest. */
struct registrar {
    struct mds_params *ps;
    enum mds_rc rc;
};

static int add(struct registrar *reg, const struct mds_param_spec *spec)
{
    int id = -1;

    if (reg->rc == MDS_OK)
        reg->rc = mds_params_add(reg->ps, spec, &id);
    return id;
}

static int add_matrix(struct registrar *reg, const char *name, int64_t rows,
                      int64_t cols, double std, int packed)
{
    struct mds_param_spec s = {.rows = rows,
                               .cols = cols,
                               .init = MDS_INIT_NORMAL,
                               .std = std,
                               .decay = 1,
                               .packed = packed};

    snprintf(s.name, sizeof s.name, "%s.weight", name);
    return add(reg, &s);
}

static int add_vector(struct registrar *reg, const char *name, const char *suffix,
                      int64_t n, enum mds_init init, int packed)
{
    struct mds_param_spec s = {.rows = n, .init = init, .packed = packed};

    snprintf(s.name, sizeof s.name, "%s.%s", name, suffix);
    return add(reg, &s);
}

static struct norm_ids add_norm(struct registrar *reg,
                                const struct mds_model_config *cfg, const char *name)
{
    struct norm_ids id = {-1, -1};

    id.gamma = add_vector(reg, name, "gamma", cfg->hidden, MDS_INIT_ONE, 0);
    if (cfg->norm == MDS_NORM_LAYERNORM)
        id.beta = add_vector(reg, name, "beta", cfg->hidden, MDS_INIT_ZERO, 0);
    return id;
}

/* n linears of one input, side by side: first all weights, then all biases. */
static struct linear_ids add_linears(struct registrar *reg,
                                     const struct mds_model_config *cfg,
                                     const char *layer, const char *const *name, int n,
                                     int64_t in, const int64_t *out, double std)
{
    struct linear_ids id = {.weight = -1, .bias = -1, .n = n, .in = in};
    char full[48];

    for (int i = 0; i < n; i++) {
        int w;

        snprintf(full, sizeof full, "%s.%s", layer, name[i]);
        w = add_matrix(reg, full, out[i], in, std, i > 0);
        if (i == 0)
            id.weight = w;
        id.out += out[i];
    }
    for (int i = 0; i < n && cfg->linear_bias; i++) {
        int b;

        snprintf(full, sizeof full, "%s.%s", layer, name[i]);
        b = add_vector(reg, full, "bias", out[i], MDS_INIT_ZERO, i > 0);
        if (i == 0)
            id.bias = b;
    }
    return id;
}

/* Branches' last linears start smaller, by 1/sqrt(2L), so that the stream's variance
 * does not grow with depth: Radford et al. 2019, section 2.3. */
static void add_layer(struct registrar *reg, const struct mds_model_config *cfg, int l,
                      struct layer_ids *id)
{
    static const char *const qkv[] = {"attention.q", "attention.k", "attention.v"};
    static const char *const out[] = {"attention.out"}, *const down[] = {"mlp.down"};
    static const char *const up[] = {"mlp.gate", "mlp.up"};
    int64_t q = cfg->heads * cfg->head_dim, kv = cfg->kv_heads * cfg->head_dim;
    int64_t ffn = cfg->ffn_hidden, hidden = cfg->hidden;
    double std = cfg->init_std, small = std / sqrt(2.0 * (double)cfg->layers);
    char name[32], full[48];

    snprintf(name, sizeof name, "layer.%d", l);
    id->first = mds_params_n(reg->ps);
    snprintf(full, sizeof full, "%s.norm1", name);
    id->norm1 = add_norm(reg, cfg, full);
    id->qkv = add_linears(reg, cfg, name, qkv, 3, hidden, (int64_t[]){q, kv, kv}, std);
    id->out = add_linears(reg, cfg, name, out, 1, q, &hidden, small);
    snprintf(full, sizeof full, "%s.norm2", name);
    id->norm2 = add_norm(reg, cfg, full);
    id->up = cfg->swiglu ? add_linears(reg, cfg, name, up, 2, hidden,
                                       (int64_t[]){ffn, ffn}, std)
                         : add_linears(reg, cfg, name, up + 1, 1, hidden, &ffn, std);
    id->down = add_linears(reg, cfg, name, down, 1, ffn, &hidden, small);
    id->n = mds_params_n(reg->ps) - id->first;
}

static enum mds_rc register_all(struct mds_gpt *g)
{
    const struct mds_model_config *cfg = &g->cfg;
    struct registrar reg = {g->ps, MDS_OK};

    g->word = add_matrix(&reg, "embedding.word", cfg->padded_vocab, cfg->hidden,
                         cfg->init_std, 0);
    g->position = cfg->position != MDS_POSITION_LEARNED
                      ? -1
                      : add_matrix(&reg, "embedding.position", cfg->max_positions,
                                   cfg->hidden, cfg->init_std, 0);
    for (int l = 0; l < cfg->layers; l++)
        add_layer(&reg, cfg, l, &g->layer[l]);
    g->final_norm = add_norm(&reg, cfg, "final_norm");
    g->head = cfg->tied_head ? g->word
                             : add_matrix(&reg, "head", cfg->padded_vocab, cfg->hidden,
                                          cfg->init_std, 0);
    return reg.rc;
}

enum mds_rc mds_gpt_create(const struct mds_model_config *cfg, struct mds_params *ps,
                           struct mds_gpt **out)
{
    struct mds_gpt *g = mds_zalloc(1, sizeof *g);
    enum mds_rc rc = MDS_EMEM;

    if (!g)
        return rc;
    g->cfg = *cfg;
    g->ps = ps;
    g->layer = mds_zalloc((size_t)cfg->layers, sizeof *g->layer);
    g->saved = mds_zalloc((size_t)cfg->layers, sizeof *g->saved);
    if (!g->layer || !g->saved)
        goto free_gpt;
    rc = register_all(g);
    if (rc)
        goto free_gpt;
    *out = g;
    return MDS_OK;

free_gpt:
    mds_gpt_destroy(g);
    return rc;
}

void mds_gpt_destroy(struct mds_gpt *g)
{
    if (!g)
        return;
    free(g->layer);
    free(g->saved);
    free(g);
}
