/* SPDX-License-Identifier: BSD-3-Clause */
/* Inherits the model's settings from a checkpoint, and compares a checkpoint's settings
 * with a run's. */
#include "config/config_impl.h"
#include "config/optset_impl.h"

#include <stdio.h>
#include <string.h>

/* ---- which settings ---- */

/* What a setting decides: which function the weights compute, always or by the kind of
 * the model's positions; what training makes of them; or neither. */
enum relevance { NEVER, TRAINING, ALWAYS, WITH_ROPE, WITH_LEARNED };

/* A setting of the model that is not named here decides the function. */
static const struct {
    const char *key;
    enum relevance relevance;
} exceptions[] = {
    {"model.size_key", NEVER},
    {"model.table", NEVER},
    {"model.seq_length", TRAINING},
    {"model.vocab", NEVER},
    {"model.vocab_divisor", NEVER},
    {"model.init_std", NEVER},
    {"model.hidden_dropout", TRAINING},
    {"model.attention_dropout", TRAINING},
    {"model.expert_balance", TRAINING},
    {"model.expert_balance_loss", TRAINING},
    {"model.expert_z_loss", TRAINING},
    {"model.expert_bias_rate", TRAINING},
    {"model.type", NEVER},
    {"model.dtype", TRAINING},
    {"model.fp8_format", TRAINING},
    {"model.fp8_recipe", TRAINING},
    {"model.fp8_wgrad", TRAINING},
    {"model.first_last_layers_bf16", TRAINING},
    {"model.layers_at_start_in_bf16", TRAINING},
    {"model.layers_at_end_in_bf16", TRAINING},
    {"model.flash_attn", NEVER},
    {"model.max_positions", WITH_LEARNED},
    {"model.rotary_percent", WITH_ROPE},
    {"model.rotary_base", WITH_ROPE},
    {"model.rope_scaling_type", WITH_ROPE},
    {"model.rope_scaling_factor", WITH_ROPE},
    {"model.rope_original", WITH_ROPE},
    {"model.rope_beta_fast", WITH_ROPE},
    {"model.rope_beta_slow", WITH_ROPE},
    {"model.rope_attention_factor", WITH_ROPE},
};

static enum relevance relevance_of(const char *key)
{
    if (strncmp(key, "model.", 6) != 0)
        return NEVER;
    for (size_t i = 0; i < sizeof exceptions / sizeof *exceptions; i++)
        if (strcmp(exceptions[i].key, key) == 0)
            return exceptions[i].relevance;
    return ALWAYS;
}

int mds_config_affects_model(const char *key)
{
    return relevance_of(key) > TRAINING;
}

static const char *const fp8_keys[] = {"model.fp8_format",
                                       "model.fp8_recipe",
                                       "model.fp8_wgrad",
                                       "model.first_last_layers_bf16",
                                       "model.layers_at_start_in_bf16",
                                       "model.layers_at_end_in_bf16",
                                       NULL};

/* Settings that a run may change when it resumes, and that affect the losses. */
static int is_reported_change(const char *key)
{
    static const char *const others[] = {
        "train.seed",  "train.iters", "train.samples", "train.tokens", "batch.rampup",
        "batch.steps", NULL};

    if (strncmp(key, "optim.", 6) == 0 || strncmp(key, "data.", 5) == 0)
        return 1;
    if (strncmp(key, "parallel.", 9) == 0)
        return strcmp(key, "parallel.nvme_path") != 0 &&
               strcmp(key, "parallel.timeout") != 0;
    return relevance_of(key) == TRAINING || mds_str_is_in(key, others);
}

/* ---- a saved configuration ---- */

static const char not_set[] = "~"; /* YAML's null */

struct saved {
    const char *text;
    struct mds_tree *tree;
};

static enum mds_rc parse_saved(const char *text, const char *name, struct saved *out)
{
    *out = (struct saved){.text = text};
    return mds_tree_parse(text, strlen(text), name, &out->tree);
}

static const struct mds_node *find_written_setting(const struct saved *s,
                                                   const char *key)
{
    const char *dot = strchr(key, '.');
    const struct mds_node *n = s->tree->root;
    char map[32];

    if (dot) {
        snprintf(map, sizeof map, "%.*s", (int)(dot - key), key);
        n = mds_node_get(n, map);
    }
    n = mds_node_get(n, dot ? dot + 1 : key);
    return n && n->text ? n : NULL;
}

static int is_set(const struct saved *s, const char *key)
{
    const struct mds_node *n = find_written_setting(s, key);

    return n && strcmp(n->text, not_set) != 0;
}

