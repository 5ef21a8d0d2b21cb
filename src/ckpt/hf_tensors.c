/* SPDX-License-Identifier: BSD-3-Clause */
/* The tensors of each architecture, and the parameters that they consist of. */
#include "base/alloc.h"
#include "ckpt/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum fusion {
    NOT_FUSED,
    QKV_CONCATENATED, /* queries, then keys, then values */
    QKV_BY_HEAD       /* a head's query, key and value, then the next head's */
};

/* A tensor's name and the parameter's, without the prefix of a layer.  If fused, `ours`
 * is the query's parameter, and those of keys and values follow from it. */
struct row {
    const char *theirs, *ours;
    int transposed;
    enum fusion fusion;
};

struct shape {
    const char *stem; /* prefix of a layer's tensors; its number follows */
    const struct row *before, *layer, *after;
    int biased;                   /* its linears always have biases */
    const char *router, *experts; /* prefixes in a layer: of that tensor; of each
                                     expert's, whose number follows */
    const struct row *expert;
};

static const struct row gpt2_before[] = {
    {.theirs = "transformer.wte.weight", .ours = "embedding.word.weight"},
    {.theirs = "transformer.wpe.weight", .ours = "embedding.position.weight"},
    {0},
};
static const struct row gpt2_layer[] = {
    {.theirs = "ln_1.weight", .ours = "norm1.gamma"},
    {.theirs = "ln_1.bias", .ours = "norm1.beta"},
    {"attn.c_attn.weight", "attention.q.weight", 1, QKV_CONCATENATED},
    {"attn.c_attn.bias", "attention.q.bias", 0, QKV_CONCATENATED},
    {"attn.c_proj.weight", "attention.out.weight", 1, NOT_FUSED},
    {.theirs = "attn.c_proj.bias", .ours = "attention.out.bias"},
    {.theirs = "ln_2.weight", .ours = "norm2.gamma"},
    {.theirs = "ln_2.bias", .ours = "norm2.beta"},
    {"mlp.c_fc.weight", "mlp.up.weight", 1, NOT_FUSED},
    {.theirs = "mlp.c_fc.bias", .ours = "mlp.up.bias"},
    {"mlp.c_proj.weight", "mlp.down.weight", 1, NOT_FUSED},
    {.theirs = "mlp.c_proj.bias", .ours = "mlp.down.bias"},
    {0},
};
static const struct row gpt2_after[] = {
    {.theirs = "transformer.ln_f.weight", .ours = "final_norm.gamma"},
    {.theirs = "transformer.ln_f.bias", .ours = "final_norm.beta"},
    {.theirs = "lm_head.weight", .ours = "head.weight"},
    {0},
};

static const struct row neox_before[] = {
    {.theirs = "gpt_neox.embed_in.weight", .ours = "embedding.word.weight"},
    {0},
};
static const struct row neox_layer[] = {
    {.theirs = "input_layernorm.weight", .ours = "norm1.gamma"},
    {.theirs = "input_layernorm.bias", .ours = "norm1.beta"},
    {"attention.query_key_value.weight", "attention.q.weight", 0, QKV_BY_HEAD},
    {"attention.query_key_value.bias", "attention.q.bias", 0, QKV_BY_HEAD},
    {.theirs = "attention.dense.weight", .ours = "attention.out.weight"},
    {.theirs = "attention.dense.bias", .ours = "attention.out.bias"},
    {.theirs = "post_attention_layernorm.weight", .ours = "norm2.gamma"},
    {.theirs = "post_attention_layernorm.bias", .ours = "norm2.beta"},
    {.theirs = "mlp.dense_h_to_4h.weight", .ours = "mlp.up.weight"},
    {.theirs = "mlp.dense_h_to_4h.bias", .ours = "mlp.up.bias"},
    {.theirs = "mlp.dense_4h_to_h.weight", .ours = "mlp.down.weight"},
    {.theirs = "mlp.dense_4h_to_h.bias", .ours = "mlp.down.bias"},
    {0},
};
static const struct row neox_after[] = {
    {.theirs = "gpt_neox.final_layer_norm.weight", .ours = "final_norm.gamma"},
    {.theirs = "gpt_neox.final_layer_norm.bias", .ours = "final_norm.beta"},
    {.theirs = "embed_out.weight", .ours = "head.weight"},
    {0},
};

