/* SPDX-License-Identifier: BSD-3-Clause */
/* Everything a user can set, as plain structs.  options.c fills them from one table;
 * modules above take the sub-struct they need. */
#ifndef MDS_CONFIG_CONFIG_H
#define MDS_CONFIG_CONFIG_H

#include "base/str.h"
#include "config/activations.h"
#include "config/batches.h"
#include "config/extent.h"
#include "config/kinds.h"
#include "config/pairs.h"
#include "kernels/activation.h"
#include "topo/axes.h"

#include <stdint.h>

enum mds_position_kind {
    MDS_POSITION_LEARNED,
    MDS_POSITION_ROPE,
    MDS_POSITION_NONE,
    MDS_POSITION_ALIBI
};
enum mds_norm_choice { MDS_NORM_LAYERNORM, MDS_NORM_RMSNORM };
enum mds_lr_decay {
    MDS_LR_CONSTANT,
    MDS_LR_LINEAR,
    MDS_LR_COSINE,
    MDS_LR_WSD,
    MDS_LR_EXPONENTIAL
};
enum mds_norm_placement { MDS_NORM_BEFORE, MDS_NORM_AFTER, MDS_NORM_BOTH };

/* What to do about a step whose loss or gradient is not finite. */
enum mds_nonfinite { MDS_NONFINITE_STOP, MDS_NONFINITE_SKIP, MDS_NONFINITE_ROLLBACK };

/* How rotary frequencies are scaled for longer sequences; rope.h has the formulas. */
enum mds_rope_scaling {
    MDS_ROPE_UNSCALED,
    MDS_ROPE_LINEAR,
    MDS_ROPE_NTK,
    MDS_ROPE_YARN,
    MDS_ROPE_LLAMA3
};

/* Storage of weights and activations; sums, statistics and the loss are f32 always. */
enum mds_number_type { MDS_TYPE_F32, MDS_TYPE_BF16, MDS_TYPE_F16 };
extern const char *const mds_number_type_names[]; /* "fp32", ... */

/* FP8 of the blocks' linear layers: E4M3 for all operands; or (hybrid) E5M2 for
 * gradients and E4M3 for the others. */
enum mds_fp8_format { MDS_FP8_NONE, MDS_FP8_E4M3, MDS_FP8_HYBRID };
extern const char *const mds_fp8_format_names[]; /* "none", ... */

struct mds_fp8_config {
    int format;          /* enum mds_fp8_format */
    int recipe;          /* of scales; there is one, tensorwise */
    int wgrad;           /* whether weights' gradients are computed in FP8, too */
    int first_last_bf16; /* these blocks have no FP8: */
    int64_t start_bf16, end_bf16;
};

/* Where states or weights are stored between their uses: on the device, or offloaded to
 * host memory or a local disk. */
enum mds_place_kind { MDS_PLACE_DEVICE, MDS_PLACE_CPU, MDS_PLACE_NVME };

/* What keeps the experts' load even: nothing, or the share of tokens times the mean
 * probability of each expert, of all tokens of a rank's micro-batch or of each
 * sequence; or with the share in the micro-batches of all ranks so far in a step. */
enum mds_load_balance {
    MDS_BALANCE_NONE,
    MDS_BALANCE_MICRO_BATCH,
    MDS_BALANCE_SEQUENCE,
    MDS_BALANCE_BATCH
};

/* What a router makes of its logits to choose experts and to weigh their results. */
enum mds_router_score { MDS_SCORE_SOFTMAX, MDS_SCORE_SIGMOID };

/* A mixture of experts in place of each MLP. */
struct mds_experts_config {
    int64_t n, topk;    /* n 0: none */
    int64_t ffn_hidden; /* of each; derived from the model's if 0 */
    int64_t shared;     /* inner width of an MLP beside them; 0: none */
    char *layers;       /* which blocks have them, as the user wrote it; NULL: all */
    int pre_softmax;    /* weights are shares of all experts, not of the chosen */
    enum mds_router_score score;
    double scale; /* of weights */
    enum mds_load_balance balance;
    double balance_coeff, z_coeff;
    int bias;         /* an expert has a bias for the choice, which balances */
    double bias_rate; /* by which it changes in a step */
};

