/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that run by lists (block/program.h): what is declared, the operations, and
 * forward and backward through the blocks of a model chunk.  Private to model/.
 *
 * Lists run evaluation and training without tiles, chunks, groups of heads, offload and
 * FP8; block.c runs the rest. */
#ifndef MDS_MODEL_LISTS_H
#define MDS_MODEL_LISTS_H

#include "block/passes.h"
#include "block/run.h"
#include "model/modules.h"

enum layer {
    LAYER_NORM1,
    LAYER_QKV,
    LAYER_HEAD_NORMS,
    LAYER_OUT,
    LAYER_NORM2,
    LAYER_UP,
    LAYER_DOWN
};

/* ---- forms.c ---- */

/* tensor: ranks that share the weights. */
void mds_gpt_declare_block(const struct mds_model_config *m, int tensor, int training,
                           struct mds_step_list *p);

/* ---- operations.c ---- */

/* The context of operations: a block of a pass. */
struct block_pass {
    const struct context *c;
    const struct block_ids *id;
    struct mds_comm_req message[MDS_LIST_MESSAGES];
};

extern mds_perform_fn *const mds_gpt_operations[MDS_STEP_OPS];
enum mds_rc mds_gpt_wait(void *ctx, int message);

/* ---- lists.c ---- */

/* The lists of all blocks, compiled when the first step begins. */
struct block_lists {
    int trains, evaluates; /* which of them are there */
    struct mds_step_list forward, backward, evaluation;
};

/* Whether the blocks of this step run by lists. */
int mds_gpt_uses_lists(const struct context *c);

/* Compile what a step of this context needs. */
enum mds_rc mds_gpt_compile_lists(const struct context *c, struct block_lists *l);

void mds_gpt_show_lists(const struct block_lists *l, FILE *f);

/* Allocate what the blocks of a buffer save. */
enum mds_rc mds_gpt_alloc_slabs(const struct context *c, const struct block_lists *l,
                                struct saved_buffer *buffer);

/* Forward of a chunk's blocks: begin gives x->x, where the stream before the first is
 * to be stored; end frees what begin has allocated. blocks makes *x the stream behind
 * the last. */
struct list_pass {
    const struct context *c;
    const struct block_lists *lists;
    const struct model_chunk *chunk;
    struct saved_buffer *buffer;
    struct mds_arena_mark mark;
    char *work;
};

enum mds_rc mds_gpt_lists_begin(struct list_pass *p, struct residual *x);
enum mds_rc mds_gpt_lists_forward(struct list_pass *p, struct residual *x);
void mds_gpt_lists_end(struct list_pass *p);

/* d: gradient of the stream behind the last block; then before the first. */
enum mds_rc mds_gpt_lists_backward(struct list_pass *p, void *d);

#endif
