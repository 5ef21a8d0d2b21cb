/* SPDX-License-Identifier: BSD-3-Clause */
/* What makes the two lists that run out of a declared one, in this order:
 *
 *   exchange   what ranks send each other               must not know gradients
 *   backward   the steps of the gradients               must not know what is saved
 *   fp8        casts                                    must not know ranks
 *   save       what is saved, what is computed again    must not know ranks, rules
 *   fuse       steps that one kernel does               must not know ranks, policy
 *   copies     inputs that are saved elsewhere          must not know ranks, rules
 *   chunks     which messages travel in chunks          must not know policy, rules
 *   groups     attention by groups of heads             must not know rows, rules
 *   tiles      loops over tiles of rows                 must not know policy, rules
 *   messages   when messages start, and who waits       must not know policy
 *   place      where each tensor lies                   must not know ranks, policy
 *
 * Only place knows addresses.
 *
 * Each is one file (chunks are in that of messages).  After each the list is checked:
 * mds_block_check. */
#ifndef MDS_BLOCK_PASSES_H
#define MDS_BLOCK_PASSES_H

#include "block/program.h"

/* How ranks share a block. */
struct mds_block_ranks {
    int tensor;       /* ranks: more than one sum partial results */
    int sequence;     /* each of them has a slice of the rows between GEMMs */
    int ulysses;      /* ranks that share attention's heads */
    int expert;       /* ranks that share the experts */
    int64_t copied;   /* columns that q, k and v have more in attention, on all of these
                         together: copies of key/value heads */
    int64_t sum_work; /* bytes that summing a tensor [rows, hidden] needs meanwhile */
};

/* Insert an exchange where a step reads other rows than were made, and where tensor
 * ranks have partial sums. */
void mds_block_exchange(struct mds_step_list *p, const struct mds_block_ranks *r);

/* Append the backward steps to the forward ones, last to first, by a rule for each
 * operation.  The weight's gradient of a linear layer whose dx has to be summed over
 * ranks comes after that sum has started.  Fails, by `overflow`, for an operation
 * without a rule. */
void mds_block_differentiate(struct mds_step_list *p);

/* Linear layers in FP8.  Not all of it follows from the list: the layers' operations
 * know that they are in FP8. */
struct mds_block_fp8 {
    int wgrad; /* weights' gradients too */
    int codes; /* inputs can be saved as codes: forward casts all rows at once */
    /* Of the codes of a tensor [R, C]: of an input by columns; of a gradient by rows,
     * and if wgrad by columns. */
    int64_t (*codes_bytes)(int64_t R, int64_t C);
    int64_t (*gradient_bytes)(int64_t R, int64_t C, int wgrad);
};

/* keep: as in mds_block_save.  Inputs are saved as codes if their part is kept, and if
 * backward reads them for nothing but the weight's gradient. */
void mds_block_fp8(struct mds_step_list *joint, unsigned keep,
                   const struct mds_block_fp8 *fp8);

/* Who finds a largest magnitude where the step before has left it. */
void mds_block_magnitudes(struct mds_step_list *p);

/* Part the joint list into forward f and backward b.  Tensors that backward reads are
 * saved if their part is in keep (bits); others it makes again, just before the step
 * that reads them, by the steps that made them.  The stream before the block is an
 * argument of backward, and of forward, except where it is saved away from the device
 * and there are no tiles.  o_away: attention's result is saved elsewhere: it is an
 * argument.  Steps whose results nobody reads are dropped. */
void mds_block_save(const struct mds_step_list *joint, unsigned keep, int away,
                    int o_away, struct mds_step_list *f, struct mds_step_list *b);

/* The forward list alone: for evaluation, which saves nothing. */
void mds_block_forward_only(struct mds_step_list *p);

/* Merge steps that one kernel does: a sum and the norm after it; a linear layer and
 * GELU, forward and backward, if gelu.  Without tiles a forward list leaves its last
 * sum to the next block. */
void mds_block_fuse(struct mds_step_list *p, int gelu);

/* Where inputs are not saved on the device: forward puts its own away; backward fetches
 * the next block's, once attention's backward leaves a place for it. */
void mds_block_put_input(struct mds_step_list *forward);
void mds_block_fetch_input(struct mds_step_list *backward);

/* The same for attention's result. */
void mds_block_put_o(struct mds_step_list *forward);
void mds_block_fetch_o(struct mds_step_list *backward);

/* The messages of these layers (bits) travel in chunks of rows: a linear layer starts
 * the sum that follows, chunk by chunk. */
void mds_block_chunks(struct mds_step_list *p, unsigned layers);

/* Frame the steps of heads: each group copies its part of the weights of q, k and v, of
 * so many elements with their biases. */
void mds_block_groups(struct mds_step_list *p, int64_t weights);

/* Number the loops, and say which tensors have the rows of a tile. */
void mds_block_tiles(struct mds_step_list *p);

/* Tiles of a forward list store the stream behind the block where the caller wants it:
 * first what its last sum adds to. */
void mds_block_end_in_argument(struct mds_step_list *forward);

/* Number the messages, start them early, and set who waits: by_chunks, a linear layer
 * right behind a gather in chunks does itself. */
void mds_block_messages(struct mds_step_list *p, int by_chunks);

/* First and last steps and addresses of all tensors. */
void mds_block_place(struct mds_step_list *p);

/* Every operand was made before and is not overwritten since; after place, also that no
 * two tensors are in one place at one time.  what: of a message, MDS_EBUG. */
enum mds_rc mds_block_check(const struct mds_step_list *p, const char *what);

/* ---- all of them ---- */

struct mds_block_policy {
    struct mds_block_ranks ranks;
    int training;
    unsigned keep;
    int away;    /* the stream before the block is not saved on the device */
    int fetch;   /* nor are those of other blocks: backward fetches the next one's */
    int o_away;  /* attention's result is not saved on the device */
    int o_fetch; /* nor is that of other blocks */
    int64_t group_weights; /* elements of the weights of q, k, v of a group of heads */
    int64_t slot_bytes;    /* saved_bytes at least */
    unsigned chunked;      /* bits: layers whose messages travel in chunks */
    const struct mds_block_fp8 *fp8; /* NULL: no layer is in FP8 */
    int gelu;                        /* a linear layer applies GELU */
    int sum_norms;                   /* norms' gradients are sums over tensor ranks */
};

/* p: declared; then the forward.  b: backward, if training. */
enum mds_rc mds_block_compile(const struct mds_block_policy *policy,
                              struct mds_step_list *p, struct mds_step_list *b);

#endif
