/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPT, or the pieces of it that one pipeline stage holds: parameters, and forward and
 * backward of micro-batches.
 *
 * Blocks are pre-norm.  Without sequence tiles the residual stream travels between them
 * as x and a branch still to be added; the next norm's kernel forms their sum.  Between
 * pieces of the pipeline, and with tiles, it travels as the sum.
 *
 * Parameters, `.bias` and `.beta` where the configuration has them; in brackets how a
 * tensor-parallel group shares them (all of a rank's linears are ordinary ones):
 *   embedding.word.weight [Vp,H] (rows)
 *   embedding.position.weight [positions,H] (rows, if each rank sees one slice)
 *   layer.N.norm1.gamma .beta [H]
 *   layer.N.attention.{q,k,v}.weight .bias (rows)
 *   layer.N.attention.out.weight (columns) .bias
 *   layer.N.norm2.gamma .beta [H]
 *   layer.N.mlp.{gate,up}.weight .bias (rows)
 *   layer.N.mlp.down.weight (columns) .bias
 *   final_norm.gamma .beta [H]
 *   head.weight [Vp,H] (rows), unless tied to embedding.word
 * Vp is the vocabulary rounded up; the surplus takes no part in the loss.  Units: the
 * word embedding, positions, each layer, and final norm with head. */
#ifndef MDS_MODEL_GPT_H
#define MDS_MODEL_GPT_H

#include "base/status.h"
#include "config/config.h"
#include "device/arena.h"
#include "parallel/par.h"
#include "tensor/params.h"

struct mds_gpt;

/* Consecutive layers, with the embedding before them or the head behind. */
struct mds_gpt_piece {
    int first_layer, layers;
    int is_first, is_last;
};

struct mds_gpt_spec {
    const struct mds_model_config *config; /* resolved, vocabulary known; copied */
    const struct mds_groups *groups;       /* borrowed */
    int sequence_parallel;
    int tensor_chunks;                  /* mds_par.chunks; 0: by the length of rows */
    const struct mds_gpt_piece *pieces; /* of this stage; copied */
    int n_pieces;
    struct mds_params *params; /* borrowed; receives units and parameters */
};

/* The model does not change after this: what a step has under way is in a struct
 * mds_gpt_step. */
enum mds_rc mds_gpt_create(const struct mds_gpt_spec *spec, struct mds_gpt **out);
void mds_gpt_destroy(struct mds_gpt *g); /* NULL is fine */

/* The unit that first and last stage both have when the head is tied; -1: none here. */
int mds_gpt_tied_unit(const struct mds_gpt *g);

/* Bytes of the tensor that passes between pieces, for B sequences of S tokens. */
int64_t mds_gpt_boundary_bytes(const struct mds_gpt *g, int64_t B, int64_t S);

/* How to run a step.  All memory comes from the arenas, taken from step_begin on and
 * back there after step_end. */
struct mds_gpt_run {
    struct mds_dev *dev; /* borrowed, as is the rest */
    struct mds_arena *arena;
    struct mds_arena *host; /* host memory for what is offloaded, or NULL */
    const struct mds_train_config *train; /* recompute, tiles, seed */
    int64_t B, S;                         /* of each micro-batch */
    int sets;      /* micro-batches of pieces in flight: mds_schedule_saved_buffers */
    int training;  /* else forward alone, without dropout */
    uint32_t step; /* of the optimizer: dropout differs between steps */
    float grad_scale; /* of the sum of losses */
};

/* One micro-batch: token and target [tokens here, B] i32 on the device (sequence-major,
 * parallel/shard.h); target -1: no loss.  token is for the first piece, target for the
 * last. */
struct mds_gpt_batch {
    int64_t first_sample; /* of the run: dropout is keyed by it */
    const int32_t *token, *target;
};

/* Sums over the tokens with a target, on the device: loss in nats, and how many. */
struct mds_gpt_loss {
    double sum, count;
};

/* The state of one step at a time: what its micro-batches have saved. */
struct mds_gpt_step;

enum mds_rc mds_gpt_step_create(const struct mds_gpt *g, struct mds_gpt_step **out);
void mds_gpt_step_destroy(struct mds_gpt_step *s); /* NULL is fine */

enum mds_rc mds_gpt_step_begin(struct mds_gpt_step *s, const struct mds_gpt_run *run);
void mds_gpt_step_end(struct mds_gpt_step *s);

/* in, out: [slice rows, H] at piece boundaries, NULL at the model's ends.  set: which
 * of the piece's sets of saved activations.  The last piece adds to *loss, and in
 * training forms the head's gradients right here. */
enum mds_rc mds_gpt_forward(struct mds_gpt_step *s, int piece, int set,
                            const struct mds_gpt_batch *batch, const void *in,
                            void *out, struct mds_gpt_loss *loss);

/* d_out, d_in: gradients of out and in.  Parameter gradients are added to; each unit of
 * the piece is reported ready once (the head's in forward). */
enum mds_rc mds_gpt_backward(struct mds_gpt_step *s, int piece, int set,
                             const struct mds_gpt_batch *batch, const void *d_out,
                             void *d_in);

#endif
