/* SPDX-License-Identifier: BSD-3-Clause */
/* A block as data: the steps of its forward and of its backward, the tensors they read
 * and write, and where these lie.
 *
 * A model declares the forward steps (build.h); passes derive the rest (passes.h); an
 * executor runs the list (run.h); show.h prints it.  Nothing here knows a model, a
 * device or a message: a step is the name of an operation, which the caller performs.
 *
 * A tensor has all rows of this rank, or those of a tile.  Its rows are a symbol, its
 * columns a number.  With tiles, steps that work row by row are in loops: such a loop
 * runs once for each tile of the sequence.  What is made and read within one loop has
 * the rows of a tile; anything else has all rows.
 *
 * With groups of heads, neighbours that work on heads run once for each group, with
 * their loops over tiles. */
#ifndef MDS_BLOCK_PROGRAM_H
#define MDS_BLOCK_PROGRAM_H

#include "base/status.h"

#include <stdint.h>

enum mds_rows {
    MDS_ROWS_ONE,
    MDS_ROWS_SLICE,  /* between GEMMs: with sequence parallelism 1/tp of the next */
    MDS_ROWS_GEMM,   /* tokens of this rank x sequences */
    MDS_ROWS_HEADS,  /* in attention: tokens of the Ulysses group x sequences */
    MDS_ROWS_COPIES, /* in experts: those of MDS_ROWS_GEMM, once for each of theirs */
    MDS_ROWS_ROUND,  /* in experts of several ranks: what comes to one in a round */
    MDS_ROWS_KINDS
};

enum mds_elem { MDS_ELEM_ACT, MDS_ELEM_F32, MDS_ELEM_I32, MDS_ELEM_BYTE };

enum mds_home {
    MDS_HOME_WORK,  /* working memory of the pass */
    MDS_HOME_SAVED, /* the block's memory from its forward to its backward */
    MDS_HOME_ARG,   /* the caller's */
};

/* Arguments of a program: tensors whose memory the caller has. */
enum mds_arg {
    MDS_ARG_X0,   /* forward: the stream before the block, less its branch */
    MDS_ARG_X,    /* the stream before the block */
    MDS_ARG_Y,    /* forward in tiles: the stream behind it; may be where x is */
    MDS_ARG_NEXT, /* backward: where the next block's x is fetched to; before that its
                     memory is this block's */
    MDS_ARG_D,    /* backward: the gradient of the stream */
    MDS_ARG_O,    /* attention's result and log-sum-exp, if they are saved elsewhere */
    MDS_ARG_LSE,
    MDS_ARG_LOAD, /* how many rows go to each expert, in all tiles and on all ranks that
                     share the sequences; NULL in forward: it is not counted */
    MDS_ARGS
};

/* The operations.  X(NAME, name, in place, must): output 0 may lie where this input
 * does, or (must) always does; -1: never.
 *
 *   forward        inputs                  outputs
 *   norm           x [, branch]            [y,] statistics [, x + branch]
 *   linear         x                       y [, GELU(y)] [, codes of x in FP8]
 *                                          [, sum of the ranks' y, working memory]
 *   head norms     q k v                   q k v, q and k before, statistics
 *   rope           q k v                   q k v
 *   attend         q k v                   o, log-sum-exp
 *   activate       u                       act(u)
 *   dropout        x                       y
 *   add            x, y                    x + y
 *   route          x                       map, weights, first, scores, load
 *   dispatch       x, map                  copies of x for experts
 *   experts        x of copies, first      y: the linear layer of each copy's expert
 *   weigh          u of copies, weights, map               weight times activation
 *   combine        x of copies, map        of each row the sum over its copies
 *   spread         copies, weights, map, first             what experts, weigh, experts
 *                                          make of them, on the ranks of each expert
 *                                          [, of the first round its copies and the
 *                                          first layer's result, its weights]
 *   gather         x, rows of this rank    x, rows of all tensor ranks
 *   enter          x                       x: the same; its gradient is summed
 *   reduce         partial sums            their sum, working memory
 *   to heads       rows, all heads         all rows, some heads (Ulysses)
 *   to tokens      all rows, some heads    rows, all heads
 *   open heads     none                    one group's weights [, their gradients]
 *   close heads    the same                none: adds the gradients to all heads'
 *   put            x                       none: starts to copy x to the host, or this
 *                                          rank's shard of it to where it is saved
 *   put o          o, log-sum-exp          none: starts to copy them to the host
 *
 *   backward       inputs                  outputs
 *   norm'          x, statistics, dy [, d] dx [+ d]
 *   linear' x      dy [, u]                dx [of u: dx GELU'(u)]
 *                                          [, -, -, sum of dx, working memory]
 *   linear' w      x or its codes, dy
 *   cast           dy                      its codes in FP8: what linear' x and w read
 *   head norms'    dq dk dv, q and k before, statistics    dq dk dv
 *   rope'          dq dk dv                dq dk dv
 *   attend'        q k v, o, log-sum-exp, do               dq dk dv
 *   activate'      u, dy                   du
 *   route'         x, map, weights, scores, d weights, d, load      d + dx, work
 *   experts' x     dy of copies, first     dx
 *   experts' w     x of copies, first, dy
 *   weigh'         u of copies, weights, map, dy           du, d weights
 *   spread'        copies, weights, map, first, dy [, of the first round: as above]
 *                                                          d copies, d weights
 *   prefetch       none                    none: starts to copy the next block's x, or
 *                                          o and log-sum-exp, from where they are saved
 *
 * Dispatch's backward is combine, and combine's is dispatch.  A map has the experts of
 * each row, where its copies are, and from which row each copy is (kernels/experts.h).
 *
 * The last five of a pass are calls of the storage of parameters. */
