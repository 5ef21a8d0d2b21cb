#include "plan/layout.h"

#include <stddef.h>
#include <string.h>

enum kind { NUMBER, PLACE, RECOMPUTE, MODULES, FLAG };

/* A member, the key of its setting and mds_pretrain's option for it. */
struct member {
    const char *key, *flag;
    enum kind kind;
    size_t offset;
};

#define AT(field) offsetof(struct mds_layout, field)

static const struct member members[] = {
    {"parallel.tensor", "--tensor-model-parallel-size", NUMBER, AT(tensor)},
    {"parallel.pipeline", "--pipeline-model-parallel-size", NUMBER, AT(pipeline)},
    {"parallel.ulysses", "--ds-sequence-parallel-size", NUMBER, AT(ulysses)},
    {"parallel.ring", "--context-parallel-size", NUMBER, AT(ring)},
    {"parallel.zero_stage", "--zero-stage", NUMBER, AT(zero)},
    {"parallel.offload_optimizer", "--offload-device", PLACE, AT(offload_optimizer)},
    {"parallel.offload_params", "--offload-param-device", PLACE, AT(offload_params)},
    {"train.recompute", "--recompute-granularity", RECOMPUTE, AT(recompute)},
    {"train.recompute_modules", "--recompute-modules", MODULES, AT(recompute_modules)},
    {"parallel.sequence_parallel", "--sequence-parallel", FLAG, AT(sequence_parallel)},
    {"train.offload_activations", "--cpu-checkpointing", FLAG, AT(offload_activations)},
    {"train.mlp_tile", "--mlp-tile", NUMBER, AT(mlp_tile)},
    {"train.loss_tile", "--loss-tile", NUMBER, AT(loss_tile)},
    {"train.sequence_tile", "--sequence-tile", NUMBER, AT(sequence_tile)},
    {"train.recompute_layers", "--checkpoint-num-layers", NUMBER, AT(recompute_layers)},
    {"train.keep_attention", "--keep-attention-layers", NUMBER, AT(keep_attention)},
    {"train.device_inputs", "--device-checkpoint-layers", NUMBER, AT(device_inputs)},
    {"batch.micro", "--micro-batch-size", NUMBER, AT(micro)},
    {"batch.global", "--global-batch-size", NUMBER, AT(global)},
};

enum { MEMBERS = sizeof members / sizeof *members };

static int64_t get(const struct mds_layout *l, const struct member *m)
{
    const char *at = (const char *)l + m->offset;
    int64_t i;
    int n;

    if (m->kind == NUMBER) {
        memcpy(&i, at, sizeof i);
        return i;
    }
    memcpy(&n, at, sizeof n); /* enums of config.h and flags are ints */
    return n;
}

static void set(struct mds_layout *l, const struct member *m, int64_t value)
{
    char *at = (char *)l + m->offset;
    int n = (int)value;

    if (m->kind == NUMBER)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at, &n, sizeof n);
}

int mds_layout_equal(const struct mds_layout *a, const struct mds_layout *b)
{
    for (int i = 0; i < MEMBERS; i++)
        if (get(a, &members[i]) != get(b, &members[i]))
            return 0;
    return 1;
}

static unsigned bit(const char *key)
{
    for (int i = 0; i < MEMBERS; i++)
        if (strcmp(members[i].key, key) == 0)
            return 1u << i;
    return 0;
}

static unsigned set_by_user(const struct mds_config_run *run)
{
    unsigned fixed = 0;

    for (int i = 0; i < MEMBERS; i++)
        if (mds_settings_of(&run->settings, members[i].key)->level > MDS_LEVEL_DERIVED)
            fixed |= 1u << i;
    return fixed;
}

/* SP_TYPE says all of a grid, as it does where nothing is planned (config_layout.c):
 * the ranks that no size asks for are tensor ranks, or Ulysses ranks with ZeRO 3. */
static unsigned fix_by_sp_type(const struct mds_config_run *run, int64_t world,
                               unsigned fixed, struct mds_layout *now)
{
    unsigned tensor = bit("parallel.tensor"), ulysses = bit("parallel.ulysses");
    unsigned others = bit("parallel.pipeline") | bit("parallel.ring");
    int64_t taken = now->pipeline * now->ring;

    if (run->config.parallel.sp_type == MDS_SP_MEGATRON) {
        if (!(fixed & tensor) && world % (taken * now->ulysses) == 0)
            now->tensor = world / (taken * now->ulysses);
        if (!(fixed & bit("parallel.sequence_parallel")))
            now->sequence_parallel = now->tensor > 1;
        return fixed | tensor | ulysses | others | bit("parallel.sequence_parallel");
    }
    if (run->config.parallel.sp_type == MDS_SP_DS) {
        if (!(fixed & ulysses) && world % (taken * now->tensor) == 0)
            now->ulysses = world / (taken * now->tensor);
        if (!(fixed & bit("parallel.zero_stage")))
            now->zero = 3;
        return fixed | tensor | ulysses | others | bit("parallel.zero_stage");
    }
    return fixed;
}

