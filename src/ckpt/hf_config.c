/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing an architecture, and writing its config.json. */
#include "base/minmax.h"
#include "ckpt/hf.h"
#include "config/rope.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {
    [MDS_HF_GPT2] = "gpt2",           [MDS_HF_NEOX] = "gpt_neox",
    [MDS_HF_LLAMA] = "llama",         [MDS_HF_MISTRAL] = "mistral",
    [MDS_HF_MINISTRAL] = "ministral", [MDS_HF_QWEN3] = "qwen3",
    [MDS_HF_QWEN2] = "qwen2",         [MDS_HF_MIXTRAL] = "mixtral",
    [MDS_HF_QWEN3_MOE] = "qwen3_moe", [MDS_HF_OLMO2] = "olmo2",
    [MDS_HF_OLMOE] = "olmoe"};
_Static_assert(sizeof names / sizeof *names == MDS_HF_KINDS,
               "each architecture has a name");

const char *mds_hf_name(enum mds_hf_kind kind)
{
    return names[kind];
}

/* ---- choosing an architecture ---- */

static enum mds_rc fail_unsupported(enum mds_hf_kind kind, const char *setting,
                                    const char *has)
{
    return mds_fail(MDS_EUSER,
                    "%s: Hugging Face's %s, the closest architecture, has %s", setting,
                    names[kind], has);
}

static int is_gated(const struct mds_model_config *m)
{
    return mdsk_activation_of(m->activation)->gated;
}

/* What gpt2 and gpt_neox have in common. */
static enum mds_rc check_gpt(enum mds_hf_kind kind, const struct mds_model_config *m)
{
    if (m->norm != MDS_NORM_LAYERNORM)
        return fail_unsupported(kind, "--normalization RMSNorm", "LayerNorm");
    if (is_gated(m))
        return fail_unsupported(kind, "--swiglu", "an MLP without a gate");
    if (m->kv_heads != m->heads)
        return fail_unsupported(kind, "--num-key-value-heads",
                                "as many key/value heads as query heads");
    if (m->head_dim * m->heads != m->hidden)
        return fail_unsupported(kind, "--kv-channels", "heads of size hidden / heads");
    if (m->qk_layernorm)
        return fail_unsupported(kind, "--qk-layernorm", "no norms of queries and keys");
    if (m->window > 0)
        return fail_unsupported(kind, "--window-size", "no window");
    return MDS_OK;
}

/* What mixtral, qwen3_moe and olmoe have in common. */
static enum mds_rc check_experts(enum mds_hf_kind kind,
                                 const struct mds_model_config *m)
{
    if (m->experts.n == 0)
        return MDS_OK;
    if (m->experts.score != MDS_SCORE_SOFTMAX)
        return fail_unsupported(kind, "--moe-router-score-function sigmoid",
                                "weights by a softmax");
    if (m->experts.scale < 1 || m->experts.scale > 1)
        return fail_unsupported(kind, "--moe-router-topk-scaling-factor",
                                "weights as they are");
    if (m->experts.pre_softmax && kind == MDS_HF_MIXTRAL)
        return fail_unsupported(kind, "--moe-router-pre-softmax",
                                "weights over the chosen experts");
    if (mds_model_expert_layers(m) < m->layers && kind != MDS_HF_QWEN3_MOE)
        return fail_unsupported(kind, "--moe-layer-freq", "experts in all layers");
    if (m->experts.shared > 0)
        return fail_unsupported(kind, "--moe-shared-expert-intermediate-size",
                                "no shared expert");
    if (m->head_dim * m->heads != m->hidden && kind == MDS_HF_OLMOE)
        return fail_unsupported(kind, "--kv-channels", "heads of size hidden / heads");
    if (m->window > 0)
        return fail_unsupported(kind, "--window-size", "no window here");
    return MDS_OK;
}

