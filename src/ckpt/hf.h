/* SPDX-License-Identifier: BSD-3-Clause */
/* Models in the folders of Hugging Face's transformers: config.json, and safetensors
 * files with that library's names and layouts.
 *
 *   gpt2      learned positions, LayerNorm, any activation without a gate, biases
 *   gpt_neox  rotary positions, the same, one branch after the other or both
 *   llama     rotary positions, RMSNorm, SwiGLU, any number of key/value heads
 *   qwen2     the same with biases of queries, keys and values alone
 *   qwen3     the same with norms of heads, and without biases
 *   mixtral   llama with experts; qwen3_moe  qwen3 with experts
 *   olmoe     llama with experts, and norms of queries and keys across heads
 *   olmo2     llama with norms after attention and MLP, and of queries and keys across
 *             heads, and without biases
 *
 * GELU is the tanh form ("gelu_new") or exact ("gelu"); rotary pairs are the halves of
 * a head, in all as here.  Source: transformers 4.46, models/{gpt2,gpt_neox,llama,
 * qwen2}.
 */
#ifndef MDS_CKPT_HF_H
#define MDS_CKPT_HF_H

#include "base/str.h"
#include "ckpt/reader.h"
#include "ckpt/safetensors.h"
#include "config/config.h"
#include "config/tree.h"

enum mds_hf_kind {
    MDS_HF_GPT2,
    MDS_HF_NEOX,
    MDS_HF_LLAMA,
    MDS_HF_MISTRAL,
    MDS_HF_MINISTRAL,
    MDS_HF_QWEN3,
    MDS_HF_QWEN2,
    MDS_HF_MIXTRAL,
    MDS_HF_QWEN3_MOE,
    MDS_HF_OLMO2,
    MDS_HF_OLMOE,
    MDS_HF_KINDS
};

/* Their name of it: model_type in config.json. */
const char *mds_hf_name(enum mds_hf_kind kind);

/* Which architecture computes exactly what model m (shape resolved) does.  MDS_EUSER
 * names the setting that the nearest architecture does not support. */
enum mds_rc mds_hf_choose(const struct mds_model_config *m, enum mds_hf_kind *out);

/* ---- config.json ---- */

/* Which linears of a llama have biases. */
struct mds_hf_biases {
    int attention, mlp;
};

/* Its text, for weights of that type.  eod: the id that ends a document, or -1. */
void mds_hf_put_config(enum mds_hf_kind kind, const struct mds_model_config *m,
                       struct mds_hf_biases biases, enum mds_st_dtype type, int64_t eod,
                       struct mds_str *out);

/* What of a model of theirs no setting of ours says. */
struct mds_hf_source {
    enum mds_hf_kind kind;
    const char
        *unbiased; /* in names of linears without the biases that ours have: those
                             are 0; NULL: none */
};

/* From a file, settings of mds_pretrain as YAML.  MDS_EUSER names what is missing, or
 * what no model of ours does. */
enum mds_rc mds_hf_get_config(const char *path, struct mds_hf_source *source,
                              struct mds_str *settings);

/* "rope_scaling", if the model scales its frequencies, and back: their linear, yarn and
 * llama3 are ours of that name.  The other types are MDS_EUSER, but for dynamic: it is
 * no scaling up to max_position_embeddings, and a warning says so. */
void mds_hf_put_rope_scaling(const struct mds_model_config *m, struct mds_str *out);
enum mds_rc mds_hf_get_rope_scaling(const struct mds_tree *t,
                                    const struct mds_node *rope, struct mds_str *out);

/* "rope_parameters" of all layers, or NULL.  transformers 5 may write one map for each
 * type of layer; if those differ it is MDS_EUSER. */
enum mds_rc mds_hf_find_rope(const struct mds_tree *t, const struct mds_node **out);

/* The window of mistral's layers, and of those of ministral's and qwen3's that have
 * one, and back. */
void mds_hf_put_window(enum mds_hf_kind kind, const struct mds_model_config *m,
                       struct mds_str *out);
enum mds_rc mds_hf_get_window(enum mds_hf_kind kind, const struct mds_tree *t,
                              struct mds_str *out);

/* true or false under key, and a whole number of config.json; what is missing or null
 * is the fallback.  MDS_EUSER quotes anything else. */
enum mds_rc mds_hf_get_flag(const struct mds_tree *t, const struct mds_node *map,
                            const char *key, const char *fallback, int *out);
enum mds_rc mds_hf_get_count(const struct mds_tree *t, const char *key,
                             const char *fallback, int64_t least, int64_t *out);

/* A number as Python writes a float. */
void mds_hf_add_real(struct mds_str *out, double value);

/* ---- tensors ---- */

enum { MDS_HF_PARTS = 3 };

/* A tensor of theirs, made of one of ours, or of queries, keys and values.  Our row r
 * is their output first + r / block * step + r % block; outputs are their rows, or
 * where they keep [in, out], columns.  Without parts it is a bias that ours does not
 * have: zeros. */
struct mds_hf_tensor {
    char name[96];
    int64_t rows, cols; /* of theirs; cols 0: a vector */
    int transposed;
    int parts;
    struct mds_hf_part {
        int param; /* of ours, in the registry of the whole model */
        int64_t rows, first, block, step;
    } part[MDS_HF_PARTS];
};

struct mds_hf_tensors {
    struct mds_hf_tensor *list;
    int n;
};

/* All of a model, in their order.  The vocabulary is without its padding. */
enum mds_rc mds_hf_tensors_init(enum mds_hf_kind kind, const struct mds_model_config *m,
                                const struct mds_params *whole,
                                struct mds_hf_tensors *out);
void mds_hf_tensors_fini(struct mds_hf_tensors *t); /* a zeroed struct is fine */

/* ---- out ---- */

struct mds_hf_export {
    const char *dir; /* made; config.json is the last to be written */
    int overwrite;   /* an earlier export there; else that is MDS_EUSER */
    const struct mds_model_config *model;
    const struct mds_params *whole;
    struct mds_ckpt_reader *reader;
    enum mds_st_dtype type; /* of 32 or 16 bits */
    int64_t shard_bytes;    /* files hold no more, but a tensor at least; 0: one file */
    int64_t eod;            /* as in mds_hf_put_config */
    /* Of the files beside config.json; s is NULL where they are not known. */
    struct mds_str tokenizer, tokenizer_config;
};

/* Memory: 64 MiB, or twice a row of the widest tensor. */
enum mds_rc mds_hf_export(const struct mds_hf_export *e, int *files);

/* ---- in ---- */

struct mds_hf_weights;

/* The weights in dir, found to be all there, and no more than those of the model.
 * Borrows whole. */
enum mds_rc mds_hf_weights_open(const char *dir, const struct mds_hf_source *source,
                                const struct mds_model_config *m,
                                const struct mds_params *whole,
                                struct mds_hf_weights **out);
void mds_hf_weights_close(struct mds_hf_weights *w); /* NULL is fine */

/* Elements first .. first + n - 1 of a unit of `local`, a registry of the same model;
 * gaps 0, rows that pad the vocabulary the start values of `seed`. */
void mds_hf_weights_fill(const struct mds_hf_weights *w, const struct mds_params *local,
                         uint64_t seed, int unit, int64_t first, int64_t n, float *out);

#endif
