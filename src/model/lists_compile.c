/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of each type of block. */
#include "model/lists.h"

#include "base/minmax.h"
#include "block/build.h"
#include "block/show.h"

#include <stdio.h>
#include <string.h>

/* ---- types ---- */

/* Where block l of any model chunk saves attention's result. */
static int place_of_o(const struct context *c, int l)
{
    int where =
        mds_act_policy(&c->run->train->act, c->g->max_layers, l).of[MDS_ACT_LSE];

    if (!mds_gpt_is_tiled(c) || !c->run->training || !where)
        return 0;
    return where & MDS_ACT_HOST ? LISTS_O_AWAY : LISTS_O_KEPT;
}

int mds_gpt_list_type(const struct context *c, const struct model_chunk *chunk, int l)
{
    const struct block_ids *b = &chunk->block[l];

    return place_of_o(c, l) + (b->attention.qkv.fp8 ? LISTS_FP8 : 0) +
           (b->mlp.expert ? LISTS_EXPERTS : 0);
}

/* ---- compiling ---- */

static unsigned bit(enum mds_act_part part)
{
    return 1u << (part + 1);
}

/* What blocks of a type and kind save. */
static unsigned kept_parts(const struct context *c, int type, enum list_kind kind)
{
    const struct mds_activations *a = &c->run->train->act;
    struct mds_act_policy policy = kind == LISTS_AGAIN
                                       ? mds_act_policy_inside(a)
                                       : mds_act_policy(a, c->g->max_layers, 0);
    unsigned keep = 0;

    for (enum mds_act_part i = 0; i < MDS_ACT_PARTS; i++)
        if (policy.of[i])
            keep |= bit(i);
    if (mds_gpt_is_tiled(c))
        keep = bit(MDS_ACT_INPUT) |
               (type >= LISTS_O_KEPT ? bit(MDS_ACT_ATTENTION) | bit(MDS_ACT_LSE) : 0);
    return kind == LISTS_OFFLOADED ? keep & ~(bit(MDS_ACT_NORMS) | bit(MDS_ACT_MLP_ACT))
                                   : keep;
}

static int64_t sum_work(const struct context *c)
{
    struct context t;

    mds_gpt_tile(c, 0, &t);
    return mds_gpt_sum_work(&t);
}

/* The layers whose messages travel in chunks; in tiles the MLP's, whose rows may be in
 * any order. */
static unsigned chunked_layers(const struct context *c)
{
    struct context t;

    mds_gpt_tile(c, 0, &t);
    if (mds_gpt_in_chunks(&t).par.chunks == 1)
        return 0;
    return mds_gpt_is_tiled(c) ? 1u << LAYER_UP | 1u << LAYER_DOWN : ~0u;
}

static int has_backward(enum list_kind kind)
{
    return kind != LISTS_PASSING && kind != LISTS_EVALUATION;
}

int mds_gpt_saves_o_away(const struct context *c)
{
    for (int l = 0; l < c->g->max_layers && c->run->training; l++)
        if (place_of_o(c, l) == LISTS_O_AWAY)
            return 1;
    return 0;
}

static int64_t group_weights(const struct context *c)
{
    const struct mds_model_config *m = &c->g->cfg;
    int64_t heads = mds_gpt_heads(c, m->heads) + 2 * mds_gpt_heads(c, m->kv_heads);
    int has_bias = m->linear_bias || m->qkv_bias;

    return heads * m->head_dim * (m->hidden + has_bias);
}

static struct mds_block_policy policy_of(const struct context *c,
                                         const struct typed_lists *l, int type,
                                         const struct mds_block_fp8 *fp8,
                                         enum list_kind kind)
{
    int tp = mds_groups_size(c->g->groups, MDS_AXIS_TENSOR);
    int64_t G = mds_gpt_heads(c, c->g->cfg.kv_heads);
    int64_t copied = mds_gpt_kv_heads_inside(c) - G;
    int fetch = has_backward(kind) && mds_saved_stashes_x(c);