static const struct row llama_before[] = {
    {.theirs = "model.embed_tokens.weight", .ours = "embedding.word.weight"},
    {0},
};
static const struct row llama_layer[] = {
    {.theirs = "input_layernorm.weight", .ours = "norm1.gamma"},
    {.theirs = "self_attn.q_proj.weight", .ours = "attention.q.weight"},
    {.theirs = "self_attn.q_proj.bias", .ours = "attention.q.bias"},
    {.theirs = "self_attn.q_norm.weight",
     .ours = "attention.q_norm.gamma"}, /* qwen3, olmo2 */
    {.theirs = "self_attn.k_norm.weight", .ours = "attention.k_norm.gamma"},
    {.theirs = "self_attn.k_proj.weight", .ours = "attention.k.weight"},
    {.theirs = "self_attn.k_proj.bias", .ours = "attention.k.bias"},
    {.theirs = "self_attn.v_proj.weight", .ours = "attention.v.weight"},
    {.theirs = "self_attn.v_proj.bias", .ours = "attention.v.bias"},
    {.theirs = "self_attn.o_proj.weight", .ours = "attention.out.weight"},
    {.theirs = "self_attn.o_proj.bias", .ours = "attention.out.bias"},
    {.theirs = "post_attention_layernorm.weight", .ours = "norm2.gamma"},
    {.theirs = "post_attention_layernorm.weight", .ours = "attention.out_norm.gamma"},
    {.theirs = "post_feedforward_layernorm.weight", .ours = "mlp.out_norm.gamma"},
    {.theirs = "mlp.gate_proj.weight", .ours = "mlp.gate.weight"},
    {.theirs = "mlp.gate_proj.bias", .ours = "mlp.gate.bias"},
    {.theirs = "mlp.up_proj.weight", .ours = "mlp.up.weight"},
    {.theirs = "mlp.up_proj.bias", .ours = "mlp.up.bias"},
    {.theirs = "mlp.down_proj.weight", .ours = "mlp.down.weight"},
    {.theirs = "mlp.down_proj.bias", .ours = "mlp.down.bias"},
    {0},
};
static const struct row llama_after[] = {
    {.theirs = "model.norm.weight", .ours = "final_norm.gamma"},
    {.theirs = "lm_head.weight", .ours = "head.weight"},
    {0},
};

static const struct row mixtral_expert[] = {
    {.theirs = "w1.weight", .ours = "gate.weight"},
    {.theirs = "w3.weight", .ours = "up.weight"},
    {.theirs = "w2.weight", .ours = "down.weight"},
    {0},
};
static const struct row qwen3_moe_expert[] = {
    {.theirs = "gate_proj.weight", .ours = "gate.weight"},
    {.theirs = "up_proj.weight", .ours = "up.weight"},
    {.theirs = "down_proj.weight", .ours = "down.weight"},
    {0},
};

static const struct shape shapes[] = {
    [MDS_HF_GPT2] = {"transformer.h.", gpt2_before, gpt2_layer, gpt2_after, 1},
    [MDS_HF_NEOX] = {"gpt_neox.layers.", neox_before, neox_layer, neox_after, 1},
    [MDS_HF_LLAMA] = {"model.layers.", llama_before, llama_layer, llama_after, 0},
    [MDS_HF_MISTRAL] = {"model.layers.", llama_before, llama_layer, llama_after, 0},
    [MDS_HF_MINISTRAL] = {"model.layers.", llama_before, llama_layer, llama_after, 0},
    [MDS_HF_QWEN3] = {"model.layers.", llama_before, llama_layer, llama_after, 0},
    [MDS_HF_QWEN2] = {"model.layers.", llama_before, llama_layer, llama_after, 0},
    [MDS_HF_MIXTRAL] = {"model.layers.", llama_before, llama_layer, llama_after, 0,
                        "block_sparse_moe.gate", "block_sparse_moe.experts",
                        mixtral_expert},
    [MDS_HF_QWEN3_MOE] = {"model.layers.", llama_before, llama_layer, llama_after, 0,
                          "mlp.gate", "mlp.experts", qwen3_moe_expert},
    [MDS_HF_OLMO2] = {"model.layers.", llama_before, llama_layer, llama_after, 0},
    [MDS_HF_OLMOE] = {"model.layers.", llama_before, llama_layer, llama_after, 0,
                      "mlp.gate", "mlp.experts", qwen3_moe_expert},
};

/* ---- the tensors of a model ---- */

struct builder {
    const struct mds_model_config *m;
    const struct mds_params *whole;
    struct mds_hf_tensors *out;
    int biased;
    int covered; /* parameters that are in a tensor */
};

/* Rows of a parameter, without the padding of the vocabulary. */
static int64_t rows_without_padding(const struct mds_model_config *m,
                                    const struct mds_param *p)
{
    return mds_ckpt_is_by_word(p->spec.name) ? m->vocab : p->spec.rows;
}

/* The parameter of the query, key or value (which: 0, 1, 2); name is the query's. */
static int find_qkv_param(const struct mds_params *whole, const char *name, int which)
{
    char other[sizeof(((struct mds_param_spec *)0)->name)];
    char *q;

    snprintf(other, sizeof other, "%s", name);
    q = strstr(other, ".q.");
    if (q)
        q[1] = "qkv"[which];
    return mds_params_find(whole, other);
}