/* What llama and those of its shape have in common. */
static enum mds_rc check_llama(enum mds_hf_kind kind, const struct mds_model_config *m)
{
    if (m->norm != MDS_NORM_RMSNORM)
        return fail_unsupported(kind, "--normalization LayerNorm", "RMSNorm");
    if (!is_gated(m))
        return fail_unsupported(kind, "--normalization RMSNorm without --swiglu",
                                "SwiGLU");
    if (m->rotary_percent < 1)
        return fail_unsupported(kind, "--rotary-percent",
                                "rotary positions on whole heads");
    if (m->qk_layernorm && (m->linear_bias || m->qkv_bias))
        return fail_unsupported(kind, "--qk-layernorm with biases",
                                "no biases (--disable-bias-linear)");
    if (m->window > 0 && m->linear_bias)
        return fail_unsupported(kind, "--window-size with biases",
                                "no biases (--disable-bias-linear)");
    if (m->experts.n > 0 && m->qkv_bias)
        return fail_unsupported(kind, "--add-qkv-bias", "no biases");
    return check_experts(kind, m);
}

static int is_olmo(const struct mds_model_config *m)
{
    return m->norm_placement == MDS_NORM_AFTER || m->qk_norm_across_heads;
}

/* Where norms are; olmo2 has all of it. */
static enum mds_rc check_norms(enum mds_hf_kind kind, const struct mds_model_config *m)
{
    int olmo = kind == MDS_HF_OLMO2, across = olmo || kind == MDS_HF_OLMOE;

    if (m->norm_placement != (olmo ? MDS_NORM_AFTER : MDS_NORM_BEFORE))
        return fail_unsupported(kind, "--norm-placement",
                                olmo ? "norms after attention and MLP"
                                     : "norms before attention and MLP");
    if (olmo && !m->qk_norm_across_heads)
        return fail_unsupported(kind, "--norm-placement after",
                                "norms of queries and keys (--qk-layernorm "
                                "--qk-norm-across-heads)");
    if (!across && m->qk_norm_across_heads)
        return fail_unsupported(kind, "--qk-norm-across-heads", "norms of each head");
    if (olmo && m->window > 0)
        return fail_unsupported(kind, "--window-size", "no window");
    return MDS_OK;
}

enum mds_rc mds_hf_choose(const struct mds_model_config *m, enum mds_hf_kind *out)
{
    enum mds_hf_kind kind = MDS_HF_NEOX;

    if (m->position == MDS_POSITION_ALIBI)
        return mds_fail(MDS_EUSER, "--position-embedding-type alibi: no format of "
                                   "Hugging Face has ALiBi with this model's norms");
    if (m->experts.n > 0)
        kind = m->qk_norm_across_heads ? MDS_HF_OLMOE
               : m->qk_layernorm       ? MDS_HF_QWEN3_MOE
                                       : MDS_HF_MIXTRAL;
    else if (m->position == MDS_POSITION_LEARNED)
        kind = MDS_HF_GPT2;
    else if (m->norm == MDS_NORM_RMSNORM || is_gated(m))
        kind = is_olmo(m)                       ? MDS_HF_OLMO2
               : m->qk_layernorm                ? MDS_HF_QWEN3
               : m->qkv_bias && !m->linear_bias ? MDS_HF_QWEN2
               : m->window == 0                 ? MDS_HF_LLAMA
               : m->window_skip                 ? MDS_HF_MINISTRAL
                                                : MDS_HF_MISTRAL;
    if (m->position == MDS_POSITION_NONE ||
        (m->position == MDS_POSITION_LEARNED && kind != MDS_HF_GPT2))
        return fail_unsupported(kind,
                                m->position == MDS_POSITION_NONE
                                    ? "--position-embedding-type none"
                                    : "--position-embedding-type learned_absolute",
                                "rotary positions");
    MDS_TRY(check_norms(kind, m));
    if (m->parallel_residual && kind != MDS_HF_NEOX)
        return fail_unsupported(kind, "--use-parallel-residual",
                                "the MLP after attention");
    MDS_TRY(kind >= MDS_HF_LLAMA ? check_llama(kind, m) : check_gpt(kind, m));
    *out = kind;
    return MDS_OK;
}

/* ---- writing ---- */

