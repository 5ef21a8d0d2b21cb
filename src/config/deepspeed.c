/* DeepSpeed's JSON configuration, as far as it concerns mds_pretrain.
 * Keys: https://www.deepspeed.ai/docs/config-json/ */
#include "config/config_impl.h"
#include "config/optset_impl.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

static const struct mds_option_alias keys[] = {
    {"zero_optimization.stage", "--zero-stage", NULL, NULL},
    {"zero_optimization.offload_optimizer.device", "--offload-device", NULL, NULL},
    {"zero_optimization.offload_param.device", "--offload-param-device", NULL, NULL},
    {"gradient_clipping", "--clip-grad", NULL, NULL},
    {"train_micro_batch_size_per_gpu", "--micro-batch-size", NULL, NULL},
    {"gradient_accumulation_steps", "--gradient-accumulation-steps", NULL, NULL},
    {"train_batch_size", "--global-batch-size", NULL, NULL},
    {"fp16.enabled", "--dtype", "fp16", NULL},
    {"bf16.enabled", "--dtype", "bf16", NULL},
    {NULL, NULL, NULL, NULL},
};

enum { KEYS = sizeof keys / sizeof *keys - 1 };

/* The names among keys that stand in the same map as path, by their last part. */
static const char *nearest_sibling(const char *path)
{
    const char *dot = strrchr(path, '.');
    size_t prefix = dot ? (size_t)(dot - path) + 1 : 0, n = 0;
    const char *names[KEYS];

    for (size_t i = 0; i < KEYS; i++) {
        const char *rest = keys[i].name + prefix;

        if (strncmp(keys[i].name, path, prefix) == 0)
            names[n++] = rest;
    }
    return mds_str_nearest(path + prefix, names, n);
}

static void unknown(const char *path, const char *origin, struct mds_diag *diag)
{
    const char *near = nearest_sibling(path);

    if (near)
        mds_diag_fault(diag, origin, "unknown key %s; did you mean %s?", path, near);
    else
        mds_diag_warn(diag, origin, "%s is DeepSpeed's own and not used here", path);
}

static void put(struct mds_settings *s, const struct mds_option_alias *key,
                const char *text, const char *origin, struct mds_diag *diag)
{
    struct mds_name name;

    if (strcmp(text, "auto") == 0) /* left to the other sources */
        return;
    if (mds_name_find(s->set, MDS_NAME_FLAG, key->means, &name) == 0) {
        name.alias = key;
        mds_settings_put_name(s, &name, text, MDS_LEVEL_FILE, origin, key->name, diag);
    }
}

/* The rest of a precision's block matters only if it is enabled, which is refused
 * already. */
static int is_precision(const char *path)
{
    return strncmp(path, "fp16.", 5) == 0 || strncmp(path, "bf16.", 5) == 0;
}

static void read_leaf(struct mds_settings *s, const struct mds_node *n,
                      const char *path, const char *origin, struct mds_diag *diag)
{
    for (size_t i = 0; i < KEYS; i++)
        if (strcmp(keys[i].name, path) == 0) {
            if (n->kind == MDS_NODE_SCALAR)
                put(s, &keys[i], n->text, origin, diag);
            else
                mds_diag_fault(diag, origin, "%s must not be a list", path);
            return;
        }
    if (!is_precision(path))
        unknown(path, origin, diag);
}

static void read_map(struct mds_settings *s, const struct mds_tree *t,
                     const struct mds_node *map, const char *prefix,
                     struct mds_diag *diag)
{
    for (const struct mds_node *n = map->first; n; n = n->next) {
        struct mds_str path = {0}, origin = {0};

        mds_str_add(&path, "%s%s%s", prefix, *prefix ? "." : "", n->key);
        mds_str_add(&origin, "%s:%d", t->name, n->line);
        if (path.failed || origin.failed)
            mds_diag_fault(diag, t->name, "%s", mds_fail_text());
        else if (n->kind == MDS_NODE_MAP)
            read_map(s, t, n, path.s, diag);
        else
            read_leaf(s, n, path.s, origin.s, diag);
        mds_str_fini(&path);
        mds_str_fini(&origin);
    }
}

void mds_deepspeed_apply(struct mds_settings *s, const struct mds_tree *t,
                         struct mds_diag *diag)
{
    if (!t->root || t->root->kind != MDS_NODE_MAP)
        mds_diag_fault(diag, t->name, "must be DeepSpeed's JSON object");
    else
        read_map(s, t, t->root, "", diag);
}
