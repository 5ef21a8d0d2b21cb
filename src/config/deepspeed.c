/* SPDX-License-Identifier: BSD-3-Clause */
/* DeepSpeed's JSON configuration, as far as it concerns mds_pretrain.
 * Keys: https://www.deepspeed.ai/docs/config-json/ */
#include "config/config_impl.h"
#include "config/optset_impl.h"

#include "base/units.h"

#include <string.h>

static const char power_key[] = "fp16.initial_scale_power";

static const struct mds_option_alias keys[] = {
    {"zero_optimization.stage", "--zero-stage", NULL, NULL},
    {"zero_optimization.offload_optimizer.device", "--offload-device", NULL, NULL},
    {"zero_optimization.offload_optimizer.nvme_path", "--nvme-path", NULL, NULL},
    {"zero_optimization.offload_param.device", "--offload-param-device", NULL, NULL},
    {"zero_optimization.cpu_offload", "--offload-device", "cpu", NULL}, /* older */
    {"zero_optimization.cpu_offload_params", "--offload-param-device", "cpu", NULL},
    {"gradient_clipping", "--clip-grad", NULL, NULL},
    {"train_micro_batch_size_per_gpu", "--micro-batch-size", NULL, NULL},
    {"gradient_accumulation_steps", "--gradient-accumulation-steps", NULL, NULL},
    {"train_batch_size", "--global-batch-size", NULL, NULL},
    {"fp16.enabled", "--dtype", "fp16", NULL},
    {"fp16.loss_scale", "--loss-scale", NULL, NULL},
    {power_key, "--initial-loss-scale", NULL, NULL},
    {"fp16.loss_scale_window", "--loss-scale-window", NULL, NULL},
    {"fp16.hysteresis", "--hysteresis", NULL, NULL},
    {"fp16.min_loss_scale", "--min-loss-scale", NULL, NULL},
    {"bf16.enabled", "--dtype", "bf16", NULL},
    {"bfloat16.enabled", "--dtype", "bf16", NULL}, /* older */
    {"activation_checkpointing.partition_activations", "--partition-activations", NULL,
     NULL},
    {"activation_checkpointing.cpu_checkpointing", "--cpu-checkpointing", NULL, NULL},
    {NULL, NULL, NULL, NULL},
};

enum { KEYS = sizeof keys / sizeof *keys - 1 };

struct reader {
    struct mds_settings *s;
    const char *name; /* of the file */
    struct mds_str unused;
    struct mds_diag *diag;
};

/* Among the keys of the map that contains path, the one whose name is nearest, in
 * buf. */
static const char *nearest_sibling(const char *path, char *buf, size_t size)
{
    const char *dot = strrchr(path, '.'), *near;
    size_t prefix = dot ? (size_t)(dot - path) + 1 : 0, n = 0;
    char names[KEYS][48];
    const char *candidates[KEYS];

    for (size_t i = 0; i < KEYS; i++) {
        const char *rest = keys[i].name + prefix;

        if (strncmp(keys[i].name, path, prefix) != 0)
            continue;
        snprintf(names[n], sizeof names[n], "%.*s", (int)strcspn(rest, "."), rest);
        candidates[n] = names[n];
        n++;
    }
    near = mds_str_nearest(path + prefix, candidates, n);
    if (near)
        snprintf(buf, size, "%s", near);
    return near ? buf : NULL;
}

static void handle_unknown_key(struct reader *r, const char *path, const char *origin)
{
    char buf[48];
    const char *near = nearest_sibling(path, buf, sizeof buf);

    if (near)
        mds_diag_fault(r->diag, origin, "unknown key %s; did you mean %s?", path, near);
    else
        mds_str_add(&r->unused, "%s%s", r->unused.len ? ", " : "", path);
}

/* DeepSpeed writes the first loss scale as a power of 2; -1 if text is none. */
static int scale_of_power(const char *text, char *buf, size_t size)
{
    int64_t power;

    if (mds_parse_count(text, &power) || power < 0 || power > 62)
        return -1;
    snprintf(buf, size, "%lld", 1LL << power);
    return 0;
}