/* Maximal update parametrization (--use-mup): what depends on how many times wider than
 * a base model this one is. */
struct mds_mup_config {
    int on;
    int64_t base_hidden;   /* derived from the model's if 0 */
    double base_head_dim;  /* 0: scores are divided by the size of a head alone */
    double embedding_mult; /* of the embedding's result */
    double output_mult;    /* of logits; 1: base width / width */
};

/* The shape of a GPT.  0 in a size means "derived": ffn_hidden 4H (or 8H/3 rounded up
 * to a multiple of 64 with a gate), kv_heads = heads, head_dim = hidden / heads,
 * max_positions = seq_length.  config_resolve.c fills those in. */
struct mds_model_config {
    char *size_key; /* row of the model table, NULL for none */
    int64_t layers, hidden, heads;
    int64_t kv_heads, ffn_hidden, head_dim;
    int64_t seq_length, max_positions;
    int64_t vocab;        /* words: of the data, or of a checkpoint that has more; 0
                             until the data is opened */
    int64_t padded_vocab; /* vocab rounded up to a multiple of vocab_divisor */
    int64_t vocab_divisor;
    enum mds_position_kind position;
    double rotary_percent; /* of head_dim that rotates, 0 < .. <= 1 */
    double rotary_base;
    char *window_size; /* as the user wrote both; NULL: all layers see all keys */
    char *window_skip;
    int64_t window;           /* derived: keys that a query of a local layer sees */
    int64_t window_skip_freq; /* derived: every such layer is global; 0: a list */
    enum mds_rope_scaling rope_scaling;
    double rope_factor;    /* >= 1: how many times longer sequences are */
    int64_t rope_original; /* tokens of a sequence in the first training */
    double rope_beta_fast, rope_beta_slow; /* turns in those tokens; fast 0: default */
    double rope_attention_factor;          /* 0: by the factor */
    enum mds_norm_choice norm;
    enum mds_norm_placement norm_placement; /* around attention and MLP */
    double norm_eps;
    int chosen[MDSK_ACTIVATION_KINDS]; /* one flag per function; at most one is set */
    enum mdsk_activation_kind activation; /* derived: the one chosen, or the first */
    int parallel_residual; /* a block's MLP takes what its attention takes */
    int qk_layernorm; /* norms of each head's queries and keys, before they rotate */
    int qk_norm_across_heads; /* or of those of all heads as one row */
    int linear_bias;          /* biases in linears (and, with layernorm, always beta) */
    int qkv_bias;  /* biases of queries, keys and values, also without those */
    int tied_head; /* head shares the token embedding */
    double init_std;
    struct mds_mup_config mup;
    double hidden_dropout, attention_dropout;
    struct mds_fp8_config fp8;
    struct mds_experts_config experts;
};

/* Whether layer 0, 1, ... has experts, and how many layers do. */
int mds_model_has_experts(const struct mds_model_config *m, int64_t layer);
int64_t mds_model_expert_layers(const struct mds_model_config *m);

/* What muP makes of a model (mup.c): how many times wider than its base it is, which is
 * 1 without; and what scores, logits and the embedding's result are multiplied by. */
double mds_mup_width(const struct mds_model_config *m);
double mds_mup_score_scale(const struct mds_model_config *m);
double mds_mup_logit_scale(const struct mds_model_config *m);
double mds_mup_embedding_scale(const struct mds_model_config *m);

/* After so many layers those with experts and without come in the same order again. */
int64_t mds_model_expert_period(const struct mds_model_config *m);

/* Parameters of layer 0, 1, ... */
int64_t mds_model_block_params(const struct mds_model_config *m, int64_t layer);

/* In a block with experts, or without, the inner width of the MLP that all tokens pass:
 * the shared expert, or the only one; 0: none. */
static inline int64_t mds_model_dense_inner(const struct mds_model_config *m,
                                            int with_experts)
{
    return with_experts ? m->experts.shared : m->ffn_hidden;
}

/* How many keys, its own among them, a query of layer 0, 1, ... sees at most; 0: all
 * earlier ones.  The model is resolved. */
int64_t mds_model_window(const struct mds_model_config *m, int64_t layer);

