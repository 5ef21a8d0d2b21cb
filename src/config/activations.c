/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/activations.h"
#include "base/minmax.h"

#include <string.h>

#define AT(field) offsetof(struct mds_activations, field)

const struct mds_act_option mds_act_options[MDS_ACT_OPTIONS + 1] = {
    {"train.recompute", AT(recompute), 0, NULL},
    {"train.recompute_modules", AT(recompute_modules), 0, NULL},
    {"train.partition_activations", AT(partition_activations), 1, NULL},
    {"train.offload_activations", AT(offload_activations), 0, NULL},
    {"train.loss_tile", AT(loss_tile), 0, NULL},
    {"train.sequence_tile", AT(sequence_tile), 0, NULL},
    {"train.attention_head_groups", AT(head_groups), 0, NULL},
    {"train.recompute_layers", AT(recompute_layers), 0, NULL},
    {"train.activation_memory", AT(keep_attention), 0, "attention"},
    {"train.activation_memory", AT(device_inputs), 0, "inputs"},
    {"train.offload_layers", AT(offload_layers), 1, NULL},
    {NULL, 0, 0, NULL},
};

const struct mds_act_option *mds_act_option(size_t offset)
{
    const struct mds_act_option *o = mds_act_options;

    while (o->offset != offset)
        o++;
    return o;
}

/* The members before this one are ints. */
static int is_int_member(const struct mds_act_option *o)
{
    return o->offset < AT(recompute_layers);
}

int64_t mds_act_get(const struct mds_activations *a, const struct mds_act_option *o)
{
    const char *from = (const char *)a + o->offset;
    int64_t value;
    int n;

    memcpy(&n, from, sizeof n);
    if (is_int_member(o))
        return n;
    memcpy(&value, from, sizeof value);
    return value;
}

void mds_act_set(struct mds_activations *a, const struct mds_act_option *o,
                 int64_t value)
{
    char *to = (char *)a + o->offset;
    int n = (int)value;

    if (is_int_member(o))
        memcpy(to, &n, sizeof n);
    else
        memcpy(to, &value, sizeof value);
}

struct mds_activations mds_act_defaults(void)
{
    return (struct mds_activations){
        .recompute_layers = 1, .head_groups = 1, .loss_tile = MDS_DEFAULT_LOSS_TILE};
}

const char *const mds_recompute_names[] = {"none", "selective", "full", NULL};

enum mds_recompute mds_recompute_of(const struct mds_activations *a)
{
    return a->recompute == MDS_RECOMPUTE_SELECTIVE && a->recompute_modules
               ? MDS_RECOMPUTE_NONE
               : a->recompute;
}

const char *mds_recompute_modules_name(int modules)
{
    static const char *const names[] = {
        "",    "layernorm",     "mlp_act",     "layernorm,mlp_act",
        "mlp", "layernorm,mlp", "mlp_act,mlp", "layernorm,mlp_act,mlp"};

    return names[modules];
}

int mds_act_kinds_on_host(const struct mds_activations *a)
{
    return (a->offload_activations != 0) + (a->offload_layers != 0);
}

int mds_act_halve(struct mds_activations *a)
{
    if ((a->keep_attention | a->device_inputs | a->offload_layers) % 2)
        return 0;
    a->keep_attention /= 2;
    a->device_inputs /= 2;
    a->offload_layers /= 2;
    return 1;
}

int64_t mds_max_offload_layers(int64_t blocks)
{
    return mds_max(mds_min(blocks / 2, blocks - 2), 0);
}

/* ---- what they mean ---- */

struct mds_act_policy mds_act_policy_inside(const struct mds_activations *a)
{
    int again = a->recompute == MDS_RECOMPUTE_SELECTIVE ? a->recompute_modules : 0;
    struct mds_act_policy p;

    for (int i = 0; i < MDS_ACT_PARTS; i++)
        p.of[i] = MDS_ACT_KEPT;
    if (again & MDS_MODULE_LAYERNORM)
        p.of[MDS_ACT_NORMS] = 0;
    if (again & MDS_MODULE_MLP)
        p.of[MDS_ACT_MLP_IN] = 0;
    if (again & (MDS_MODULE_MLP | MDS_MODULE_MLP_ACT))
        p.of[MDS_ACT_MLP_ACT] = 0;
    return p;
}

/* Full recompute keeps inputs, and of the last blocks attention's result; selective
 * keeps both of each block. */
