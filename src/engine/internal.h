/* SPDX-License-Identifier: BSD-3-Clause */
/* For engine/ alone. */
#ifndef MDS_ENGINE_INTERNAL_H
#define MDS_ENGINE_INTERNAL_H

#include "engine/engine.h"
#include "kernels/half.h"
#include "model/gpt.h"
#include "optim/loss_scale.h"
#include "pipeline/pipe.h"

/* Runs micro-batches, to train or to evaluate. */
struct pipeline {
    struct mds_schedule *schedule;
    struct mds_pipe *pipe;
};

/* Of attention, if they are looked at; bounds as in mds_gpt_run. */
struct mds_engine_logits {
    float *bound;    /* in state: [layers, heads]; NULL if they are not */
    float *here;     /* host: the same, of the last step */
    double *all;     /* host: the largest of all ranks */
    double *layer;   /* [layers]: the largest of a layer's heads */
    float *factor;   /* [layers, heads of queries, then of keys] */
    int64_t clipped; /* heads of queries above the threshold */
};

struct mds_engine {
    const struct mds_config *config; /* borrowed */
    struct mds_dev *dev, *host_dev;  /* borrowed */
    const struct mds_groups *groups; /* borrowed */
    struct mds_arena state, step, host;
    struct mds_arena save; /* the copy for saving in the background */
    void *copy;            /* in save */
    struct mds_params *params;
    struct mds_gpt *gpt;
    struct mds_gpt_step *gpt_step;
    int model_chunks;
    struct mds_zero *zero;
    struct pipeline train, eval;
    struct mds_loss_scale scale;
    /* Sums that kernels accumulate, in state: the losses of each kind of token, their
     * numbers, and the squares of the gradient.  In evaluation each micro-batch has its
     * losses and numbers. */
    double *scalars;
    int n_scalars;
    float *expert_load;    /* in state: [layers, experts]; NULL without experts */
    float *batch_load;     /* the same, for balance over the batch; or NULL */
    float *load_here;      /* host: the same, of the last step */
    double *load;          /* host: summed over all ranks */
    double *router_sums;   /* in state: [layers, 2], or NULL: they are not logged */
    double *router_losses; /* host: of all ranks, as means over tokens */
    float *expert_bias;    /* in state: [layers, experts]; NULL without biases */
    double *bias;          /* host: the same */
    float *bias_f32;       /* host: to copy from */
    struct mds_engine_logits logit;
    int64_t tokens_here; /* of a micro-batch, on this rank: sequences x tokens */
    int64_t starts_here; /* of a micro-batch: sequences x all tokens, or 0 */
    int32_t *start;      /* in state: [accumulation, starts_here], or NULL */
    int32_t *host_start; /* host: the same; NULL without kernels */
    int32_t *position;   /* as start, of positions; NULL: these are starts, too */
    int32_t *host_position;
    struct mds_pairs pairs; /* that attention sees in this replica's rows */
    char *has_documents;    /* host: [accumulation], whether rows have several; and
                                whether some go on behind the beginning of others */
    char *has_prefixes;
    int32_t *token, *target; /* in state: [accumulation, tokens_here] each */
    unsigned char *kind;     /* the same, of targets; NULL: tokens have no kinds */
    float *kind_weight;      /* in state: [kinds], or NULL */
    double *loss;            /* in state: [accumulation, tokens_here], or NULL */
    char *hidden;            /* in state: hidden states, or logits; or NULL */
    int64_t hidden_bytes;    /* of a micro-batch */
    char *cache;             /* in state: keys and values of each batch, or NULL */
    char *host_cache;        /* in host: the same, of the first blocks; or NULL */
    void *logits;            /* in state: [tensor ranks, B, words of a rank], or NULL */
    char *host_logits;       /* host: the same; NULL without kernels */
    void *received, *to_send; /* in state: generation's stream from the stage before and
                                 to the next, or NULL */
    struct mds_comm_p2p sent; /* to_send, until the next stage has it */
    int32_t *next;            /* in state: the place of one more token, minus that for
                                each sequence, and these tokens: [1 + 2 B]; then the
                                last ones that were chosen there (mdsk_next_token) */
    int32_t *host_next;       /* host: the same; NULL without kernels */
    void *decoding;           /* such a pass, recorded; or NULL */
    int64_t decoded_B;        /* sequences of the last one; 0: none yet */
    int32_t *staged;          /* host: [tokens_here] */
    double grad_scale;        /* of the last backward's gradients: what they are divided
                                by before the update */
    double grad_norm;         /* of the last backward */
    int overflow;             /* of the last backward */

    void (*report)(void *ctx, const struct mds_step_position *at); /* or NULL */
    void *report_ctx;

    /* of the current step */
    int64_t first_sample;
    int64_t micro_batches;
    int training;
    int micro_batch; /* of the pass that runs */
};

/* Bytes that this rank writes into a checkpoint: 12 for each element it owns. */
int64_t mds_engine_save_bytes(const struct mds_engine *e);

/* Element i of values in the type of the model. */
static inline float mds_engine_value(enum mdsk_dtype type, const char *raw, int64_t i)
{
    if (type == MDSK_F32)
        return ((const float *)raw)[i];
    return type == MDSK_BF16 ? mdsk_bf16_to_f32(((const uint16_t *)raw)[i])
                             : mdsk_f16_to_f32(((const uint16_t *)raw)[i]);
}

/* Words that each tensor rank has, with the padding. */
static inline int64_t mds_engine_words(const struct mds_engine *e)
{
    return e->config->model.padded_vocab / mds_groups_size(e->groups, MDS_AXIS_TENSOR);
}

/* Memory for generation, of a configuration that has any; and the most tokens of a
 * sequence that this rank computes at once. */
enum mds_rc mds_engine_alloc_generation(struct mds_engine *e);
int64_t mds_engine_most_new_tokens(const struct mds_engine *e);
void mds_engine_free_generation(struct mds_engine *e);

/* ---- balance.c ---- */

/* Memory for the load of experts and the router's losses, in training, and for
 * biases. */
enum mds_rc mds_engine_alloc_balance(struct mds_engine *e);
void mds_engine_free_balance(struct mds_engine *e);

/* Begin counting; read what was counted back, summed over the world. */
void mds_engine_clear_load(struct mds_engine *e);
enum mds_rc mds_engine_read_load(struct mds_engine *e, double batch_tokens);

/* By that load, after a step. */
void mds_engine_update_biases(struct mds_engine *e);

/* ---- logits.c ---- */

enum mds_rc mds_engine_alloc_logits(struct mds_engine *e);
void mds_engine_free_logits(struct mds_engine *e);

/* Begin looking at a step's logits; read back what was seen, on all ranks. */
void mds_engine_clear_logits(struct mds_engine *e);
enum mds_rc mds_engine_read_logits(struct mds_engine *e);

/* By which the update is to scale heads, as the model numbers them; until the next
 * read.  NULL: none. */
const float *mds_engine_head_factors(const struct mds_engine *e);

#endif