/* Whether the linear layers of layer 0, 1, ... are computed in FP8. */
int mds_model_layer_is_fp8(const struct mds_model_config *m, int64_t layer);

/* SP_TYPE of the ALCF scripts: what to do with all ranks when no size is given. */
enum mds_sp_type { MDS_SP_NONE, MDS_SP_MEGATRON, MDS_SP_DS };

/* Ranks per dimension, and what they share. */
struct mds_parallel_config {
    union {
        int64_t size[MDS_AXES]; /* the same by row of mds_axes (topo/axes.h) */
        struct {
            int64_t tensor, ulysses, ring;
            int64_t data; /* derived: world / all others but expert */
            int64_t pipeline;
            int64_t expert; /* of Ulysses x ring x data */
        };
    };
    /* Megatron's: norms, dropout and residuals cut along the sequence over tensor. */
    int sequence_parallel;
    int64_t tensor_chunks;  /* of rows that tensor ranks exchange; 0: by their length */
    int64_t virtual_layers; /* blocks per interleaved chunk; 0: not interleaved */
    int64_t virtual_stages; /* derived: chunks per stage, 1 if not interleaved */
    int64_t zero_stage;
    enum mds_place_kind offload_optimizer; /* master weights and moments */
    enum mds_place_kind offload_params;    /* stage 3: weights; device or cpu */
    char *nvme_path;                       /* folder for MDS_PLACE_NVME, or NULL */
    enum mds_sp_type sp_type;
    double timeout_s; /* how long a rank may be silent before the run aborts */
};

/* In sequences: global = micro * accumulation * data-parallel size.  The user sets at
 * most two of the three.  Where the size changes during the run, global and
 * accumulation are those of the largest steps, which memory has to hold. */
struct mds_batch_config {
    int64_t micro, global, accumulation;
    char *rampup, *steps;               /* as the user wrote them, or NULL */
    struct mds_batch_schedule schedule; /* derived from one of both */
};

/* In the order of --optimizer; ADAM is AdamW, too. */
enum mds_optimizer { MDS_ADAMW, MDS_ADAM, MDS_MUON };

/* How large Muon's step is for a matrix [m, n]. */
enum mds_muon_scale {
    MDS_MUON_SPECTRAL, /* sqrt(max(m, n)) */
    MDS_MUON_SHAPE,    /* sqrt(max(1, m / n)) */
    MDS_MUON_UNIT,     /* sqrt(m / n) */
};

struct mds_optim_config {
    enum mds_optimizer kind;
    double muon_momentum;
    int muon_nesterov;
    int64_t muon_steps; /* of Newton-Schulz */
    enum mds_muon_scale muon_scale;
    double muon_extra_scale;
    double lr, min_lr;
    enum mds_lr_decay decay;
    struct mds_extent decay_length;  /* the whole run if not given */
    struct mds_extent warmup_length; /* warmup_fraction if not given */
    double warmup_fraction;          /* of the decay */
    int64_t wsd_decay_iters; /* length of WSD's final decay; 0: a tenth of the decay */
    double weight_decay, beta1, beta2, eps;
    double clip_grad; /* global norm; 0: off */
    int qk_clip;      /* scale heads whose logits exceed the threshold */
    double qk_clip_threshold;
    double qk_clip_alpha; /* the queries' part of a head's factor, as its power */
};

/* What an evaluation keeps of each token: the stream behind the last block, before or
 * after the final norm, in place of a loss; or the logits, beside it. */
enum mds_hidden {
    MDS_HIDDEN_NONE,
    MDS_HIDDEN_STREAM,
    MDS_HIDDEN_NORMED,
    MDS_HIDDEN_LOGITS
};

