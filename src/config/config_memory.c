/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks that ZeRO, offload, recompute and precision can be combined. */
#include "config/config_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every rank checks the folder on its own node. */
static void check_nvme_folder(const struct mds_config_run *run, struct mds_diag *diag)
{
    const char *path = run->config.parallel.nvme_path;
    const char *why = NULL;
    struct stat st;

    if (stat(path, &st))
        why = strerror(errno);
    else if (!S_ISDIR(st.st_mode))
        why = strerror(ENOTDIR);
    else if (access(path, W_OK | X_OK))
        why = strerror(errno);
    if (why)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.nvme_path"),
                       "--nvme-path %s: %s; it must be a folder that can be written",
                       path, why);
}

static void check_offload(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_parallel_config *p = &run->config.parallel;

    if (p->offload_params != MDS_PLACE_DEVICE && p->zero_stage < 3)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.offload_params"),
                       "--offload-param-device cpu: weights can be offloaded only with "
                       "ZeRO 3, and this is stage %lld; give --zero-stage 3, or none",
                       (long long)p->zero_stage);
    else if (p->offload_params != MDS_PLACE_DEVICE &&
             p->offload_optimizer == MDS_PLACE_DEVICE)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.offload_params"),
                       "--offload-param-device cpu: offloaded weights are updated on "
                       "the host; give --offload-device cpu (--cpu-optimizer), too");
    if (p->offload_optimizer != MDS_PLACE_NVME)
        return;
    if (!p->nvme_path)
        mds_diag_fault(diag, mds_config_origin(run, "parallel.offload_optimizer"),
                       "--offload-device nvme needs a folder on a local disk; give "
                       "--nvme-path (NVME_PATH), such as /local/scratch");
    else if (run->action == MDS_ACTION_RUN && !run->config.train.dry_run)
        check_nvme_folder(run, diag);
}

static struct mds_act_ranks activation_ranks(const struct mds_config *c)
{
    const struct mds_parallel_config *p = &c->parallel;

    return (struct mds_act_ranks){
        .tensor = p->tensor,
        .sequence_parallel = p->sequence_parallel,
        .hidden = c->model.hidden,
        .kv_heads = c->model.qk_norm_across_heads
                        ? 1
                        : mds_act_kv_heads(c->model.kv_heads, p->tensor * p->ulysses),
        .blocks = mds_stage_blocks(c),
        .whose = p->virtual_stages > 1 ? "stage's chunk"
                 : p->pipeline > 1     ? "stage"
                                       : "model",
    };
}

/* ---- the level of activation memory ---- */

/* What the user gave of level and options. */
struct requested {
    struct mds_activations values;
    int level;          /* MDS_ACT_NO_LEVEL: none is in force */
    unsigned given;     /* options that hold beside the level */
    const char *nearer; /* key of an option that holds instead of a level; or NULL */
    const char *beside; /* key of one that says what the level does; or NULL */
};

/* If a level and an option set the same thing, the one with precedence counts. */
static struct requested requested_activations(const struct mds_config_run *run)
{
    const char *text = run->config.train.activation_memory;
    enum mds_level said =
        mds_settings_of(&run->settings, "train.activation_memory")->level;
    struct mds_activations values = run->config.train.act;
    unsigned words = 0;
    int asked = text ? mds_act_read(text, &values, &words) : MDS_ACT_NO_LEVEL;
    unsigned policy = asked == MDS_ACT_NO_LEVEL ? 0 : mds_act_level_policy();
    unsigned tiles = asked == MDS_ACT_NO_LEVEL ? 0 : mds_act_level_tiles();
    struct requested a = {.values = run->config.train.act, .level = MDS_ACT_NO_LEVEL};

    for (int i = 0; i < MDS_ACT_OPTIONS; i++) {
        const char *key = mds_act_options[i].key;
        enum mds_level level = mds_settings_of(&run->settings, key)->level;
        int is_policy = (policy & 1u << i) != 0;

        if (mds_act_options[i].word || level <= MDS_LEVEL_DERIVED ||
            (level < said && (policy | tiles) & 1u << i))
            continue;
        a.given |= 1u << i;
        if (is_policy && level > said)
            a.nearer = key;
        else if (is_policy)
            a.beside = key;
    }
    if (!a.nearer) {
        a.values = values;
        a.level = asked;
        a.given |= words;
    }
    return a;
}

int64_t mds_config_tile(const struct mds_model_config *m, int64_t ranks)
{
    return mds_act_tile(m->seq_length / ranks);
}

static int64_t default_tile(const struct mds_config *c)
{
    return mds_config_tile(&c->model, c->parallel.ulysses * c->parallel.ring);
}

int mds_config_next_level(const struct mds_config *c, int *level,
                          struct mds_config *out)
{
    const struct mds_act_ranks ranks = activation_ranks(c);
    const struct mds_train_config *t = &c->train;
    struct mds_activations a;

    while (*level < MDS_ACT_LEVELS)
        if (mds_act_at_level((*level)++, default_tile(c), &t->act, t->act_given, &ranks,
                             &a) &&
            (memcmp(&a, &out->train.act, sizeof a) != 0 || out->train.act_is_open)) {
            *out = *c;
            out->train.act = a;
            out->train.act_is_open = 0;
            return 1;
        }
    return 0;
}

/* Words of a level that are about tiles, which a rank with few tokens does not have. */
static unsigned words_without_tiles(const struct mds_config *c,
                                    const struct requested *r)
{
    return mds_act_level_is_tiled(r->level) && !default_tile(c) &&
                   !r->values.sequence_tile
               ? r->given & mds_act_words()
               : 0;
}

