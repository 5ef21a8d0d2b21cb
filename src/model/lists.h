/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that run by lists (block/program.h): what is declared, the operations, and
 * forward and backward through the blocks of a model chunk.  Private to model/.
 */
#ifndef MDS_MODEL_LISTS_H
#define MDS_MODEL_LISTS_H

#include "block/passes.h"
#include "block/run.h"
#include "model/modules.h"

enum {
    LAYER_NORM1,
    LAYER_QKV,
    LAYER_HEAD_NORMS,
    LAYER_OUT,
    LAYER_NORM2,
    LAYER_UP, /* of the MLP, or of the shared expert */
    LAYER_DOWN,
    LAYER_ROUTER,
    LAYER_EXPERTS_UP,
    LAYER_EXPERTS_DOWN,
    LAYER_OUT_NORM,
    LAYER_MLP_NORM
};

/* ---- forms.c ---- */

/* with_experts: and not an MLP.  tensor: ranks that share the weights.  groups: of the
 * heads of each. */
void mds_gpt_declare_block(const struct mds_model_config *m, int with_experts,
                           int tensor, int groups, int training,
                           struct mds_step_list *p);

/* Inputs of blocks that are not saved on the device, in backward. */
struct fetched {
    void *x[2]; /* of the block that runs; where the next one's is fetched to */
    struct mds_dev_async_copy copy; /* in flight, to x[1] */
};

/* Attention's result and log-sum-exp, of blocks that save them on the host: they take
 * turns. */
struct away_o {
    void *o;
    float *lse;
    struct mds_dev_async_copy copy; /* in flight, to the host or back */
};

/* A message between tensor ranks: of each chunk. */
struct list_message {
    struct mds_comm_req req[MDS_SHARD_CHUNKS];
    int started, waited;
};

/* The context of operations: a block of a pass. */
struct block_pass {
    const struct context *all;   /* all rows and heads */
    const struct context *whole; /* all rows; in a loop over groups of heads one's */
    const struct context *c;     /* the same; in a loop over tiles that of the tile */
    struct context group, tile;
    const struct block_ids *id; /* all_heads; in a loop over groups of_group */
    const struct block_ids *all_heads;
    struct block_ids of_group;
    struct linear_part part;   /* of a group */
    const struct saved *saved; /* forward: where its input is put */
    const struct saved *next;  /* backward: the block whose input is fetched, or NULL */
    struct fetched *fetched;
    struct away_o *o;
    struct list_message message[MDS_LIST_MESSAGES];
    struct mds_dev_async_copy put; /* in flight, message number put_message */
    int put_message;
};

/* ---- experts.c: their operations ----
 *
 * The products are those of the experts of this rank, whose rows begin at first
 * [experts + 1] on the device; rows: of all of them.  layer: LAYER_EXPERTS_UP or
 * LAYER_EXPERTS_DOWN. */

/* Whether the context has the first rows of the micro-batch, and the last. */
int mds_gpt_is_first_tile(const struct block_pass *b);
int mds_gpt_is_last_tile(const struct block_pass *b);

mds_perform_fn mds_gpt_route, mds_gpt_route_bwd, mds_gpt_dispatch, mds_gpt_combine,
    mds_gpt_weigh, mds_gpt_weigh_bwd, mds_gpt_experts, mds_gpt_experts_bwd_x,
    mds_gpt_experts_bwd_w;

struct expert_rows {
    int64_t n; /* at least 1 of memory */
    const int32_t *first;
};
enum mds_rc mds_gpt_experts_product(const struct block_pass *b, int layer,
                                    struct expert_rows rows, const void *x, void *y);
enum mds_rc mds_gpt_experts_product_bwd_x(const struct block_pass *b, int layer,
                                          struct expert_rows rows, const void *dy,
                                          void *dx);
enum mds_rc mds_gpt_experts_product_bwd_w(const struct block_pass *b, int layer,
                                          struct expert_rows rows, const void *x,
                                          const void *dy);

/* ---- spread.c: the same where they are on several ranks ---- */

mds_perform_fn mds_gpt_spread, mds_gpt_spread_bwd;

/* Rows that a rank has room for in a round. */
int64_t mds_gpt_round_rows(const struct context *c);

/* ---- head_groups.c ---- */

void mds_gpt_enter_group(void *ctx, int group);
mds_perform_fn mds_gpt_open_heads, mds_gpt_close_heads;

/* ---- operations_linear.c ---- */

mds_perform_fn mds_gpt_list_linear, mds_gpt_list_cast, mds_gpt_list_linear_bwd_x,
    mds_gpt_list_linear_bwd_w;

/* The next rows, from row `at` of the tile on, that are contiguous in operands x and y,
 * -1: none; returns 0 after the last. */