struct mds_train_config {
    struct mds_extent length; /* in several units: the nearest end counts */
    int64_t seed;
    int64_t eval_interval, eval_iters; /* eval_iters 0: no evaluation */
    int skip_train;                    /* evaluate the loaded weights, then exit */
    int token_losses;       /* no option: evaluation keeps each token's loss */
    enum mds_hidden hidden; /* no option: of evaluation */
    int shared_prefixes;    /* no option: documents of an evaluation's row may go on
                               behind the beginning of another one (mds_engine_rows) */
    int64_t prefill;        /* no option: generation reads so many tokens of a prompt at
                                a time; 0: no generation */
    int64_t prompt;         /* no option: for plans, tokens of the longest prompt */
    int64_t host_caches;    /* no option: in generation, so many blocks of a stage have
                               their keys and values in host memory */
    int log_logits;         /* report how large attention's logits get */
    int64_t log_interval;   /* steps; 0: by the length of the run */
    int64_t exit_interval;  /* exit after a step divisible by it; 0: never */
    double exit_duration_s; /* 0: no limit */
    int exit_signal_handler; /* on a signal, finish the step, save and exit */
    enum mds_nonfinite on_nonfinite;
    int64_t nonfinite_limit; /* steps skipped in a row; returns to one checkpoint */
    double spike_sigma;      /* deviations above the mean loss; 0: not watched */
    enum mds_number_type type;
    double z_loss;     /* coefficient of the square of log(sum exp) of logits */
    double loss_scale; /* fixed; 0: dynamic, by the next four (f16 only) */
    double initial_loss_scale, min_loss_scale;
    int64_t loss_scale_window;  /* steps without overflow before it doubles */
    int64_t hysteresis;         /* overflows before it halves */
    struct mds_activations act; /* what blocks keep */
    char *activation_memory;    /* of act: mds_act_read; NULL: options say it */
    int act_is_open;    /* auto: act is the last level, until one is chosen that fits */
    unsigned act_given; /* beside any level: bit i is mds_act_options[i] */
    int64_t bucket_bytes; /* of gradients per overlapped all-reduce */
    int64_t threads;      /* per rank; 0: cores / ranks of this node */
    int overlap_grad_reduce;
    int preflight;      /* check all nodes before training */
    int preflight_only; /* and then exit */
    int comm_check;     /* compare collectives of all ranks before each */
    int deterministic;  /* the same bits in every run */
    int flash_attn;     /* fused attention; else scores pass through memory */
    int profile;        /* measure the steps after profile_start, up to profile_end */
    int64_t profile_start, profile_end;
    int dry_run;   /* no MPI, no computing: print what a rank would need */
    int show_step; /* with dry_run: print the steps of a block */
    int64_t dry_world, dry_rank; /* number of ranks, and which of them is simulated */
};

/* Where --split may cut; AUTO: text at documents, genomes anywhere. */
enum mds_split_at { MDS_SPLIT_AT_AUTO, MDS_SPLIT_AT_DOCUMENTS, MDS_SPLIT_AT_TOKENS };

/* Whether samples are rows of whole documents. */
enum mds_pack { MDS_PACK_OFF, MDS_PACK_ON, MDS_PACK_AUTO };

struct mds_data_config {
    /* Each one path, or "weight path weight path ..."; NULL: not given.  Either paths,
     * divided by split; or train_paths, and the other two if wanted, each used whole.
     */
    char *paths, *train_paths, *valid_paths, *test_paths;
    char *split;              /* train,valid,test proportions */
    int split_at;             /* enum mds_split_at */
    int pack_documents;       /* enum mds_pack */
    int64_t window_stride;    /* of windows of long documents; 0: the whole window */
    int reset_attention_mask; /* attention stays inside of documents */
    int reset_position_ids;   /* positions begin again with each */
    int eod_mask_loss; /* no loss for a document's first token, behind another one */

    int random_reverse_complement; /* half of the training samples of DNA */

    struct mds_kind_table kinds; /* of the data's tokens */
    struct mds_pairs seen;       /* for plans and dry runs, no option: mds_data_seen */
};

/* Whether anything depends on where documents begin. */
static inline int mds_data_has_starts(const struct mds_data_config *d)
{
    return d->reset_attention_mask || d->reset_position_ids || d->eod_mask_loss;
}

enum mds_log_format { MDS_LOG_AUTO, MDS_LOG_MEGATRON, MDS_LOG_SHORT };