static int has_data(const struct saved *s)
{
    return is_set(s, "data.paths") || is_set(s, "data.train_paths");
}

enum mds_rc mds_saved_has_data(const char *text, const char *name, int *out)
{
    struct saved s;

    MDS_TRY(parse_saved(text, name, &s));
    *out = has_data(&s);
    mds_tree_destroy(s.tree);
    return MDS_OK;
}

/* "model.heads"; NULL where the text has none, as that of an older version: without
 * data.split_at it cut by tokens, without data.pack_documents it did not pack. */
static const struct mds_node *find_setting(const struct saved *s, const char *key)
{
    static const struct mds_node by_tokens = {.key = "split_at", .text = "tokens"};
    static const struct mds_node off = {.key = "pack_documents", .text = "off"};
    const struct mds_node *n = find_written_setting(s, key);

    if (strncmp(key, "data.", 5) == 0 && !has_data(s))
        return NULL;
    if (n)
        return n;
    return strcmp(key, "data.split_at") == 0         ? &by_tokens
           : strcmp(key, "data.pack_documents") == 0 ? &off
                                                     : NULL;
}

/* Whether a value follows again from others.  What the data decided does not: they may
 * be others now. */
static int is_derived(const struct saved *s, const struct mds_node *n)
{
    const char *line = s->text;

    if (strcmp(n->key, "pack_documents") == 0)
        return 0;
    for (int i = 1; i < n->line; i++)
        line += strcspn(line, "\n") + 1;
    return mds_settings_is_derived(line, strcspn(line, "\n"));
}

/* ---- inheriting ---- */

static void inherit_setting(struct mds_config_run *run, const struct saved *s,
                            const char *key, int also_derived, const char *origin,
                            struct mds_diag *diag)
{
    const struct mds_node *n = find_setting(s, key);

    if (n && (also_derived || !is_derived(s, n)))
        mds_settings_put(&run->settings, mds_settings_row(&run->settings, key), n->text,
                         MDS_LEVEL_CHECKPOINT, origin, key, diag);
}

void mds_config_limit_seq_length(struct mds_config_run *run, const char *origin,
                                 struct mds_diag *diag)
{
    const struct mds_model_config *m = &run->config.model;
    struct mds_settings *s = &run->settings;
    char rows[32];

    if (m->position != MDS_POSITION_LEARNED || m->max_positions == 0 ||
        m->max_positions >= m->seq_length ||
        mds_settings_of(s, "model.seq_length")->level != MDS_LEVEL_DEFAULT)
        return;
    snprintf(rows, sizeof rows, "%lld", (long long)m->max_positions);
    mds_settings_put(s, mds_settings_row(s, "model.seq_length"), rows,
                     MDS_LEVEL_CHECKPOINT, origin, "model.max_positions", diag);
}

static int has_equal_value(const struct mds_option *o, const char *a, const char *b)
{
    union mds_value va = {0}, vb = {0};
    struct mds_str why = {0};
    int parsed =
        !mds_option_parse(o, a, &va, &why) && !mds_option_parse(o, b, &vb, &why);

    mds_str_fini(&why);
    return parsed ? mds_value_equal(o, va, vb) : strcmp(a, b) == 0;
}

/* Take a setting that is at its default here and was not in the checkpoint. */
static void inherit_default(struct mds_config_run *run, const struct saved *s,
                            const char *key, const char *origin, struct mds_diag *diag)
{
    const struct mds_option *o = mds_option_of(&mds_pretrain_options, key);
    const struct mds_node *n = find_setting(s, key);

    if (n && !has_equal_value(o, o->fallback, n->text) &&
        mds_settings_of(&run->settings, key)->level == MDS_LEVEL_DEFAULT)
        inherit_setting(run, s, key, 0, origin, diag);
}

/* A run has sequences of the same length, and computes in the same types, as the one
 * that saved, if neither the user nor the machine's profile says otherwise.  FP8 is
 * only for bf16. */
static void inherit_defaults(struct mds_config_run *run, const struct saved *s,
                             const char *origin, struct mds_diag *diag)
{
    inherit_default(run, s, "model.seq_length", origin, diag);
    inherit_default(run, s, "model.dtype", origin, diag);
    for (int i = 0; run->config.train.type == MDS_TYPE_BF16 && fp8_keys[i]; i++)
        inherit_default(run, s, fp8_keys[i], origin, diag);
}

/* How samples are made: a run goes on with those it began with. */
static const char *const data_keys[] = {"data.split_at",
                                        "data.pack_documents",
                                        "data.window_stride",
                                        "data.reset_attention_mask",
                                        "data.reset_position_ids",
                                        "data.eod_mask_loss",
                                        "data.random_reverse_complement"};