int mds_gpt_next_span(const struct block_pass *b, const struct mds_block_call *call,
                      mds_tid x, mds_tid y, int64_t at, struct span *s);
/* Where they are in operand t, which is at `base`. */
void *mds_gpt_span_at(const struct block_pass *b, const struct mds_block_call *call,
                      mds_tid t, void *base, const struct span *s);

/* ---- messages.c ---- */

mds_perform_fn mds_gpt_gather, mds_gpt_reduce;
enum mds_rc mds_gpt_wait(void *ctx, int message);

/* Rows from row `at` on that travel together, in the step's chunks; at least one. */
int64_t mds_gpt_chunk_left(const struct block_pass *b, const struct mds_step *s,
                           int64_t at);

/* Wait until the first `rows` rows of the gather that the step awaits are there. */
enum mds_rc mds_gpt_wait_rows(struct block_pass *b, const struct mds_step *s,
                              int64_t rows);

/* [rows, H] of each tensor rank; their sum: all of it, in the same place, or this
 * rank's shard [slice rows, H]; and mds_gpt_sum_work bytes. */
struct partial_sums {
    void *partial, *sum, *work;
};

/* The first `rows` rows are there: start to sum the chunks that are complete. */
enum mds_rc mds_gpt_sum_rows(struct block_pass *b, const struct mds_step *step,
                             const struct partial_sums *s, int64_t rows);

/* Of all chunks of a context's rows. */
int64_t mds_gpt_sum_work(const struct context *c);

/* ---- operations.c ---- */

extern mds_perform_fn *const mds_gpt_operations[MDS_STEP_OPS];

/* ---- lists_compile.c ---- */

/* The lists of all blocks, compiled when the first step that needs them begins. */
enum list_kind {
    LISTS_SAVING,    /* blocks save what the policy says */
    LISTS_OFFLOADED, /* blocks that leave for the host meanwhile, and save less */
    LISTS_PASSING,   /* blocks that save nothing: those after them run them again */
    LISTS_AGAIN,     /* these, when they do: they save all that backward reads */
    LISTS_EVALUATION,
    LISTS_KINDS
};

/* The types of blocks: with linear layers in FP8 or none, with experts or an MLP, and
 * where attention's result is saved. */
enum {
    LISTS_FP8 = 1,
    LISTS_EXPERTS = 2,
    LISTS_O_KEPT = 4,
    LISTS_O_AWAY = 8,
    LISTS_TYPES = 12
};

/* Of blocks of one type. */
struct typed_lists {
    int is_there[LISTS_KINDS];
    struct mds_step_list forward[LISTS_KINDS], backward[LISTS_KINDS];
};

struct block_lists {
    struct typed_lists of[LISTS_TYPES];
};

/* The type of a chunk's block l. */
int mds_gpt_list_type(const struct context *c, const struct model_chunk *chunk, int l);

/* Whether some blocks save attention's result on the host. */
int mds_gpt_saves_o_away(const struct context *c);

/* Compile what a step of this context needs. */
enum mds_rc mds_gpt_compile_lists(const struct context *c, struct block_lists *l);

void mds_gpt_show_lists(const struct block_lists *l, FILE *f);

/* What block `layer` of any model chunk saves besides its input, and blocks that take
 * turns with it: they have the same memory. */
struct slab_size mds_gpt_slab_size(const struct context *c, const struct block_lists *l,
                                   int layer);

/* The most bytes that a block of any type saves so when it runs again. */
int64_t mds_gpt_slab_again(const struct block_lists *l);

/* ---- lists.c ---- */

/* Of struct mds_block_frame; ctx: a struct block_pass. */
int64_t mds_gpt_enter_tile(void *ctx, int64_t row);

/* Forward of a chunk's blocks: begin gives x->x, where the stream before the first is
 * to be stored; end frees what begin has allocated. blocks makes *x the stream behind
 * the last. */
struct list_pass {
    const struct context *c;
    const struct block_lists *lists;
    const struct model_chunk *chunk;
    struct saved_buffer *buffer;
    struct saved *group; /* [blocks per saved input]: of blocks that run again */
    struct mds_arena_mark begin, mark;
    char *work;
    void *x; /* in tiles: the stream, where blocks do not save it */
    struct fetched fetched;
    struct away_o o;
};

enum mds_rc mds_gpt_lists_begin(struct list_pass *p, struct residual *x);
enum mds_rc mds_gpt_lists_forward(struct list_pass *p, struct residual *x);
void mds_gpt_lists_end(struct list_pass *p);

/* d: gradient of the stream behind the last block; then before the first. */
enum mds_rc mds_gpt_lists_backward(struct list_pass *p, void *d);

/* out = the stream, or its gradient, as one tensor: x + branch. */
enum mds_rc mds_gpt_form_sum(const struct context *c, struct residual x, void *out);

#endif
