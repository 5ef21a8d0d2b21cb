/* SPDX-License-Identifier: BSD-3-Clause */
/* What is saved of a block between its forward and its backward, and where: the owner
 * of activation memory.  For model/ alone.
 *
 * Of each tensor that backward reads a policy says whether it is kept (on the device,
 * on the host, as this tensor rank's shard) or computed again.  The policy follows from
 * the options (config/activations.h); block.c computes whatever is not here. */
#ifndef MDS_MODEL_SAVED_H
#define MDS_MODEL_SAVED_H

#include "model/context.h"

/* In the order of their memory.  Those from N1 on are computed again from what comes
 * before them when a block returns from the host. */
enum saved_tensor {
    SAVED_X,     /* [Rs,H] the block's input */
    SAVED_MEAN1, /* [Rs] f32, norm1's statistics */
    SAVED_RSTD1,
    SAVED_QKV,     /* parallel/attention.h's `inside`, rotated */
    SAVED_QK,      /* [R,A D], then [R,G D]: q and k before their own norms, if any */
    SAVED_QK_MEAN, /* [R,A], then [R,G] f32, these norms' statistics */
    SAVED_QK_RSTD,
    SAVED_O,   /* attention's result, heads inside: as many as [R,A D] */
    SAVED_LSE, /* [R,A] f32, its log-sum-exp */
    SAVED_X1,  /* [Rs,H] norm2's input */
    SAVED_MEAN2,
    SAVED_RSTD2,
    SAVED_U,  /* [R,F or 2F] before the activation */
    SAVED_N1, /* [Rs,H] norm1's result */
    SAVED_N2, /* [Rs,H] norm2's result */
    SAVED_G,  /* [R,F] behind the activation */
    SAVED_TENSORS
};

struct saved {
    void *at[SAVED_TENSORS]; /* on the device; NULL: not there */
    /* On the host, or this tensor rank's shard: X, O, LSE.  O without LSE is not
     * copied: with --attention-chunk the host is where attention has it. */
    void *away[SAVED_TENSORS];
    int x_on_host;
    /* --cpu-offloading-num-layers: the block's memory on the host, or NULL; of so many
     * bytes, from at[SAVED_X] on. */
    void *host;
    int64_t bytes;
    struct mds_dev_async_copy copy; /* of them, under way */
    int returned; /* they have come back: N1, N2 and G are to be made */
};

/* Of one micro-batch in one piece; any piece's, in turn. */
struct saved_set {
    struct saved *block; /* [most layers of a piece] */
    void *d;             /* last piece: the stream's gradient, from the head */
};

/* Memory for everything that a set saves, from the run's arenas. */
enum mds_rc mds_saved_take_set(const struct context *c, struct saved_set *set);

/* Memory in a pass for a block's input, or for the rest of what backward reads, or for
 * both. */
enum saved_part { SAVED_INPUT = 1, SAVED_REST = 2 };

enum mds_rc mds_saved_take_block(const struct context *c, int parts, struct saved *s);

/* Whether a pass needs a buffer for the tensor, as not all blocks have it where a block
 * computes with it: on the device, or with --attention-chunk o on the host. */
int mds_saved_lacks(const struct context *c, enum saved_tensor t);

/* Whether the inputs of some blocks are away, so that backward fetches them. */
int mds_saved_fetches_x(const struct context *c);

/* The number of elements of a tensor, of whole micro-batches. */
int64_t mds_saved_elements(const struct context *c, enum saved_tensor t);

/* ---- inputs and attention's results that are away ---- */

/* Copy the block's input to where it is kept; *copy: under way. */
enum mds_rc mds_saved_put_x(const struct context *c, const struct saved *s,
                            const void *x, struct mds_dev_async_copy *copy);
/* Begin to copy it from the host into x; and, with that copy, wait and gather shards.
 */
struct mds_dev_async_copy mds_saved_get_x(const struct context *c,
                                          const struct saved *s, void *x);
enum mds_rc mds_saved_finish_x(const struct context *c, const struct saved *s,
                               struct mds_dev_async_copy copy, void *x);

/* Begin to copy attention's result to the host, or back; zero if it is not kept there.
 */
struct mds_dev_async_copy mds_saved_put_o(const struct context *c,
                                          const struct saved *s, const void *o,
                                          const float *lse);
struct mds_dev_async_copy mds_saved_get_o(const struct context *c,
                                          const struct saved *s, void *o, float *lse);

/* ---- blocks that are on the host from forward to backward ----
 *
 * A set has buffers for fewer blocks than layers, `slots`.  Block l has those of block
 * l - slots, which is on the host meanwhile: it is offloaded behind its own forward,
 * which block l waits for; it is reloaded behind the backward of block l, and its own
 * backward waits for that.  Nothing is done for a block of `p` that stays, or of a
 * negative number; wait returns whether there was something to wait for. */
int mds_saved_slots(const struct context *c);
void mds_saved_offload(const struct context *c, const struct piece *p,
                       struct saved_set *set, int l);
void mds_saved_reload(const struct context *c, const struct piece *p,
                      struct saved_set *set, int l);
int mds_saved_wait(const struct context *c, const struct piece *p,
                   const struct saved_set *set, int l);

#endif