enum mds_rc mds_config_inherit_model(struct mds_config_run *run, const char *text,
                                     const char *name, struct mds_diag *diag)
{
    const struct mds_option *o = mds_pretrain_options.options;
    struct mds_str origin = {0};
    const struct mds_node *position;
    struct saved s;
    enum mds_rc rc;
    int learned;

    MDS_TRY(parse_saved(text, name, &s));
    mds_str_add(&origin, "checkpoint %s", name);
    position = find_setting(&s, "model.position");
    learned = position && strcmp(position->text, "learned_absolute") == 0;
    /* Derived values follow again from those taken, but for the rows of a position
     * table, which followed from that run's sequence length. */
    for (; !origin.failed && o->help; o++)
        if (o->key && mds_config_affects_model(o->key))
            inherit_setting(run, &s, o->key,
                            learned && relevance_of(o->key) == WITH_LEARNED, origin.s,
                            diag);
    if (!origin.failed) {
        inherit_setting(run, &s, "model.vocab", 1, origin.s, diag);
        inherit_defaults(run, &s, origin.s, diag);
        mds_config_limit_seq_length(run, origin.s, diag);
    }
    for (size_t i = 0; i < sizeof data_keys / sizeof *data_keys; i++)
        if (!origin.failed && !run->config.checkpoint.finetune)
            inherit_setting(run, &s, data_keys[i], 0, origin.s, diag);
    rc = origin.failed ? MDS_EMEM : mds_diag_result(diag);
    mds_str_fini(&origin);
    mds_tree_destroy(s.tree);
    return rc;
}

/* ---- what changed ---- */

/* A value as one gives it behind the flag. */
static const char *format_for_flag(const struct mds_option *o, const char *text)
{
    if (strcmp(text, not_set) == 0)
        return "none";
    if (o->type == MDS_OPT_FLAG && o->inverted)
        return mds_parse_flag(text) == 1 ? "false" : "true";
    return text;
}

static void add_change(const struct mds_option *o, const char *was, const char *is,
                       struct mds_str *out)
{
    mds_str_add(out, "%s%s %s (now %s)", out->len ? ", " : "", o->flag,
                format_for_flag(o, was), format_for_flag(o, is));
}

/* Whether the setting matters to a model with such positions. */
static int is_relevant_to(const char *key, const struct saved *now)
{
    const struct mds_node *position = find_setting(now, "model.position");
    const char *kind = position ? position->text : "";
    enum relevance relevance = relevance_of(key);

    return relevance == ALWAYS ||
           (relevance == WITH_ROPE && strcmp(kind, "rope") == 0) ||
           (relevance == WITH_LEARNED && strcmp(kind, "learned_absolute") == 0);
}

static void compare_setting(const struct mds_option *o, const struct saved *before,
                            const struct saved *now, struct mds_config_changes *out)
{
    const struct mds_node *a = find_setting(before, o->key),
                          *b = find_setting(now, o->key);
    int relevant = is_relevant_to(o->key, now);
    /* An older version had no such setting, and did what is the default now. */
    const char *fallback =
        !o->fallback && o->type == MDS_OPT_STRING ? not_set : o->fallback;
    const char *was = a ? a->text : relevant ? fallback : NULL;

    if (!was || !b || has_equal_value(o, was, b->text))
        return;
    if (relevant)
        add_change(o, was, b->text, &out->function);
    else if (is_reported_change(o->key) && !is_derived(now, b) &&
             !is_derived(before, a))
        add_change(o, was, b->text, &out->others);
}

enum mds_rc mds_config_compare(const char *before, const char *name, const char *now,
                               struct mds_config_changes *out)
{
    const struct mds_option *o = mds_pretrain_options.options;
    struct saved a = {0}, b = {0};
    enum mds_rc rc = parse_saved(before, name, &a);

    *out = (struct mds_config_changes){0};
    if (!rc)
        rc = parse_saved(now, "this run", &b);
    for (; !rc && o->help; o++)
        if (o->key && o->flag)
            compare_setting(o, &a, &b, out);
    if (!rc && (out->function.failed || out->others.failed))
        rc = mds_fail(MDS_EMEM, "no host memory");
    mds_tree_destroy(a.tree);
    mds_tree_destroy(b.tree);
    if (rc)
        mds_config_changes_fini(out);
    return rc;
}

void mds_config_changes_fini(struct mds_config_changes *c)
{
    mds_str_fini(&c->function);
    mds_str_fini(&c->others);
}
