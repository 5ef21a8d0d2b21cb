/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading config.json: a table for each architecture. */
#include "base/units.h"
#include "ckpt/hf.h"
#include "config/tree.h"

#include <stdio.h>
#include <string.h>

/* A number of config.json, and the setting of mds that it becomes. */
struct number {
    const char *theirs, *ours;
    const char *fallback; /* if it is missing or null; NULL: it is required */
    const char *rope;     /* its key in rope_parameters, which newer versions write */
    const char *also;     /* its key in newer versions */
};

/* A setting of config.json of which mds supports some values only. */
struct fixed {
    const char *theirs;
    const char *only; /* supported values, with a blank before and after each */
    const char *fallback;
};

struct form {
    const struct number *numbers[4]; /* lists; NULL ends */
    const struct fixed *fixed;
    const char *activation,
        *activation_fallback; /* its key, and the value if that is missing */
    int gated;
    const char *constant;    /* settings that follow from the architecture */
    const char *tied;        /* if tie_word_embeddings is missing */
    const char *of_llama[4]; /* fallbacks of llama_names; NULL: it has none of these */
};

static const struct number gpt2_numbers[] = {
    {"n_layer", "layers", NULL, NULL, NULL},
    {"n_embd", "hidden", NULL, NULL, NULL},
    {"n_head", "heads", NULL, NULL, NULL},
    {"n_inner", "ffn_hidden", "0", NULL, NULL},
    {"n_positions", "max_positions", NULL, NULL, NULL},
    {"vocab_size", "vocab", NULL, NULL, NULL},
    {"layer_norm_epsilon", "norm_eps", "1e-5", NULL, NULL},
    {0},
};
static const struct fixed gpt2_fixed[] = {
    {"scale_attn_weights", " true ", "true"},
    {"scale_attn_by_inverse_layer_idx", " false ", "false"},
    {"add_cross_attention", " false ", "false"},
    {0},
};
/* The names that gpt_neox, llama, qwen2 and qwen3 share. */
static const struct number size_numbers[] = {
    {"num_hidden_layers", "layers", NULL, NULL, NULL},
    {"hidden_size", "hidden", NULL, NULL, NULL},
    {"num_attention_heads", "heads", NULL, NULL, NULL},
    {"intermediate_size", "ffn_hidden", NULL, NULL, NULL},
    {"max_position_embeddings", "max_positions", NULL, NULL, NULL},
    {"vocab_size", "vocab", NULL, NULL, NULL},
    {0},
};
static const struct number neox_numbers[] = {
    {"layer_norm_eps", "norm_eps", "1e-5", NULL, NULL},
    {"rotary_pct", "rotary_percent", "0.25", "partial_rotary_factor", NULL},
    {"rotary_emb_base", "rotary_base", "10000", "rope_theta", NULL},
    {0},
};
static const struct fixed neox_fixed[] = {
    {"attention_bias", " true ", "true"},
    {0},
};
static const struct number mixtral_numbers[] = {
    {"num_local_experts", "experts", "8", NULL, NULL},
    {"num_experts_per_tok", "expert_topk", "2", NULL, NULL},
    {0},
};
static const struct number qwen3_moe_numbers[] = {
    {"num_experts", "experts", "128", NULL, "num_local_experts"},
    {"num_experts_per_tok", "expert_topk", "8", NULL, NULL},
    {"moe_intermediate_size", "expert_ffn_hidden", "768", NULL, NULL},
    {0},
};
static const struct fixed mixtral_fixed[] = {
    {"sliding_window", " none ", "none"},
    {0},
};
static const struct fixed qwen3_moe_fixed[] = {
    {"attention_bias", " false ", "false"},
    {"use_sliding_window", " false ", "false"},
    {0},
};
static const struct number olmoe_numbers[] = {
    {"num_experts", "experts", "64", NULL, "num_local_experts"},
    {"num_experts_per_tok", "expert_topk", "8", NULL, NULL},
    {0},
};
static const struct fixed olmoe_fixed[] = {
    {"attention_bias", " false ", "false"},
    {"clip_qkv", " none ", "none"},
    {0},
};
static const struct fixed llama_fixed[] = {
    {0},
};
static const struct fixed qwen3_fixed[] = {
    {"attention_bias", " false ", "false"},
    {0},
};