#define MDS_STEPS(X)                                                                   \
    X(NORM, "norm", -1, 0)                                                             \
    X(LINEAR, "linear", -1, 0)                                                         \
    X(HEAD_NORMS, "head norms", 0, 1)                                                  \
    X(ROPE, "rope", 0, 1)                                                              \
    X(ATTEND, "attend", -1, 0)                                                         \
    X(ACTIVATE, "activate", -1, 0)                                                     \
    X(DROPOUT, "dropout", 0, 0)                                                        \
    X(ADD, "add", 0, 0)                                                                \
    X(ROUTE, "route", -1, 0)                                                           \
    X(DISPATCH, "dispatch", -1, 0)                                                     \
    X(EXPERTS, "experts", -1, 0)                                                       \
    X(WEIGH, "weigh", -1, 0)                                                           \
    X(COMBINE, "combine", -1, 0)                                                       \
    X(SPREAD, "spread", -1, 0)                                                         \
    X(GATHER, "gather", -1, 0)                                                         \
    X(ENTER, "enter", -1, 0)                                                           \
    X(REDUCE, "reduce", -1, 0)                                                         \
    X(TO_HEADS, "to heads", -1, 0)                                                     \
    X(TO_TOKENS, "to tokens", -1, 0)                                                   \
    X(OPEN_HEADS, "open heads", -1, 0)                                                 \
    X(CLOSE_HEADS, "close heads", -1, 0)                                               \
    X(PUT, "put", -1, 0)                                                               \
    X(PUT_O, "put o", -1, 0)                                                           \
    X(NORM_BWD, "norm'", 3, 1)                                                         \
    X(LINEAR_BWD_X, "linear' x", -1, 0)                                                \
    X(LINEAR_BWD_W, "linear' w", -1, 0)                                                \
    X(HEAD_NORMS_BWD, "head norms'", 0, 1)                                             \
    X(ROPE_BWD, "rope'", 0, 1)                                                         \
    X(ATTEND_BWD, "attend'", -1, 0)                                                    \
    X(ACTIVATE_BWD, "activate'", 1, 0)                                                 \
    X(ROUTE_BWD, "route'", 5, 1)                                                       \
    X(EXPERTS_BWD_X, "experts' x", -1, 0)                                              \
    X(EXPERTS_BWD_W, "experts' w", -1, 0)                                              \
    X(WEIGH_BWD, "weigh'", -1, 0)                                                      \
    X(SPREAD_BWD, "spread'", -1, 0)                                                    \
    X(CAST, "cast", -1, 0)                                                             \
    X(PREFETCH, "prefetch", -1, 0)                                                     \
    X(ACQUIRE, "acquire", -1, 0)                                                       \
    X(GRAD_BEGIN, "grad begin", -1, 0)                                                 \
    X(SUM_NORMS, "sum norms", -1, 0)                                                   \
    X(GRAD_READY, "grad ready", -1, 0)                                                 \
    X(RELEASE, "release", -1, 0)

enum mds_step_op {
#define MDS_ENUM(NAME, ...) MDS_STEP_##NAME,
    MDS_STEPS(MDS_ENUM)
#undef MDS_ENUM
        MDS_STEP_OPS
};

struct mds_step_info {
    const char *name;
    int in_place, must;
};

const struct mds_step_info *mds_step_info(enum mds_step_op op);

/* Whether a step can work on a tile of rows, whatever the others are. */
int mds_step_is_by_rows(enum mds_step_op op);

enum {
    MDS_STEP_IN = 7,
    MDS_STEP_OUT = 5,
    MDS_LIST_TENSORS = 160,
    MDS_LIST_STEPS = 96,
    MDS_LIST_MESSAGES = 16,
};

typedef int16_t mds_tid; /* a tensor of a program; -1: none */

struct mds_tensor {
    char name[12];
    uint8_t rows, elem, home;
    uint8_t part;        /* of the policy that says what is saved; 0: never */
    uint8_t is_gradient; /* made in backward */
    uint8_t of_tile;     /* has the rows of a tile */
    mds_tid memory;      /* the tensor whose memory it shares; itself */
    int16_t first, last; /* steps between which that memory is in use; -1: never */
    int64_t cols;
    int64_t at; /* of memory: offset in the saved bytes; behind them, in working memory;
                   or which argument */
};

enum mds_cut { MDS_CUT_NONE, MDS_CUT_COLUMNS, MDS_CUT_ROWS };