static void put_int(struct mds_str *out, const char *key, int64_t value)
{
    mds_str_add(out, "  \"%s\": %" PRId64 ",\n", key, value);
}

static void put_real(struct mds_str *out, const char *key, double value)
{
    mds_str_add(out, "  \"%s\": ", key);
    mds_hf_add_real(out, value);
    mds_str_add(out, ",\n");
}

static void put_text(struct mds_str *out, const char *key, const char *value)
{
    mds_str_add(out, "  \"%s\": \"%s\",\n", key, value);
}

static void put_bool(struct mds_str *out, const char *key, int value)
{
    mds_str_add(out, "  \"%s\": %s,\n", key, value ? "true" : "false");
}

static void put_activation(const struct mds_model_config *m, const char *key,
                           struct mds_str *out)
{
    const char *name = mdsk_activation_of(m->activation)->other_names + 1;

    mds_str_add(out, "  \"%s\": \"%.*s\",\n", key, (int)strcspn(name, " "), name);
}

static void put_gpt2(const struct mds_model_config *m, struct mds_str *out)
{
    put_activation(m, "activation_function", out);
    put_int(out, "n_embd", m->hidden);
    put_int(out, "n_layer", m->layers);
    put_int(out, "n_head", m->heads);
    put_int(out, "n_inner", m->ffn_hidden);
    put_int(out, "n_positions", m->max_positions);
    put_real(out, "layer_norm_epsilon", m->norm_eps);
    put_real(out, "embd_pdrop", m->hidden_dropout);
    put_real(out, "resid_pdrop", m->hidden_dropout);
    put_real(out, "attn_pdrop", m->attention_dropout);
}

/* As imported, if that is longer.  Some versions of transformers read yarn's factor as
 * this length divided by the original one. */
static int64_t longest_sequence(const struct mds_model_config *m)
{
    if (m->rope_scaling == MDS_ROPE_YARN)
        return llround(m->rope_factor * (double)m->rope_original);
    return mds_max(m->seq_length, m->max_positions);
}

/* The sizes that gpt_neox, llama and qwen3 give the same names. */
static void put_sizes(const struct mds_model_config *m, struct mds_str *out)
{
    put_int(out, "hidden_size", m->hidden);
    put_int(out, "intermediate_size", m->ffn_hidden);
    put_int(out, "num_hidden_layers", m->layers);
    put_int(out, "num_attention_heads", m->heads);
    put_int(out, "max_position_embeddings", longest_sequence(m));
    put_real(out, "attention_dropout", m->attention_dropout);
}

static void put_neox(const struct mds_model_config *m, struct mds_str *out)
{
    put_activation(m, "hidden_act", out);
    put_sizes(m, out);
    put_real(out, "layer_norm_eps", m->norm_eps);
    put_real(out, "rotary_pct", m->rotary_percent);
    put_real(out, "rotary_emb_base", mds_rope_base(m));
    mds_hf_put_rope_scaling(m, out);
    put_real(out, "hidden_dropout", m->hidden_dropout);
    put_bool(out, "use_parallel_residual", m->parallel_residual);
    put_bool(out, "attention_bias", 1);
}

static void put_llama(const struct mds_model_config *m, struct mds_str *out)
{
    put_activation(m, "hidden_act", out);
    put_sizes(m, out);
    put_int(out, "num_key_value_heads", m->kv_heads);
    put_int(out, "head_dim", m->head_dim);
    put_real(out, "rms_norm_eps", m->norm_eps);
    put_real(out, "rope_theta", mds_rope_base(m));
    mds_hf_put_rope_scaling(m, out);
}

/* Where the only inner width is that of experts. */
static void put_llama_of_experts(const struct mds_model_config *m, struct mds_str *out)
{
    struct mds_model_config theirs = *m;

    theirs.ffn_hidden = m->experts.ffn_hidden;
    put_llama(&theirs, out);
}

static void put_mixtral(const struct mds_model_config *m, struct mds_str *out)
{
    put_llama_of_experts(m, out);
    put_int(out, "num_local_experts", m->experts.n);
    put_int(out, "num_experts_per_tok", m->experts.topk);
    mds_str_add(out, "  \"sliding_window\": null,\n");
}