/* For auto apply the last level that is allowed, because it needs least memory. */
static void apply_activation_level(struct mds_config *c,
                                   const struct requested *requested)
{
    const struct mds_act_ranks ranks = activation_ranks(c);
    unsigned given = requested->given & ~words_without_tiles(c, requested);
    struct mds_activations a;
    int is_open = requested->level == MDS_ACT_OPEN_LEVEL;
    int level = is_open ? MDS_ACT_LEVELS - 1 : requested->level;

    while (!mds_act_at_level(level, default_tile(c), &requested->values, given, &ranks,
                             &a) &&
           is_open && level > 0)
        level--;
    c->train.act = a;
    c->train.act_is_open = is_open;
    c->train.act_given = given;
}

static void resolve_activation_level(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct requested requested = requested_activations(run);
    const unsigned sets = mds_act_level_policy() | mds_act_level_tiles();
    const char *text = run->config.train.activation_memory;
    char how[96];

    run->config.train.act = requested.values;
    run->config.train.act_is_open = 0;
    run->config.train.act_given = requested.given & ~mds_act_level_policy();
    if (requested.nearer) {
        mds_diag_warn(diag, mds_config_origin(run, "train.activation_memory"),
                      "--activation-memory %s is ignored: %s (%s) has precedence", text,
                      mds_settings_flag(&run->settings, requested.nearer),
                      mds_config_origin(run, requested.nearer));
        mds_settings_derived(&run->settings, "train.activation_memory", "not used");
    } else if (requested.level != MDS_ACT_NO_LEVEL && requested.beside) {
        mds_diag_fault(diag, mds_config_origin(run, "train.activation_memory"),
                       "--activation-memory %s and %s (%s) both say what blocks save; "
                       "leave out one of them",
                       text, mds_settings_flag(&run->settings, requested.beside),
                       mds_config_origin(run, requested.beside));
    } else if (requested.level != MDS_ACT_NO_LEVEL) {
        if (words_without_tiles(&run->config, &requested))
            mds_diag_warn(
                diag, mds_config_origin(run, "train.activation_memory"),
                "--activation-memory %s: no rank has more than %d tokens of a "
                "sequence, so there are no tiles, and the level is taken alone",
                text, MDS_ACT_TILE);
        apply_activation_level(&run->config, &requested);
        snprintf(how, sizeof how, "%s--activation-memory %s",
                 run->config.train.act_is_open ? "the last level of " : "", text);
        for (int i = 0; i < MDS_ACT_OPTIONS; i++)
            if (sets & ~requested.given & 1u << i)
                mds_settings_derived(&run->settings, mds_act_options[i].key, how);
    }
}

unsigned mds_config_fixed_activations(const struct mds_config_run *run,
                                      struct mds_activations *now)
{
    const struct requested requested = requested_activations(run);
    struct mds_config c = run->config;

    *now = requested.values;
    if (requested.level == MDS_ACT_NO_LEVEL || requested.level == MDS_ACT_OPEN_LEVEL)
        return requested.given;
    apply_activation_level(&c, &requested);
    *now = c.train.act;
    return requested.given | mds_act_level_policy() | mds_act_level_tiles();
}

/* Files of DeepSpeed have these also for runs that recompute nothing. */
static int is_idle_in_deepspeed(const struct mds_config_run *run,
                                const struct mds_act_option *o)
{
    const char *spelled = mds_settings_of(&run->settings, o->key)->spelled;

    return run->config.train.act.recompute != MDS_RECOMPUTE_FULL && spelled &&
           strncmp(spelled, "activation_checkpointing.", 25) == 0;
}

static void check_activations(struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_act_ranks ranks = activation_ranks(&run->config);
    struct mds_act_finding f;

    for (int at = 0; mds_act_check(&run->config.train.act, &ranks, &at, &f);) {
        const char *origin = mds_config_origin(run, f.option->key);
        int idle = f.effect == MDS_ACT_FAULT && is_idle_in_deepspeed(run, f.option);

        if (idle) {
            mds_act_set(&run->config.train.act, f.option, 0);
            f.effect = MDS_ACT_OFF;
        }
        if (f.effect == MDS_ACT_FAULT)
            mds_diag_fault(diag, origin, "%s", f.text);
        else
            mds_diag_warn(diag, origin, "%s%s", f.text, idle ? "; it is ignored" : "");
        if (f.effect == MDS_ACT_OFF)
            mds_settings_derived(&run->settings, f.option->key, "nothing to cut");
    }
}

static void check_loss_scale(const struct mds_config_run *run, struct mds_diag *diag)
{
    const struct mds_train_config *t = &run->config.train;

    if (t->loss_scale > 0 && t->type != MDS_TYPE_F16)
        mds_diag_warn(diag, mds_config_origin(run, "optim.loss_scale"),
                      "--loss-scale %g is ignored: only fp16 needs it", t->loss_scale);
    if (t->type == MDS_TYPE_F16 && t->min_loss_scale > t->initial_loss_scale)
        mds_diag_fault(diag, mds_config_origin(run, "optim.min_loss_scale"),
                       "--min-loss-scale %g is above --initial-loss-scale %g",
                       t->min_loss_scale, t->initial_loss_scale);
}

void mds_config_check_memory(struct mds_config_run *run, struct mds_diag *diag)
{
    check_offload(run, diag);
    resolve_activation_level(run, diag);
    check_activations(run, diag);
    check_loss_scale(run, diag);
}
