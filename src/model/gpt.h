/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPT, or the model chunks of it on one pipeline stage: its parameters, and forward
 * and backward of micro-batches.
 *
 * Without sequence tiles the residual stream between blocks is a pair of x and a
 * branch, which the next block adds, if it can in its first norm.  Between model chunks
 * of the pipeline, and with tiles, it is their sum.
 *
 * Parameters, `.bias` and `.beta` where the configuration has them; in brackets how a
 * tensor-parallel group shards them:
 *   embedding.word.weight [Vp,H] (rows)
 *   embedding.position.weight [positions,H] (rows, if each rank has part of the tokens)
 *   layer.N.norm1.gamma .beta [H]                 before attention
 *   layer.N.attention.{q,k,v}.weight .bias (rows)
 *   layer.N.attention.out.weight (columns) .bias
 *   layer.N.attention.out_norm.gamma .beta [H]    after it
 *   layer.N.norm2.gamma .beta [H]                 before the MLP
 *   layer.N.mlp.{gate,up}.weight .bias (rows)
 *   layer.N.mlp.down.weight (columns) .bias
 *   layer.N.mlp.out_norm.gamma .beta [H]          after the MLP
 *   in blocks with experts, in place of these: layer.N.mlp.router.weight [E,H], and
 *   layer.N.mlp.experts.M.{gate,up}.weight (rows), .down.weight (columns), and for a
 *   shared expert layer.N.mlp.shared.{gate,up}.weight (rows), .down.weight (columns)
 *   final_norm.gamma .beta [H]
 *   head.weight [Vp,H] (rows), unless tied to embedding.word
 * Vp is the vocabulary padded for tensor parallelism; the loss ignores the padding.
 * Units: the word embedding, positions, each layer, and final norm with head. */
#ifndef MDS_MODEL_GPT_H
#define MDS_MODEL_GPT_H

#include "base/status.h"
#include "config/config.h"
#include "device/arena.h"
#include "parallel/par.h"
#include "parallel/vocab.h"
#include "tensor/params.h"

#include <stdio.h>

struct mds_gpt;

/* A model chunk: consecutive layers; the first has the embedding, the last the head. */
struct mds_gpt_chunk {
    int first_layer, layers;
    int is_first, is_last;
};

struct mds_gpt_spec {
    const struct mds_model_config *config; /* resolved, vocabulary known; copied */
    const struct mds_groups *groups;       /* borrowed */
    int sequence_parallel;
    int positions_restart; /* each rank may need any row of the position table */
    int tensor_chunks;     /* mds_par.chunks; 0: chosen by the length of rows */
    const struct mds_gpt_chunk *chunks; /* of this stage; copied */
    int n_chunks;
    struct mds_params *params; /* borrowed; receives units and parameters */
};

/* The model does not change after this: the state of a step is in struct
 * mds_gpt_step. */
enum mds_rc mds_gpt_create(const struct mds_gpt_spec *spec, struct mds_gpt **out);
void mds_gpt_destroy(struct mds_gpt *g); /* NULL is fine */

/* The unit that both the first and the last stage hold if the head is tied; else -1. */
int mds_gpt_tied_unit(const struct mds_gpt *g);

/* Bytes of the tensor passed between model chunks, for B sequences of S tokens. */
int64_t mds_gpt_boundary_bytes(const struct mds_gpt *g, int64_t B, int64_t S);

/* How to run a step.  Memory is allocated from the arenas from step_begin on, and freed
 * by step_end. */
