/* SPDX-License-Identifier: BSD-3-Clause */
/* What blocks save between their forward and their backward, and where: this file owns
 * activation memory.  Private to model/.
 *
 * A block's input is an argument of its lists, and may be on the host or sharded.
 * Attention's result may be on the host.  The rest is in one piece, the slab, in which
 * only its lists find their way. */
#ifndef MDS_MODEL_SAVED_H
#define MDS_MODEL_SAVED_H

#include "model/context.h"

struct saved {
    void *x;      /* [Rs,H] the input on the device; NULL: not there */
    void *x_away; /* on the host, or this tensor rank's shard; or NULL */
    int x_on_host;
    /* Attention's result, heads inside: as many as [R,A D]; its log-sum-exp [R,A] f32:
     * on the host, or NULL. */
    void *o_away, *lse_away;
    void *slab; /* all that it saves but its input and its load */
    /* [groups, experts]: how many rows go to each expert; NULL without experts, and for
     * blocks that run again. */
    float *load;
    /* --cpu-offloading-num-layers: the block's memory on the host, or NULL; of so many
     * bytes, from x on. */
    void *host;
    int64_t bytes;
    struct mds_dev_async_copy copy; /* in flight, of these bytes */
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
 * step. */
enum mds_rc mds_saved_alloc_layer(const struct context *c, int l,
                                  const struct slab_size *slab,
                                  struct saved_buffer *buffer);

/* Allocate, within a pass, a block's input, and a slab of so many bytes. */
enum mds_rc mds_saved_alloc_block(const struct context *c, int input, int64_t slab,
                                  struct saved *s);

/* Whether the inputs of some blocks are saved elsewhere, so that backward fetches
 * them. */
int mds_saved_stashes_x(const struct context *c);

/* Elements of attention's result, and of its log-sum-exp, of whole micro-batches. */
int64_t mds_saved_o_elements(const struct context *c);
int64_t mds_saved_lse_elements(const struct context *c);

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
 * the device, or for negative l. */
int mds_saved_slots(const struct context *c);
void mds_saved_offload(const struct context *c, const struct model_chunk *p,
                       struct saved_buffer *buffer, int l);
void mds_saved_reload(const struct context *c, const struct model_chunk *p,
                      struct saved_buffer *buffer, int l);
void mds_saved_wait(const struct context *c, const struct model_chunk *p,
                    const struct saved_buffer *buffer, int l);

#endif