static void add_part(struct builder *b, struct mds_hf_tensor *t, enum fusion fusion,
                     int id)
{
    const struct mds_param *p = mds_params_get(b->whole, id);
    struct mds_hf_part *is = &t->part[t->parts];
    int64_t rows = rows_without_padding(b->m, p), size = b->m->head_dim;

    *is = (struct mds_hf_part){.param = id, .rows = rows, .block = rows, .step = rows};
    if (fusion == QKV_CONCATENATED)
        is->first = t->parts * rows;
    if (fusion == QKV_BY_HEAD) {
        is->first = t->parts * size;
        is->block = size;
        is->step = MDS_HF_PARTS * size;
    }
    t->rows += rows;
    t->cols = p->spec.cols;
    t->parts++;
    b->covered++;
}

/* A bias that the architecture has and this model lacks: zeros, one for each row of the
 * weight. */
static void add_zeros(struct builder *b, struct mds_hf_tensor *t, const struct row *row,
                      const char *our_stem)
{
    int parts = row->fusion == NOT_FUSED ? 1 : MDS_HF_PARTS;
    const char *bias = strstr(row->ours, ".bias");
    char weight[sizeof(((struct mds_param_spec *)0)->name)];

    if (!b->biased || !bias)
        return;
    snprintf(weight, sizeof weight, "%s%.*s.weight", our_stem, (int)(bias - row->ours),
             row->ours);
    for (int i = 0; i < parts; i++)
        t->rows +=
            mds_params_get(b->whole, find_qkv_param(b->whole, weight, i))->spec.rows;
    b->out->n++;
}

static void add_tensor(struct builder *b, const char *stem, const char *our_stem,
                       const struct row *row)
{
    struct mds_hf_tensor *t = &b->out->list[b->out->n];
    char ours[sizeof(((struct mds_param_spec *)0)->name)];
    int parts = row->fusion == NOT_FUSED ? 1 : MDS_HF_PARTS, id;
    int64_t outputs;

    snprintf(ours, sizeof ours, "%s%s", our_stem, row->ours);
    id = mds_params_find(b->whole, ours);
    snprintf(t->name, sizeof t->name, "%s%s", stem, row->theirs);
    if (id < 0) { /* a bias, a norm or a head that this model lacks */
        add_zeros(b, t, row, our_stem);
        return;
    }
    t->transposed = row->transposed;
    for (int i = 0; i < parts; i++)
        add_part(b, t, row->fusion, i ? find_qkv_param(b->whole, ours, i) : id);
    outputs = t->rows;
    if (t->transposed) {
        t->rows = t->cols;
        t->cols = outputs;
    }
    b->out->n++;
}

static void add_experts(struct builder *b, const struct shape *s, int64_t layer)
{
    char stem[96], our_stem[64];
    const struct row router = {.theirs = ".weight", .ours = "mlp.router.weight"};

    snprintf(stem, sizeof stem, "%s%lld.%s", s->stem, (long long)layer, s->router);
    snprintf(our_stem, sizeof our_stem, "layer.%lld.", (long long)layer);
    add_tensor(b, stem, our_stem, &router);
    for (int64_t e = 0; e < b->m->experts.n; e++) {
        snprintf(stem, sizeof stem, "%s%lld.%s.%lld.", s->stem, (long long)layer,
                 s->experts, (long long)e);
        snprintf(our_stem, sizeof our_stem, "layer.%lld.mlp.experts.%lld.",
                 (long long)layer, (long long)e);
        for (const struct row *r = s->expert; r->theirs; r++)
            add_tensor(b, stem, our_stem, r);
    }
}

static void add_all_tensors(struct builder *b, const struct shape *s)
{
    char stem[64], our_stem[32];

    for (const struct row *r = s->before; r->theirs; r++)
        add_tensor(b, "", "", r);
    for (int64_t i = 0; i < b->m->layers; i++) {
        snprintf(stem, sizeof stem, "%s%lld.", s->stem, (long long)i);
        snprintf(our_stem, sizeof our_stem, "layer.%lld.", (long long)i);
        for (const struct row *r = s->layer; r->theirs; r++)
            add_tensor(b, stem, our_stem, r);
        if (s->expert)
            add_experts(b, s, i);
    }
    for (const struct row *r = s->after; r->theirs; r++)
        add_tensor(b, "", "", r);
}

enum mds_rc mds_hf_tensors_init(enum mds_hf_kind kind, const struct mds_model_config *m,
                                const struct mds_params *whole,
                                struct mds_hf_tensors *out)
{
    struct builder b = {m, whole, out, shapes[kind].biased, 0};

    *out = (struct mds_hf_tensors){0};
    out->list = mds_zalloc(2 * (size_t)mds_params_n(whole), sizeof *out->list);
    if (!out->list)
        return MDS_EMEM;
    add_all_tensors(&b, &shapes[kind]);
    if (b.covered == mds_params_n(whole))
        return MDS_OK;
    mds_hf_tensors_fini(out);
    return mds_fail(MDS_EBUG, "%s: only %d of %d parameters have a tensor",
                    mds_hf_name(kind), b.covered, mds_params_n(whole));
}

void mds_hf_tensors_fini(struct mds_hf_tensors *t)
{
    free(t->list);
    *t = (struct mds_hf_tensors){0};
}
