/* A GPT: its parameters, and forward and backward of one micro-batch.
 *
 * Blocks are pre-norm.  Between them the residual stream travels as a pair (x, r): x
 * the stream so far, r the branch still to be added; the next norm's kernel forms x +
 * r.
 *
 * Parameters, `.bias` and `.beta` where the configuration has them:
 *   embedding.word.weight [Vp,H]   embedding.position.weight [positions,H]
 *   layer.N.norm1.gamma .beta [H]  layer.N.attention.{q,k,v,out}.weight .bias
 *   layer.N.norm2.gamma .beta [H]  layer.N.mlp.{gate,up,down}.weight .bias
 *   final_norm.gamma .beta [H]     head.weight [Vp,H], unless tied to embedding.word
 * Vp is the vocabulary rounded up; the surplus takes no part in the loss. */
#ifndef MDS_MODEL_GPT_H
#define MDS_MODEL_GPT_H

#include "base/status.h"
#include "config/config.h"
#include "device/arena.h"
#include "tensor/params.h"

struct mds_gpt;

/* Registers the parameters in ps, which stays the caller's and must outlive the model;
 * cfg is copied.  cfg must be resolved and its vocabulary known. */
enum mds_rc mds_gpt_create(const struct mds_model_config *cfg, struct mds_params *ps,
                           struct mds_gpt **out);
void mds_gpt_destroy(struct mds_gpt *g);

/* How to run.  Everything temporary comes from the arena and is back there on return.
 */
struct mds_gpt_run {
    struct mds_dev *dev;
    struct mds_arena *arena;
    enum mds_recompute recompute;
    int64_t loss_tile; /* rows of logits that exist at a time; 0: all */
    uint64_t seed;     /* of dropout */
    uint32_t step;     /* of the optimizer: dropout differs between steps */
};

struct mds_gpt_batch {
    int64_t B, S;
    int64_t first_sample;          /* of the run: dropout is keyed by it */
    const int32_t *token, *target; /* [B,S] on the device; target -1: no loss */
};

/* Sums over the tokens with a target, on the device: loss in nats, and how many. */
struct mds_gpt_loss {
    double sum, count;
};

/* Add the micro-batch's loss to *loss and grad_scale * its gradient to the parameter
 * gradients; each parameter is reported grad_ready once, when its gradient is complete.
 */
enum mds_rc mds_gpt_train(struct mds_gpt *g, const struct mds_gpt_run *run,
                          const struct mds_gpt_batch *batch, float grad_scale,
                          struct mds_gpt_loss *loss);

/* Add the micro-batch's loss to *loss, without dropout. */
enum mds_rc mds_gpt_eval(struct mds_gpt *g, const struct mds_gpt_run *run,
                         const struct mds_gpt_batch *batch, struct mds_gpt_loss *loss);

#endif