struct mds_step {
    uint8_t op;
    uint8_t cut;       /* linear: how tensor ranks share the weight */
    uint8_t site;      /* dropout: where; to heads and tokens, reduce, prefetch: see the
                     enum below */
    uint8_t activated; /* FP8: the layer's input is the activation of in[0] */
    uint8_t amax;      /* FP8: what made in[0] has left its largest magnitude */
    uint8_t loop;      /* over tiles: its number, from 1; 0: none */
    uint8_t in_chunks; /* the rows that it sends travel in chunks */
    uint8_t of_heads;  /* works on the heads of one group, if there are groups */
    uint8_t last;      /* runs for the last group alone */
    int8_t layer;      /* of the declaration: whose parameters; -1: none */
    int8_t message;    /* started by this step; -1: none */
    int8_t awaits;     /* linear layers: the gather whose rows they wait for chunk by
                     chunk; -1: none */
    uint16_t waits;    /* bits: messages that end before this step */
    mds_tid in[MDS_STEP_IN], out[MDS_STEP_OUT];
    int64_t top; /* working memory in use, from 0 to its highest address */
};

enum mds_step_site {
    MDS_SITE_QKV = 1, /* to heads, to tokens: q, k, v or their gradients; else o */
    MDS_SITE_O = 1,   /* prefetch: attention's result; else the stream */
    MDS_SITE_SUM = 1, /* reduce: all ranks get all rows; else each its rows */
};

/* The message that has started when a list begins, if o comes from the host. */
enum { MDS_MESSAGE_O = 0 };

/* The output that is the sum over ranks of a linear layer's result, which it sends
 * chunk by chunk; the next one is working memory. */
enum { MDS_OUT_SUM = 3 };

enum { MDS_STEP_OPERANDS = MDS_STEP_IN + MDS_STEP_OUT };

/* Operand k of a step: inputs, then outputs; -1: none. */
static inline mds_tid mds_step_operand(const struct mds_step *s, int k)
{
    return k < MDS_STEP_IN ? s->in[k] : s->out[k - MDS_STEP_IN];
}

enum { MDS_LAYERS = 12 };

struct mds_step_list {
    struct mds_tensor tensor[MDS_LIST_TENSORS];
    struct mds_step step[MDS_LIST_STEPS];
    const char *layer[MDS_LAYERS]; /* names; string literals of the declaration */
    int tensors, steps;
    int groups;  /* of heads */
    int forward; /* of a joint list: how many steps are forward */
    int messages;
    int overflow;        /* a table was too short, or an operation has no rule */
    mds_tid x;           /* the stream before the block */
    mds_tid x0, branch;  /* its summands, if the block forms the sum; else -1 */
    mds_tid y, y_branch; /* the stream behind it: a sum, or the next block's summands */
    mds_tid d;           /* backward: its gradient, before and behind the block */
    int64_t rows[MDS_ROWS_KINDS];
    int64_t tile[MDS_ROWS_KINDS]; /* of the longest tile; all 0: no tiles */
    int act_bytes;                /* of an element of MDS_ELEM_ACT */
    int64_t saved_bytes; /* the block's memory from its forward to its backward; */
    int64_t kept_bytes;  /* of these the first hold what is saved, others are free */
    int64_t work_bytes;
    int64_t pinned_bytes; /* of working memory: what lives from block to block */
};

/* Bytes of a tensor, and what it takes in memory: rounded up to MDS_BLOCK_ALIGN. */
enum { MDS_BLOCK_ALIGN = 256 };
int64_t mds_tensor_row_bytes(const struct mds_step_list *p, mds_tid t);
int64_t mds_tensor_bytes(const struct mds_step_list *p, mds_tid t);
int64_t mds_tensor_space(const struct mds_step_list *p, mds_tid t);

static inline struct mds_tensor *mds_tensor_memory(struct mds_step_list *p, mds_tid t)
{
    return &p->tensor[p->tensor[t].memory];
}

static inline int mds_list_is_tiled(const struct mds_step_list *p)
{
    return p->tile[MDS_ROWS_ONE] > 0;
}

/* The argument that a tensor is in; -1: none. */
static inline int mds_tensor_arg(const struct mds_step_list *p, mds_tid t)
{
    const struct mds_tensor *m = &p->tensor[p->tensor[t].memory];

    return m->home == MDS_HOME_ARG ? (int)m->at : -1;
}

/* Whether a step is a linear layer, or makes its gradients. */
int mds_step_is_linear(enum mds_step_op op);

/* Whether a step does without input k if nobody has saved it. */
static inline int mds_step_may_lack(enum mds_step_op op, int k)
{
    return op == MDS_STEP_SPREAD_BWD && k >= 5;
}

/* Whether operand k is in use by the message that a step starts, until it ends. */
int mds_step_sends(const struct mds_step *s, int k);

/* Whether two tensors are in the same memory; false for -1. */
static inline int mds_tensor_shares(const struct mds_step_list *p, mds_tid a, mds_tid b)
{
    return a >= 0 && b >= 0 && p->tensor[a].memory == p->tensor[b].memory;
}

#endif
