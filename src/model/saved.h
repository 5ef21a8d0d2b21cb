/* SPDX-License-Identifier: BSD-3-Clause */
/* Saved activations: what is saved of a block between its forward and its backward, and
 * where.  This file owns activation memory.  Private to model/.
 *
 * For each tensor that backward reads, a policy says whether it is saved (on the
 * device, on the host, or as this tensor rank's shard) or recomputed.  The policy
 * follows from the options (config/activations.h); block.c recomputes what is not
 * saved. */
#ifndef MDS_MODEL_SAVED_H
#define MDS_MODEL_SAVED_H

#include "model/context.h"

/* In the order of their memory.  Tensors from N1 on are recomputed from the others when
 * a block is reloaded from the host; such blocks have no codes. */
enum saved_tensor {
    SAVED_X,     /* [Rs,H] the block's input */
    SAVED_MEAN1, /* [Rs] f32, norm1's statistics */
    SAVED_RSTD1,
    SAVED_QKV,     /* parallel/attention.h's `inside`, rotated; of a group of heads */
    SAVED_QK,      /* [R,A D], then [R,G D]: q and k before their own norms, if any */
    SAVED_QK_MEAN, /* [R,A], then [R,G] f32, these norms' statistics */
    SAVED_QK_RSTD,
    SAVED_O,   /* attention's result, heads inside: as many as [R,A D] */
    SAVED_LSE, /* [R,A] f32, its log-sum-exp */
    SAVED_X1,  /* [Rs,H] norm2's input */
    SAVED_MEAN2,
    SAVED_RSTD2,
    SAVED_U,        /* [R,F or 2F] before the activation */
    SAVED_N1,       /* [Rs,H] norm1's result */
    SAVED_N2,       /* [Rs,H] norm2's result */
    SAVED_G,        /* [R,F] after the activation */
    SAVED_N1_CODES, /* these three as FP8 codes instead: struct linear_input's */
    SAVED_N2_CODES,
    SAVED_G_CODES,
    SAVED_TENSORS
};

struct saved {
    void *at[SAVED_TENSORS]; /* on the device; NULL: not there */
    /* On the host, or this tensor rank's shard: X, O, LSE.  O without LSE is not
     * copied: with --attention-chunk the host is where attention has it. */
    void *away[SAVED_TENSORS];
    int x_on_host;
    void *slab; /* of a block that runs by lists: all that it saves but its input */
    /* --cpu-offloading-num-layers: the block's memory on the host, or NULL; of so many
     * bytes, from at[SAVED_X] on. */
    void *host;
    int64_t bytes;
    struct mds_dev_async_copy copy; /* in flight, of these bytes */
    int returned;                   /* they were reloaded: recompute N1, N2 and G */
};

/* The saved activations of one micro-batch in one model chunk.  All chunks share these
 * buffers. */
struct saved_buffer {
    struct saved *block; /* [most layers of a model chunk] */
    void *d;             /* last model chunk: the stream's gradient, from the head */
};

/* The bytes of struct saved.slab, of which `kept` are copied if the block is offloaded.
 */
struct slab_size {
    int64_t bytes, kept;
};

/* Allocate what block l of a buffer saves, after those before, from the arenas of the
 * step; slab: NULL where block.c runs it. */
enum mds_rc mds_saved_alloc_layer(const struct context *c, int l,
                                  const struct slab_size *slab,
                                  struct saved_buffer *buffer);

/* Allocate a block's input, the rest of what backward reads, or both, within a pass. */
enum saved_part { SAVED_INPUT = 1, SAVED_REST = 2 };

enum mds_rc mds_saved_alloc_block(const struct context *c, int parts,
                                  const struct slab_size *slab, struct saved *s);

/* Whether a pass needs a buffer for the tensor because some blocks do not save it where
 * it is computed: on the device, or with --attention-chunk, for o, on the host. */
int mds_saved_is_missing(const struct context *c, enum saved_tensor t);

/* Whether the inputs of some blocks are saved elsewhere, so that backward fetches
 * them. */
int mds_saved_stashes_x(const struct context *c);

/* The number of elements of a tensor, of whole micro-batches. */
int64_t mds_saved_elements(const struct context *c, enum saved_tensor t);

/* ---- inputs and attention's results on the host or sharded ---- */

/* Start to copy the block's input to where it is saved; *copy: in flight. */
enum mds_rc mds_saved_put_x(const struct context *c, const struct saved *s,
                            const void *x, struct mds_dev_async_copy *copy);
/* get: start to copy it from the host into x.  finish: wait for that copy, and gather
 * shards. */
struct mds_dev_async_copy mds_saved_get_x(const struct context *c,
                                          const struct saved *s, void *x);
enum mds_rc mds_saved_finish_x(const struct context *c, const struct saved *s,
                               struct mds_dev_async_copy copy, void *x);

/* Start to copy attention's result to the host, or back; a zero struct if it is not
 * saved there. */
struct mds_dev_async_copy mds_saved_put_o(const struct context *c,
                                          const struct saved *s, const void *o,
                                          const float *lse);
struct mds_dev_async_copy mds_saved_get_o(const struct context *c,
                                          const struct saved *s, void *o, float *lse);

/* ---- blocks that are offloaded between forward and backward ----
 *
 * There is device memory for `slots` blocks, fewer than layers.  Block l uses that of
 * block l - slots, which is on the host meanwhile: it is offloaded after its forward,
 * and block l waits for that; it is reloaded after the backward of block l, and its own
 * backward waits for that.  These functions do nothing for a block of `p` that stays on
 * the device, or for negative l; wait returns whether there was a copy to wait for. */
int mds_saved_slots(const struct context *c);
void mds_saved_offload(const struct context *c, const struct model_chunk *p,
                       struct saved_buffer *buffer, int l);
void mds_saved_reload(const struct context *c, const struct model_chunk *p,
                      struct saved_buffer *buffer, int l);
int mds_saved_wait(const struct context *c, const struct model_chunk *p,
                   const struct saved_buffer *buffer, int l);

#endif