struct mds_act_policy mds_act_policy(const struct mds_activations *a, int64_t blocks,
                                     int64_t l)
{
    int selective = a->recompute == MDS_RECOMPUTE_SELECTIVE;
    int64_t from_end = blocks - l;
    int on_host = a->offload_activations && from_end > a->device_inputs;
    int where = MDS_ACT_KEPT | (on_host ? MDS_ACT_HOST : 0);
    struct mds_act_policy p = {{0}};

    if (mds_recompute_of(a) == MDS_RECOMPUTE_NONE)
        return mds_act_policy_inside(a);
    if (l % mds_act_group(a))
        return p;
    p.of[MDS_ACT_INPUT] = where | (a->partition_activations ? MDS_ACT_SHARD : 0);
    if (selective || from_end <= a->keep_attention)
        p.of[MDS_ACT_ATTENTION] = p.of[MDS_ACT_LSE] = selective ? where : MDS_ACT_KEPT;
    return p;
}

int64_t mds_act_group(const struct mds_activations *a)
{
    return a->recompute == MDS_RECOMPUTE_FULL ? a->recompute_layers : 1;
}

int64_t mds_act_head_groups(const struct mds_activations *a, int64_t heads)
{
    int64_t groups = mds_min(a->head_groups, heads);

    while (groups > 1 && heads % groups)
        groups--;
    return mds_max(groups, 1);
}

int64_t mds_act_slots(const struct mds_activations *a, int64_t blocks)
{
    return blocks - a->offload_layers;
}

int mds_act_uses_host(const struct mds_activations *a)
{
    return a->offload_activations || a->offload_layers > 0;
}

/* ---- levels ---- */

static const struct {
    enum mds_recompute recompute;
    int modules, is_tiled, on_host;
    int64_t groups; /* of heads */
    int64_t every;  /* blocks per kept input */
} levels[MDS_ACT_LEVELS] = {
    {MDS_RECOMPUTE_NONE, 0, 0, 0, 1, 1},
    {MDS_RECOMPUTE_SELECTIVE, MDS_MODULE_LAYERNORM | MDS_MODULE_MLP_ACT, 0, 0, 1, 1},
    {MDS_RECOMPUTE_SELECTIVE, MDS_MODULE_LAYERNORM | MDS_MODULE_MLP, 0, 0, 1, 1},
    {MDS_RECOMPUTE_SELECTIVE, 0, 1, 0, 1, 1},
    {MDS_RECOMPUTE_SELECTIVE, 0, 1, 1, 1, 1},
    {MDS_RECOMPUTE_FULL, 0, 1, 0, 1, 1},
    {MDS_RECOMPUTE_FULL, 0, 1, 1, 1, 1},
    {MDS_RECOMPUTE_FULL, 0, 1, 1, MDS_ACT_GROUPS, 1},
    {MDS_RECOMPUTE_FULL, 0, 1, 1, MDS_ACT_GROUPS, 2},
    {MDS_RECOMPUTE_FULL, 0, 1, 1, MDS_ACT_GROUPS, 4},
    {MDS_RECOMPUTE_FULL, 0, 1, 1, MDS_ACT_GROUPS, 8},
};

int mds_act_level_is_tiled(int level)
{
    return level >= 0 && level < MDS_ACT_LEVELS && levels[level].is_tiled;
}

static unsigned bit_of_member(size_t offset)
{
    return 1u << (mds_act_option(offset) - mds_act_options);
}

unsigned mds_act_level_policy(void)
{
    return bit_of_member(AT(recompute)) | bit_of_member(AT(recompute_modules)) |
           bit_of_member(AT(offload_activations)) | bit_of_member(AT(recompute_layers));
}

unsigned mds_act_level_tiles(void)
{
    return bit_of_member(AT(loss_tile)) | bit_of_member(AT(sequence_tile)) |
           bit_of_member(AT(head_groups));
}

unsigned mds_act_words(void)
{
    return bit_of_member(AT(keep_attention)) | bit_of_member(AT(device_inputs));
}

int64_t mds_act_tile(int64_t tokens)
{
    return tokens > MDS_ACT_TILE ? MDS_ACT_TILE : 0;
}

void mds_act_set_level(struct mds_activations *a, int level, int64_t tile)
{
    a->sequence_tile = levels[level].is_tiled ? tile : 0;
    a->loss_tile = a->sequence_tile ? a->sequence_tile : MDS_DEFAULT_LOSS_TILE;
    a->recompute = levels[level].recompute;
    a->recompute_modules = levels[level].modules;
    a->offload_activations = levels[level].on_host;
    a->head_groups = a->sequence_tile ? levels[level].groups : 1;
    a->recompute_layers = levels[level].every;
}