    return (struct mds_block_policy){
        .ranks = {.tensor = tp,
                  .sequence = c->g->sequence_parallel,
                  .ulysses = mds_gpt_ulysses(c),
                  .expert = mds_groups_size(c->g->groups, MDS_AXIS_EXPERT),
                  .copied = 2 * copied * c->g->cfg.head_dim,
                  .sum_work = tp > 1 ? sum_work(c) : 0},
        .training = has_backward(kind),
        .keep = kept_parts(c, type, kind),
        .away = fetch && kind == LISTS_SAVING,
        .fetch = fetch,
        .o_away = has_backward(kind) && type >= LISTS_O_AWAY,
        .o_fetch = has_backward(kind) && mds_gpt_saves_o_away(c),
        .group_weights = group_weights(c),
        .chunked = chunked_layers(c),
        .slot_bytes =
            kind == LISTS_OFFLOADED ? l->forward[LISTS_SAVING].saved_bytes : 0,
        .fp8 = type & LISTS_FP8 ? fp8 : NULL,
        .gelu = c->g->cfg.activation == MDSK_GELU && !(type & LISTS_FP8),
        .sum_norms = c->norm_sums != NULL};
}

/* Of a context, or of a tile of it. */
static void rows_of(const struct context *c, int64_t rows[MDS_ROWS_KINDS])
{
    int64_t R = mds_par_rows(&c->par);

    rows[MDS_ROWS_ONE] = 1;
    rows[MDS_ROWS_SLICE] = mds_par_slice_rows(&c->par);
    rows[MDS_ROWS_GEMM] = R;
    rows[MDS_ROWS_HEADS] = R * mds_gpt_ulysses(c);
    rows[MDS_ROWS_COPIES] = R * c->g->cfg.experts.topk;
    rows[MDS_ROWS_ROUND] = mds_gpt_round_rows(c);
}

/* Lists are compiled again if a step has other rows. */
static int is_compiled(const struct mds_step_list *p,
                       const int64_t rows[MDS_ROWS_KINDS],
                       const int64_t tile[MDS_ROWS_KINDS])
{
    return memcmp(p->rows, rows, sizeof p->rows) == 0 &&
           memcmp(p->tile, tile, sizeof p->tile) == 0;
}

static enum mds_rc compile(const struct context *c, struct typed_lists *l, int type,
                           enum list_kind kind)
{
    int64_t rows[MDS_ROWS_KINDS], tile[MDS_ROWS_KINDS] = {0};
    const struct mds_block_fp8 fp8 = {.wgrad = c->g->cfg.fp8.wgrad,
                                      .codes = mds_saved_slots(c) == c->g->max_layers,
                                      .codes_bytes = mds_gpt_fp8_codes_bytes,
                                      .gradient_bytes = mds_gpt_fp8_gradient_bytes};
    struct mds_block_policy policy = policy_of(c, l, type, &fp8, kind);
    struct context t;

    rows_of(c, rows);
    mds_gpt_tile(c, 0, &t);
    if (mds_gpt_is_tiled(c))
        rows_of(&t, tile);
    if (l->is_there[kind] && is_compiled(&l->forward[kind], rows, tile))
        return MDS_OK;
    mds_step_list_init(&l->forward[kind], rows, tile,
                       (int)mdsk_dtype_size(c->par.dtype));
    mds_gpt_declare_block(&c->g->cfg, (type & LISTS_EXPERTS) > 0, policy.ranks.tensor,
                          c->head_groups, kind != LISTS_EVALUATION, &l->forward[kind]);
    MDS_TRY(mds_block_compile(&policy, &l->forward[kind], &l->backward[kind]));
    l->is_there[kind] = 1;
    return MDS_OK;
}