static void put_olmoe(const struct mds_model_config *m, struct mds_str *out)
{
    put_llama_of_experts(m, out);
    put_int(out, "num_experts", m->experts.n);
    put_int(out, "num_experts_per_tok", m->experts.topk);
    put_bool(out, "norm_topk_prob", !m->experts.pre_softmax);
}

static void put_qwen3_moe(const struct mds_model_config *m, struct mds_str *out)
{
    put_llama(m, out);
    put_int(out, "num_experts", m->experts.n);
    put_int(out, "num_experts_per_tok", m->experts.topk);
    put_int(out, "moe_intermediate_size", m->experts.ffn_hidden);
    put_bool(out, "norm_topk_prob", !m->experts.pre_softmax);
    put_int(out, "decoder_sparse_step", 1);
    mds_str_add(out, "  \"mlp_only_layers\": [");
    for (int64_t i = 0, n = 0; i < m->layers; i++)
        if (!mds_model_has_experts(m, i))
            mds_str_add(out, "%s%" PRId64, n++ ? ", " : "", i);
    mds_str_add(out, "],\n");
}

void mds_hf_put_config(enum mds_hf_kind kind, const struct mds_model_config *m,
                       struct mds_hf_biases biases, enum mds_st_dtype type, int64_t eod,
                       struct mds_str *out)
{
    static const char *const classes[] = {[MDS_HF_GPT2] = "GPT2LMHeadModel",
                                          [MDS_HF_NEOX] = "GPTNeoXForCausalLM",
                                          [MDS_HF_LLAMA] = "LlamaForCausalLM",
                                          [MDS_HF_MISTRAL] = "MistralForCausalLM",
                                          [MDS_HF_MINISTRAL] = "MinistralForCausalLM",
                                          [MDS_HF_QWEN3] = "Qwen3ForCausalLM",
                                          [MDS_HF_QWEN2] = "Qwen2ForCausalLM",
                                          [MDS_HF_MIXTRAL] = "MixtralForCausalLM",
                                          [MDS_HF_QWEN3_MOE] = "Qwen3MoeForCausalLM",
                                          [MDS_HF_OLMO2] = "Olmo2ForCausalLM",
                                          [MDS_HF_OLMOE] = "OlmoeForCausalLM"};
    static void (*const put[])(const struct mds_model_config *, struct mds_str *) = {
        [MDS_HF_GPT2] = put_gpt2,           [MDS_HF_NEOX] = put_neox,
        [MDS_HF_LLAMA] = put_llama,         [MDS_HF_MISTRAL] = put_llama,
        [MDS_HF_MINISTRAL] = put_llama,     [MDS_HF_QWEN3] = put_llama,
        [MDS_HF_QWEN2] = put_llama,         [MDS_HF_MIXTRAL] = put_mixtral,
        [MDS_HF_QWEN3_MOE] = put_qwen3_moe, [MDS_HF_OLMO2] = put_llama,
        [MDS_HF_OLMOE] = put_olmoe};

    mds_str_add(out, "{\n  \"architectures\": [\"%s\"],\n", classes[kind]);
    put_text(out, "model_type", names[kind]);
    put[kind](m, out);
    mds_hf_put_window(kind, m, out);
    if (kind == MDS_HF_LLAMA) {
        put_bool(out, "attention_bias", biases.attention);
        put_bool(out, "mlp_bias", biases.mlp);
    }
    put_int(out, "vocab_size", m->vocab);
    put_bool(out, "tie_word_embeddings", m->tied_head);
    /* If missing, transformers assumes ids of its own vocabularies. */
    mds_str_add(out, "  \"bos_token_id\": null,\n");
    if (eod >= 0)
        put_int(out, "eos_token_id", eod);
    else
        mds_str_add(out, "  \"eos_token_id\": null,\n");
    mds_str_add(out, "  \"torch_dtype\": \"%s\"\n}\n",
                type == MDS_ST_BF16  ? "bfloat16"
                : type == MDS_ST_F16 ? "float16"
                                     : "float32");
}