/* Scripts write this file with the precision they mean: warn if another source has
 * precedence. */
static void warn_of_other_dtype(const struct reader *r,
                                const struct mds_option_alias *key, const char *text,
                                const char *origin)
{
    const struct mds_setting *type = mds_settings_of(r->s, "model.dtype");

    if (strcmp(key->means, "--dtype") == 0 && mds_parse_flag(text) == 1 &&
        type->level > MDS_LEVEL_FILE && strcmp(type->text, key->on) != 0)
        mds_diag_warn(r->diag, origin, "%s: the run is in %s all the same (%s)",
                      key->name, type->text, type->origin);
}

static void put_deepspeed_value(struct reader *r, const struct mds_option_alias *key,
                                const char *text, const char *origin)
{
    struct mds_name name;
    char scale[24];

    if (strcmp(text, "auto") == 0) /* left to the other sources */
        return;
    if (strcmp(key->name, power_key) == 0) {
        if (scale_of_power(text, scale, sizeof scale)) {
            mds_diag_fault(r->diag, origin, "%s '%s': must be between 0 and 62",
                           power_key, text);
            return;
        }
        text = scale;
    }
    if (mds_name_find(r->s->set, MDS_NAME_FLAG, key->means, &name) == 0) {
        warn_of_other_dtype(r, key, text, origin);
        name.alias = key;
        mds_settings_put_name(r->s, &name, text, MDS_LEVEL_FILE, origin, key->name,
                              r->diag);
    }
}

static const struct mds_option_alias *find_deepspeed_key(const char *path)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, path) == 0)
            return &keys[i];
    return NULL;
}

/* Whether path is a map with keys that mds reads. */
static int is_map_of_known_keys(const char *path)
{
    size_t n = strlen(path);

    for (size_t i = 0; i < KEYS; i++)
        if (strncmp(keys[i].name, path, n) == 0 && keys[i].name[n] == '.')
            return 1;
    return 0;
}

static void read_deepspeed_map(struct reader *r, const struct mds_node *map,
                               const char *prefix);

static void read_deepspeed_entry(struct reader *r, const struct mds_node *n,
                                 const char *path, const char *origin)
{
    const struct mds_option_alias *key = find_deepspeed_key(path);

    if (key && n->kind == MDS_NODE_SCALAR)
        put_deepspeed_value(r, key, n->text, origin);
    else if (key)
        mds_diag_fault(r->diag, origin, "%s must be a value", path);
    else if (n->kind == MDS_NODE_MAP && is_map_of_known_keys(path))
        read_deepspeed_map(r, n, path);
    else if (is_map_of_known_keys(path))
        mds_diag_fault(r->diag, origin, "%s must be an object", path);
    else
        handle_unknown_key(r, path, origin);
}

static void read_deepspeed_map(struct reader *r, const struct mds_node *map,
                               const char *prefix)
{
    for (const struct mds_node *n = map->first; n; n = n->next) {
        struct mds_str path = {0}, origin = {0};

        mds_str_add(&path, "%s%s%s", prefix, *prefix ? "." : "", n->key);
        mds_str_add(&origin, "%s:%d", r->name, n->line);
        if (path.failed || origin.failed)
            mds_diag_fault(r->diag, r->name, "%s", mds_fail_text());
        else
            read_deepspeed_entry(r, n, path.s, origin.s);
        mds_str_fini(&path);
        mds_str_fini(&origin);
    }
}

void mds_deepspeed_apply(struct mds_settings *s, const struct mds_tree *t,
                         struct mds_diag *diag)
{
    struct reader r = {.s = s, .name = t->name, .diag = diag};

    if (!t->root || t->root->kind != MDS_NODE_MAP) {
        mds_diag_fault(diag, t->name, "must be DeepSpeed's JSON object");
        return;
    }
    read_deepspeed_map(&r, t->root, "");
    if (r.unused.s)
        mds_diag_warn(diag, t->name, "DeepSpeed's own, not used here: %s", r.unused.s);
    mds_str_fini(&r.unused);
}