struct mds_output_config {
    char *device;          /* auto, cpu or cuda */
    char *model_table;     /* ALCF/models.yaml or the installed one */
    char *init_weights;    /* safetensors to start from, or NULL */
    char *export_weights;  /* safetensors to write at the end, or NULL */
    char *metrics_jsonl;   /* JSON lines, or NULL */
    char *tensorboard_dir; /* or NULL */
    char *events;          /* JSON lines for other programs, or NULL */
    char *trace_dir;       /* initial weights, step-1 gradients and batches, or NULL */
    int64_t trace_steps;   /* steps whose batches and losses are traced */
    char *log_level;
    int log_format;  /* enum mds_log_format */
    int log_experts; /* of each block */
    int overwrite;   /* replace what another run has left */
};

/* What the rows of embedding and head begin with that a checkpoint does not have. */
enum mds_resize { MDS_RESIZE_OFF, MDS_RESIZE_INIT, MDS_RESIZE_MEAN };

/* What a run resumes from, and what it saves. */
struct mds_checkpoint_config {
    char *save, *load;  /* folders, or NULL */
    int64_t interval;   /* steps between saves; 0: at the end only */
    int64_t keep_last;  /* checkpoints; 0: all */
    int64_t keep_every; /* iterations whose multiples are kept besides; 0: none */
    int async_save;     /* training continues while they are written */
    int load_fallback;  /* if the newest is damaged, load the one before */
    int no_load_optim;  /* do not load the moments; they start at 0 */
    int finetune;       /* load only the weights, and start a new run */
    int override_model; /* allow settings that change what the weights compute */
    int resize_vocab;   /* enum mds_resize; off: such rows are an error */
};

/* Files with further settings; read first. */
struct mds_sources_config {
    char *config;    /* YAML, or NULL */
    char *deepspeed; /* DeepSpeed's JSON, or NULL */
    char *machine;   /* profile: a file, or the name of one; or NULL */
};

struct mds_config {
    struct mds_model_config model;
    struct mds_parallel_config parallel;
    struct mds_batch_config batch;
    struct mds_optim_config optim;
    struct mds_train_config train;
    struct mds_data_config data;
    struct mds_output_config output;
    struct mds_checkpoint_config checkpoint;
    struct mds_sources_config sources;
};

/* By enum mds_place_kind, as options have them; NULL at the end. */
extern const char *const mds_place_names[];

/* Blocks of a pipeline stage, or of each model chunk if interleaved; the smallest if
 * they differ. */
int64_t mds_stage_blocks(const struct mds_config *c);

/* Of a resolved configuration: what the step that begins at `done` adds, its
 * micro-batches on each rank, and how far the run is at the end of `length`, or at
 * `done` if that is behind it. */
struct mds_extent mds_config_step(const struct mds_config *c,
                                  const struct mds_extent *done);
int64_t mds_config_micro_batches(const struct mds_config *c,
                                 const struct mds_extent *done);
struct mds_extent mds_config_end(const struct mds_config *c,
                                 const struct mds_extent *length,
                                 const struct mds_extent *done);

/* "4 sequences, 8 from sample 100 on, ..."; nothing of a constant size. */
void mds_config_batches_text(const struct mds_config *c, struct mds_str *out);

/* ---- levels of activation memory, of a resolved configuration ---- */

/* Tokens of a tile where so many ranks share a sequence; 0: too few for tiles. */
int64_t mds_config_tile(const struct mds_model_config *m, int64_t ranks);

/* The first level from *level on that goes with what the user gave, in *out, which is c
 * but for that; not one that is the same as *out has already.  *level becomes the one
 * behind it.  0: there is no more. */
int mds_config_next_level(const struct mds_config *c, int *level,
                          struct mds_config *out);

/* "--recompute-granularity full --loss-tile 4096": what differs from the defaults, but
 * for the options in `but` (bits as in act_given). */
void mds_act_text(const struct mds_activations *a, unsigned but, struct mds_str *out);

/* The same behind a user's options, those in `fixed`.  Where the user's value of
 * --activation-memory, `asked` or NULL, has to be replaced, it says what that said. */
void mds_act_text_behind(const struct mds_activations *a, const char *asked,
                         unsigned fixed, struct mds_str *out);

/* ", full recompute, inputs on the host": for people; nothing for the defaults. */
void mds_act_describe(const struct mds_activations *a, struct mds_str *out);

#endif