struct mds_gpt_run {
    struct mds_dev *dev; /* borrowed, as is the rest */
    struct mds_arena *arena;
    struct mds_arena *host; /* host memory for what is offloaded, or NULL */
    const struct mds_train_config *train; /* recompute, tiles, seed */
    int64_t B, S;                         /* of each micro-batch */
    int saved_buffers;                    /* mds_schedule_saved_buffers */
    int training;                         /* 0: forward only, without dropout */
    uint32_t step;                        /* of the optimizer; part of dropout's key */
    float grad_scale;                     /* of the sum of losses */
    /* [layers of the model, experts] on the device, or NULL: how many of this rank's
     * tokens go to each is added, in backward. */
    float *expert_load;
    /* The same for balance over the whole batch (global_aux_loss), counted in forward:
     * of the micro-batches so far, without experts' biases.  Else NULL. */
    float *batch_load;
    /* [layers of the model, 2] on the device, or NULL: what balance and the size of
     * logits add to the loss (mdsk_route_losses) is added, in backward. */
    double *router_losses;
    /* [layers of the model, experts] on the device, or NULL: added to the experts'
     * scores for the choice. */
    const float *expert_bias;
    /* [layers of the model, heads] on the device, or NULL: raised to the largest
     * log-sum-exp of attention's scores, of the heads and queries of this rank. */
    float *logit_bound;
    /* Called when a block has been queued on the device (on CPUs: computed), unless
     * NULL; layer: in the whole model, from 0. */
    void (*block_queued)(void *ctx, int backward, int layer);
    void *ctx;
    /* Generation, unless tokens is 0: the caches of this rank's blocks, one after the
     * other, with room for `tokens` tokens of B sequences each, on all ranks that split
     * them together.  Those of the first on_host blocks are in host memory, at host.
     * The micro-batch then is tokens first .. first + S - 1 (mds_par_set_new_tokens).
     *
     * place, or NULL: `first` on the device, for a pass of one token on one rank that
     * is recorded (mds_dev_record): kernels read it there.  Then the batch has
     * position_start, of - first, and positions count from that. */
    struct mds_gpt_cache {
        void *kv, *host;
        int64_t on_host;
        int64_t tokens, first;
        const int32_t *place;
    } cache;
};

/* Bytes of such a cache of one block on this rank, and the most blocks that a model
 * chunk has here. */
int64_t mds_gpt_cache_bytes(const struct mds_gpt *g, int64_t B, int64_t tokens);
int64_t mds_gpt_blocks(const struct mds_gpt *g);

/* One micro-batch: token and targets of [tokens here, B] on the device (sequence-major,
 * parallel/shard.h).  token is for the first model chunk; targets, and the sums that
 * their losses are added to, for the last. */
struct mds_gpt_batch {
    int64_t first_sample; /* number in the whole training; part of dropout's key */
    int number;           /* in the step, from 0 */
    const int32_t *token;
    struct mds_targets targets;
    /* For the last model chunk, unless NULL: [rows of this rank, H], which the stream
     * is written to in place of a loss, after the final norm if train->hidden says so.
     */
    void *hidden;
    /* Generation: where the logits of each sequence's last token go, [tensor ranks, B,
     * words of a rank]; NULL: they are not wanted. */
    void *logits;
    /* struct mds_par; for all model chunks */
    const int32_t *key_start, *host_key_start, *position_start, *host_position_start;
};

/* The state of the current step: what its micro-batches have saved. */
struct mds_gpt_step;

enum mds_rc mds_gpt_step_create(const struct mds_gpt *g, struct mds_gpt_step **out);
void mds_gpt_step_destroy(struct mds_gpt_step *s); /* NULL is fine */

/* Print the lists that blocks have run by so far. */
void mds_gpt_show_step(const struct mds_gpt_step *s, FILE *f);

enum mds_rc mds_gpt_step_begin(struct mds_gpt_step *s, const struct mds_gpt_run *run);
void mds_gpt_step_end(struct mds_gpt_step *s);

/* in, out: [rows of this rank, H] between model chunks, NULL at the ends of the model.
 * buffer: index of the buffer for saved activations.  The last chunk adds up the loss
 * and, in training, computes the head's gradients right away. */
enum mds_rc mds_gpt_forward(struct mds_gpt_step *s, int chunk, int buffer,
                            const struct mds_gpt_batch *batch, const void *in,
                            void *out);

/* The tokens whose rows this rank has between GEMMs, in `hidden`: those of the last
 * micro-batch.  Borrowed from s. */
const struct mds_shard_tokens *mds_gpt_step_tokens(const struct mds_gpt_step *s);

/* d_out, d_in: gradients of out and in.  Parameter gradients are accumulated; each unit
 * of the chunk calls grad_ready once (the head's unit in forward). */
enum mds_rc mds_gpt_backward(struct mds_gpt_step *s, int chunk, int buffer,
                             const struct mds_gpt_batch *batch, const void *d_out,
                             void *d_in);

#endif