static enum mds_rc compile_type(const struct context *c, struct typed_lists *l,
                                int type)
{
    if (!c->run->training)
        return compile(c, l, type, LISTS_EVALUATION);
    MDS_TRY(compile(c, l, type, LISTS_SAVING));
    if (mds_saved_slots(c) < c->g->max_layers)
        MDS_TRY(compile(c, l, type, LISTS_OFFLOADED));
    if (mds_act_group(&c->run->train->act) == 1)
        return MDS_OK;
    MDS_TRY(compile(c, l, type, LISTS_PASSING));
    return mds_gpt_is_tiled(c) ? MDS_OK : compile(c, l, type, LISTS_AGAIN);
}

enum mds_rc mds_gpt_compile_lists(const struct context *c, struct block_lists *l)
{
    for (int k = 0; k < c->g->n_chunks; k++)
        for (int i = 0; i < c->g->chunk[k].is.layers; i++) {
            int type = mds_gpt_list_type(c, &c->g->chunk[k], i);

            MDS_TRY(compile_type(c, &l->of[type], type));
        }
    return MDS_OK;
}

/* mixed: some blocks have experts, others do not. */
static void name_type(int type, int mixed, char *out, size_t size)
{
    snprintf(out, size, "%s%s%s",
             type >= LISTS_O_AWAY   ? ", attention on the host"
             : type >= LISTS_O_KEPT ? ", attention saved"
                                    : "",
             !mixed                 ? ""
             : type & LISTS_EXPERTS ? ", experts"
                                    : ", MLP",
             type & LISTS_FP8 ? ", FP8" : "");
}

static void show(const struct typed_lists *l, enum list_kind k, const char *type,
                 FILE *f)
{
    static const char *const names[LISTS_KINDS] = {"", ", offloaded", ", not saved",
                                                   ", run again", ", evaluation"};

    if (!l->is_there[k])
        return;
    fprintf(f, "\n  forward of a block%s%s: %d steps\n", names[k], type,
            l->forward[k].steps);
    mds_block_show(&l->forward[k], f);
    if (!has_backward(k))
        return;
    fprintf(f, "\n  backward of a block%s%s: %d steps\n", names[k], type,
            l->backward[k].steps);
    mds_block_show(&l->backward[k], f);
}

static int some_have(const struct block_lists *l, int experts)
{
    int some = 0;

    for (int i = 0; i < LISTS_TYPES * LISTS_KINDS; i++)
        some |= (i / LISTS_KINDS & LISTS_EXPERTS) == experts &&
                l->of[i / LISTS_KINDS].is_there[i % LISTS_KINDS];
    return some;
}

void mds_gpt_show_lists(const struct block_lists *l, FILE *f)
{
    int mixed = some_have(l, 0) && some_have(l, LISTS_EXPERTS);
    char name[48];

    for (int type = 0; type < LISTS_TYPES; type++) {
        name_type(type, mixed, name, sizeof name);
        for (enum list_kind k = 0; k < LISTS_KINDS; k++)
            show(&l->of[type], k, name, f);
    }
}

/* At least what blocks of this type need. */
static void widen(const struct typed_lists *l, enum list_kind kind, struct slab_size *s)
{
    enum list_kind leaves =
        l->is_there[LISTS_OFFLOADED] ? LISTS_OFFLOADED : LISTS_SAVING;

    s->bytes = mds_max(s->bytes, l->forward[kind].saved_bytes);
    s->kept = mds_max(s->kept, l->forward[leaves].kept_bytes);
}

int64_t mds_gpt_slab_again(const struct block_lists *l)
{
    struct slab_size size = {0, 0};

    for (int type = 0; type < LISTS_TYPES; type++)
        widen(&l->of[type], LISTS_AGAIN, &size);
    return size.bytes;
}

struct slab_size mds_gpt_slab_size(const struct context *c, const struct block_lists *l,
                                   int layer)
{
    struct slab_size size = {0, 0};

    for (int k = 0; k < c->g->n_chunks; k++) {
        const struct model_chunk *p = &c->g->chunk[k];

        for (int i = layer; i < p->is.layers; i += mds_saved_slots(c))
            widen(&l->of[mds_gpt_list_type(c, p, i)], LISTS_SAVING, &size);
    }
    return size;
}