static const struct form gpt2_form = {
    .numbers = {gpt2_numbers},
    .fixed = gpt2_fixed,
    .activation = "activation_function",
    .activation_fallback = "gelu_new",
    .constant = "  position: learned_absolute\n  norm: LayerNorm\n"
                "  linear_bias: true\n",
    .tied = "true",
};
static const struct form neox_form = {
    .numbers = {size_numbers, neox_numbers},
    .fixed = neox_fixed,
    .activation = "hidden_act",
    .activation_fallback = "gelu",
    .constant = "  position: rope\n  norm: LayerNorm\n"
                "  linear_bias: true\n",
    .tied = "false",
};
/* What llama and those of its shape have in common. */
#define OF_LLAMA(EPSILON, BASE, KV_HEADS, HEAD_DIM)                                    \
    .activation = "hidden_act", .activation_fallback = "silu", .gated = 1,             \
    .tied = "false", .of_llama = {EPSILON, BASE, KV_HEADS, HEAD_DIM}

static const struct form llama_form = {
    .numbers = {size_numbers},
    .fixed = llama_fixed,
    OF_LLAMA("1e-6", "10000", "0", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n",
};
static const struct form mistral_form = {
    .numbers = {size_numbers},
    .fixed = llama_fixed,
    OF_LLAMA("1e-6", "10000", "8", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n"
                "  linear_bias: false\n",
};
static const struct form qwen2_form = {
    .numbers = {size_numbers},
    .fixed = llama_fixed,
    OF_LLAMA("1e-6", "10000", "32", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n"
                "  linear_bias: false\n  qkv_bias: true\n",
};
static const struct form qwen3_form = {
    .numbers = {size_numbers},
    .fixed = qwen3_fixed,
    OF_LLAMA("1e-6", "10000", "32", "128"),
    .constant = "  position: rope\n  norm: RMSNorm\n"
                "  qk_layernorm: true\n  linear_bias: false\n",
};

static const struct form mixtral_form = {
    .numbers = {size_numbers, mixtral_numbers},
    .fixed = mixtral_fixed,
    OF_LLAMA("1e-5", "1000000", "8", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n  linear_bias: false\n",
};
static const struct form qwen3_moe_form = {
    .numbers = {size_numbers, qwen3_moe_numbers},
    .fixed = qwen3_moe_fixed,
    OF_LLAMA("1e-6", "10000", "4", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n"
                "  qk_layernorm: true\n  linear_bias: false\n",
};
static const struct form olmo2_form = {
    .numbers = {size_numbers},
    .fixed = qwen3_fixed,
    OF_LLAMA("1e-5", "10000", "0", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n  norm_placement: after\n"
                "  qk_layernorm: true\n  qk_norm_across_heads: true\n"
                "  linear_bias: false\n",
};
static const struct form olmoe_form = {
    .numbers = {size_numbers, olmoe_numbers},
    .fixed = olmoe_fixed,
    OF_LLAMA("1e-5", "10000", "0", "0"),
    .constant = "  position: rope\n  norm: RMSNorm\n"
                "  qk_layernorm: true\n  qk_norm_across_heads: true\n"
                "  linear_bias: false\n",
};
#undef OF_LLAMA

static const struct form *const forms[] = {
    [MDS_HF_GPT2] = &gpt2_form,           [MDS_HF_NEOX] = &neox_form,
    [MDS_HF_LLAMA] = &llama_form,         [MDS_HF_MISTRAL] = &mistral_form,
    [MDS_HF_MINISTRAL] = &mistral_form,   [MDS_HF_QWEN3] = &qwen3_form,
    [MDS_HF_QWEN2] = &qwen2_form,         [MDS_HF_MIXTRAL] = &mixtral_form,
    [MDS_HF_QWEN3_MOE] = &qwen3_moe_form, [MDS_HF_OLMO2] = &olmo2_form,
    [MDS_HF_OLMOE] = &olmoe_form,
};

static const char *const llama_names[4][2] = {{"rms_norm_eps", "norm_eps"},
                                              {"rope_theta", "rotary_base"},
                                              {"num_key_value_heads", "kv_heads"},
                                              {"head_dim", "head_dim"}};

/* The value of a key; NULL if it is missing, null or not a scalar. */
static const char *get_value(const struct mds_tree *t, const char *key)
{
    const struct mds_node *n = mds_node_get(t->root, key);

    return n && n->text && strcmp(n->text, "null") != 0 ? n->text : NULL;
}

static enum mds_rc get_number(const struct mds_tree *t, const struct mds_node *rope,
                              const struct number *is, struct mds_str *out)
{
    const struct mds_node *inside = is->rope ? mds_node_get(rope, is->rope) : NULL;
    const char *text = inside && inside->text ? inside->text : get_value(t, is->theirs);
    double number;

    if (!text && is->also)
        text = get_value(t, is->also);
    if (!text)
        text = is->fallback;
    if (!text)
        return mds_fail(MDS_EUSER, "%s: %s is missing", t->name, is->theirs);
    if (mds_parse_real(text, &number) != 0)
        return mds_fail(MDS_EUSER, "%s: %s is '%s', not a number", t->name, is->theirs,
                        text);
    mds_str_add(out, "  %s: %s\n", is->ours, text);
    return MDS_OK;
}

static enum mds_rc check_fixed(const struct mds_tree *t, const struct fixed *is)
{
    const char *text = get_value(t, is->theirs);
    char word[64];

    if (!text)
        text = is->fallback;
    snprintf(word, sizeof word, " %s ", text);
    if (strstr(is->only, word))
        return MDS_OK;
    return mds_fail(MDS_EUSER, "%s: %s is %s; mds supports%sonly", t->name, is->theirs,
                    text, is->only);
}

/* The activation function; architectures have either gated or ungated ones. */
static enum mds_rc get_activation(const struct mds_tree *t, const struct form *f,
                                  struct mds_str *out)
{
    const char *text = get_value(t, f->activation);
    struct mds_str known = {0};
    char word[64];
    int found = 0;

    text = text ? text : f->activation_fallback;
    snprintf(word, sizeof word, " %s ", text);
    for (int k = 0; k < MDSK_ACTIVATION_KINDS; k++) {
        const struct mdsk_activation *is = mdsk_activation_of(k);
        int same = is->gated == f->gated && strstr(is->other_names, word);

        found |= same;
        if (is->gated == f->gated)
            mds_str_add(&known, "%s%s", known.len ? "" : " ", is->other_names + 1);
        if (k > 0)
            mds_str_add(out, "  %s: %s\n", is->name, same ? "true" : "false");
    }
    if (!found)
        (void)mds_fail(MDS_EUSER, "%s: %s is %s; mds supports%sonly", t->name,
                       f->activation, text, known.failed ? " others " : known.s);
    mds_str_fini(&known);
    return found ? MDS_OK : MDS_EUSER;
}

/* A setting of ours that is such a value, or if `negated` its opposite. */
static enum mds_rc add_flag(const struct mds_tree *t, const char *key,
                            const char *fallback, const char *ours, int negated,
                            struct mds_str *out)
{
    int on;

    MDS_TRY(mds_hf_get_flag(t, t->root, key, fallback, &on));
    mds_str_add(out, "  %s: %s\n", ours, on != negated ? "true" : "false");
    return MDS_OK;
}

static enum mds_rc get_kind(const struct mds_tree *t, enum mds_hf_kind *kind)
{
    const char *type = get_value(t, "model_type");

    for (int i = 0; i < MDS_HF_KINDS; i++)
        if (type && strcmp(type, mds_hf_name((enum mds_hf_kind)i)) == 0) {
            *kind = (enum mds_hf_kind)i;
            return MDS_OK;
        }
    return mds_fail(MDS_EUSER,
                    "%s: model_type is %s; mds reads gpt2, gpt_neox, llama, mistral, "
                    "ministral, mixtral, olmo2, olmoe, qwen2, qwen3 and qwen3_moe",
                    t->name, type ? type : "missing");
}

/* In mds all linear layers have biases, or none: biases that the folder lacks become 0.
 */
static enum mds_rc get_biases(const struct mds_tree *t, struct mds_hf_source *source,
                              struct mds_str *out)
{
    int attention, mlp;

    MDS_TRY(mds_hf_get_flag(t, t->root, "attention_bias", "false", &attention));
    MDS_TRY(mds_hf_get_flag(t, t->root, "mlp_bias", "false", &mlp));
    if (attention != mlp)
        source->unbiased = attention ? ".mlp." : ".self_attn.";
    mds_str_add(out, "  linear_bias: %s\n", attention || mlp ? "true" : "false");
    return MDS_OK;
}

static int is_in(const struct mds_node *list, int64_t layer)
{
    int64_t n;

    for (const struct mds_node *i = list ? list->first : NULL; i; i = i->next)
        if (i->text && mds_parse_count(i->text, &n) == 0 && n == layer)
            return 1;
    return 0;
}

/* Which layers have experts: every decoder_sparse_step-th, but for mlp_only_layers. */
static enum mds_rc get_expert_layers(const struct mds_tree *t, struct mds_str *out)
{
    const struct mds_node *dense = mds_node_get(t->root, "mlp_only_layers");
    int64_t layers, step;

    MDS_TRY(mds_hf_get_count(t, "num_hidden_layers", "", 1, &layers));
    MDS_TRY(mds_hf_get_count(t, "decoder_sparse_step", "1", 1, &step));
    if (step == 1 && !(dense && dense->first))
        return MDS_OK;
    mds_str_add(out, "  expert_layers: '[");
    for (int64_t i = 0; i < layers; i++)
        mds_str_add(out, "%s%d", i ? "," : "", (i + 1) % step == 0 && !is_in(dense, i));
    mds_str_add(out, "]'\n");
    return MDS_OK;
}

/* Those of qwen3_moe and olmoe, and whether weights are over the chosen experts. */
static enum mds_rc get_experts(const struct mds_tree *t, struct mds_str *out)
{
    MDS_TRY(get_expert_layers(t, out));
    return add_flag(t, "norm_topk_prob", "false", "expert_pre_softmax", 1, out);
}

static enum mds_rc parse_config(const struct mds_tree *t, struct mds_hf_source *source,
                                struct mds_str *out)
{
    const struct mds_node *rope;
    const struct form *f;

    *source = (struct mds_hf_source){0};
    MDS_TRY(get_kind(t, &source->kind));
    f = forms[source->kind];
    for (const struct fixed *i = f->fixed; i->theirs; i++)
        MDS_TRY(check_fixed(t, i));
    mds_str_add(out, "model:\n%s", f->constant);
    MDS_TRY(mds_hf_find_rope(t, &rope));
    MDS_TRY(mds_hf_get_rope_scaling(t, rope, out));
    MDS_TRY(mds_hf_get_window(source->kind, t, out));
    MDS_TRY(get_activation(t, f, out));
    for (const struct number *const *list = f->numbers; *list; list++)
        for (const struct number *i = *list; i->theirs; i++)
            MDS_TRY(get_number(t, rope, i, out));
    for (int i = 0; i < 4 && f->of_llama[0]; i++)
        MDS_TRY(get_number(t, rope,
                           &(struct number){llama_names[i][0], llama_names[i][1],
                                            f->of_llama[i],
                                            i == 1 ? "rope_theta" : NULL, NULL},
                           out));
    MDS_TRY(add_flag(t, "tie_word_embeddings", f->tied, "tied_head", 0, out));
    if (source->kind == MDS_HF_QWEN3_MOE || source->kind == MDS_HF_OLMOE)
        MDS_TRY(get_experts(t, out));
    if (source->kind == MDS_HF_LLAMA)
        return get_biases(t, source, out);
    if (source->kind == MDS_HF_NEOX)
        return add_flag(t, "use_parallel_residual", "true", "parallel_residual", 0,
                        out);
    return MDS_OK;
}

enum mds_rc mds_hf_get_config(const char *path, struct mds_hf_source *source,
                              struct mds_str *settings)
{
    struct mds_tree *t;
    enum mds_rc rc;

    MDS_TRY(mds_tree_load(path, &t));
    rc = parse_config(t, source, settings);
    mds_tree_destroy(t);
    if (!rc && settings->failed)
        rc = mds_fail(MDS_EMEM, "no host memory");
    return rc;
}