static struct mds_layout layout_of(const struct mds_config *c)
{
    return (struct mds_layout){.tensor = c->parallel.tensor,
                               .pipeline = c->parallel.pipeline,
                               .ulysses = c->parallel.ulysses,
                               .ring = c->parallel.ring,
                               .zero = c->parallel.zero_stage,
                               .offload_optimizer = c->parallel.offload_optimizer,
                               .offload_params = c->parallel.offload_params,
                               .recompute = c->train.recompute,
                               .recompute_modules = c->train.recompute_modules,
                               .sequence_parallel = c->parallel.sequence_parallel,
                               .offload_activations = c->train.offload_activations,
                               .mlp_tile = c->train.mlp_tile,
                               .loss_tile = c->train.loss_tile,
                               .sequence_tile = c->train.sequence_tile,
                               .recompute_layers = c->train.recompute_layers,
                               .keep_attention = c->train.keep_attention,
                               .device_inputs = c->train.device_inputs,
                               .micro = c->batch.micro,
                               .global = c->batch.global};
}

unsigned mds_layout_fixed(const struct mds_config_run *run, int64_t world,
                          struct mds_layout *now)
{
    *now = layout_of(&run->config);
    return fix_by_sp_type(run, world, set_by_user(run), now);
}

const char *mds_layout_flag(int member)
{
    return member < MEMBERS ? members[member].flag : NULL;
}

struct mds_layout mds_layout_keep(struct mds_layout l, const struct mds_layout *now,
                                  unsigned fixed)
{
    for (int i = 0; i < MEMBERS; i++)
        if (fixed & 1u << i)
            set(&l, &members[i], get(now, &members[i]));
    if (l.zero < 3 || l.offload_optimizer == MDS_PLACE_DEVICE)
        l.offload_params = MDS_PLACE_DEVICE;
    if (l.recompute == MDS_RECOMPUTE_NONE)
        l.sequence_tile = 0;
    if (l.recompute != MDS_RECOMPUTE_SELECTIVE || l.sequence_tile > 0)
        l.recompute_modules = 0;
    if (l.recompute == MDS_RECOMPUTE_NONE ||
        (l.recompute == MDS_RECOMPUTE_SELECTIVE && l.sequence_tile == 0))
        l.offload_activations = 0;
    if (l.recompute != MDS_RECOMPUTE_FULL || l.recompute_layers < 1)
        l.recompute_layers = 1;
    if (l.recompute != MDS_RECOMPUTE_FULL || l.sequence_tile == 0 ||
        l.recompute_layers > 1)
        l.keep_attention = 0;
    if (l.sequence_tile == 0 || !l.offload_activations)
        l.device_inputs = 0;
    return l;
}

enum mds_rc mds_layout_apply(const struct mds_config_run *run,
                             const struct mds_layout *l, int64_t world,
                             struct mds_config *out)
{
    struct mds_config_run copy = *run;
    struct mds_config *c = &copy.config;
    struct mds_diag diag = {0};
    enum mds_rc rc;

    c->parallel.sp_type = MDS_SP_NONE;
    c->parallel.tensor = l->tensor;
    c->parallel.pipeline = l->pipeline;
    c->parallel.ulysses = l->ulysses;
    c->parallel.ring = l->ring;
    c->parallel.zero_stage = l->zero;
    c->parallel.offload_optimizer = l->offload_optimizer;
    c->parallel.offload_params = l->offload_params;
    c->parallel.sequence_parallel = l->sequence_parallel && l->tensor > 1;
    c->train.recompute = l->recompute;
    c->train.recompute_modules = l->recompute_modules;
    c->train.offload_activations = l->offload_activations;
    c->train.mlp_tile = l->mlp_tile;
    c->train.loss_tile = l->loss_tile;
    c->train.sequence_tile = l->sequence_tile;
    c->train.recompute_layers = l->recompute_layers < 1 ? 1 : l->recompute_layers;
    c->train.keep_attention = l->keep_attention;
    c->train.device_inputs = l->device_inputs;
    c->batch.micro = l->micro;
    c->batch.global = l->global;
    c->train.dry_run = 1; /* no data needed; GPT-2's vocabulary unless one is given */
    c->train.dry_world = world;
    c->train.dry_rank = 0;
    rc = mds_config_resolve(&copy, world, &diag);
    mds_diag_fini(&diag);
    if (!rc)
        *out = copy.config;
    return rc;
}

static void add_option(const struct member *m, int64_t value, struct mds_str *out)
{
    static const char *const places[] = {"none", "cpu", "nvme"};
    static const char *const recomputes[] = {"none", "selective", "full"};
    const char *blank = out->len ? " " : "";

    switch (m->kind) {
    case NUMBER:
        mds_str_add(out, "%s%s %lld", blank, m->flag, (long long)value);
        break;
    case PLACE:
        mds_str_add(out, "%s%s %s", blank, m->flag, places[value]);
        break;
    case RECOMPUTE:
        mds_str_add(out, "%s%s %s", blank, m->flag, recomputes[value]);
        break;
    case MODULES:
        mds_str_add(out, "%s%s %s", blank, m->flag,
                    mds_recompute_modules_name((int)value));
        break;
    case FLAG:
        mds_str_add(out, "%s%s", blank, m->flag);
        break;
    }
}

/* The value that needs no option. */
static int64_t unsaid(const struct member *m)
{
    return m->offset == AT(recompute_layers) ? 1
           : m->offset == AT(loss_tile)      ? MDS_DEFAULT_LOSS_TILE
                                             : 0;
}

void mds_layout_options(const struct mds_layout *l, unsigned fixed, struct mds_str *out)
{
    for (int i = 0; i < MEMBERS; i++)
        if (!(fixed & 1u << i) && get(l, &members[i]) != unsaid(&members[i]))
            add_option(&members[i], get(l, &members[i]), out);
}
