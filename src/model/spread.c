/* SPDX-License-Identifier: BSD-3-Clause */
/* Experts on the ranks of the expert axis, each of which has as many in a row: copies
 * of rows go to the rank of their expert, and results come back to their places.
 *
 * Copies come in rounds, in each at most `most` from each rank to each, so memory does
 * not depend on the router; one that sends all rows to one expert takes more rounds.
 * In a round the rows of an expert are in the order of ranks, and of these in their
 * own.
 * Of the first round a block may save the copies and the first layer's result.  Of
 * others, and of all if it does not, backward sends the copies again, and makes again
 * what it reads of the first layer.
 *
 * All ranks know how many copies each has for each expert: first [ranks, experts + 1].
 * The host waits for that once in each direction of a block. */
#include "model/lists.h"

#include "base/alloc.h"
#include "base/minmax.h"
#include "kernels/experts.h"
#include "tensor/op.h"

#include <stdlib.h>

/* Of a round, on one rank, if the router is balanced.  Its tensors stay as small for
 * long sequences, too. */
enum { ROUND_ROWS = 1 << 16 };

/* Rows first .. first + n - 1 of a tensor. */
struct rows {
    int64_t first, n;
};

struct spread {
    const struct block_pass *b;
    struct mds_comm *group;
    int ranks, rank, experts; /* experts: of a rank */
    int64_t most;             /* copies from a rank to a rank in a round */
    int32_t *first;           /* [ranks, ranks * experts + 1], in host memory */
    int64_t rounds;
    /* Of the round, [experts, ranks]: this rank's copies for expert i of each; and
     * where those of each for its own expert i are. */
    struct rows sent[MDSK_EXPERTS_MOST], here[MDSK_EXPERTS_MOST];
    int64_t n;         /* rows here */
    int32_t *first_of; /* [experts + 1], of them, on the device */
};

/* ---- who sends what ---- */

/* Where the copies of rank p for expert e of rank q begin. */
static int64_t first_for(const struct spread *s, int p, int q, int e)
{
    int64_t row = s->ranks * s->experts + 1;

    return s->first[p * row + q * s->experts + e];
}

/* The copies of rank p for expert e of rank q in round t. */
static struct rows in_round(const struct spread *s, int p, int q, int e, int64_t t)
{
    int64_t begin = first_for(s, p, q, 0) + t * s->most;
    int64_t from = mds_max(first_for(s, p, q, e), begin);
    int64_t to = mds_min(first_for(s, p, q, e + 1), begin + s->most);

    return (struct rows){from, mds_max(to - from, 0)};
}

/* A dry run has no router: all experts get as many copies, but for what is left. */
static void assume_balance(struct spread *s, int64_t copies)
{
    int n = s->ranks * s->experts;

    for (int p = 0; p < s->ranks; p++)
        for (int e = 0; e <= n; e++)
            s->first[p * (n + 1) + e] = (int32_t)(copies * e / n);
}

/* s->first from this rank's, [ranks * experts + 1] on the device. */
static enum mds_rc share_counts(struct spread *s, const void *first, int64_t copies)
{
    const struct mds_par *p = &s->b->c->par;
    int64_t bytes = (s->ranks * s->experts + 1) * (int64_t)sizeof *s->first;
    void *all = NULL;

    MDS_TRY(mds_arena_alloc(p->arena, MDS_MEM_WORK, s->ranks * bytes, &all));
    MDS_TRY(mds_comm_all_gather(s->group, first, all, bytes));
    MDS_TRY(mds_dev_copy_out(p->dev, s->first, all, s->ranks * bytes));
    if (!mds_dev_kernels(p->dev))
        assume_balance(s, copies);
    return MDS_OK;
}

/* At least one, in which gradients of weights are begun. */
static int64_t count_rounds(const struct spread *s)
{
    int64_t longest = 1;

    for (int p = 0; p < s->ranks; p++)
        for (int q = 0; q < s->ranks; q++)
            longest = mds_max(longest,
                              first_for(s, p, q, s->experts) - first_for(s, p, q, 0));
    return (longest + s->most - 1) / s->most;
}

/* A quarter more than a balanced router needs, in as few rounds. */
static int64_t most_of_pair(int64_t copies, int ranks)
{
    int64_t rounds = (copies + ROUND_ROWS - 1) / ROUND_ROWS, pairs = ranks * rounds;

    return (5 * copies + 4 * pairs - 1) / (4 * pairs);
}

static int64_t copies_here(const struct context *c)
{
    return mds_par_rows(&c->par) * c->g->cfg.experts.topk;
}

int64_t mds_gpt_round_rows(const struct context *c)
{
    int ranks = mds_groups_size(c->g->groups, MDS_AXIS_EXPERT);

    return ranks == 1 ? 0 : ranks * most_of_pair(copies_here(c), ranks);
}

static enum mds_rc open_rounds(const struct block_pass *b, const void *first,
                               struct spread *s)
{
    const struct mds_groups *groups = b->c->g->groups;
    void *first_of = NULL;
    size_t all;

    *s = (struct spread){.b = b,
                         .group = mds_group(groups, MDS_AXIS_EXPERT),
                         .ranks = mds_groups_size(groups, MDS_AXIS_EXPERT),
                         .rank = mds_groups_rank(groups, MDS_AXIS_EXPERT),
                         .experts = mds_gpt_experts_here(b->c->g)};
    s->most = mds_gpt_round_rows(b->c) / s->ranks;
    all = (size_t)s->ranks * ((size_t)(s->ranks * s->experts) + 1);
    s->first = mds_zalloc(all, sizeof *s->first);
    if (!s->first)
        return MDS_EMEM;
    MDS_TRY(mds_arena_alloc(b->c->par.arena, MDS_MEM_WORK,
                            (s->experts + 1) * (int64_t)sizeof *s->first_of,
                            &first_of));
    s->first_of = first_of;
    MDS_TRY(share_counts(s, first, copies_here(b->c)));
    s->rounds = count_rounds(s);
    return MDS_OK;
}

static void open_round(struct spread *s, int64_t t)
{
    int32_t first_of[MDSK_EXPERTS_MOST + 1];

    s->n = 0;
    for (int e = 0; e < s->experts; e++) {
        first_of[e] = (int32_t)s->n;
        for (int p = 0; p < s->ranks; p++) {
            int64_t n = in_round(s, p, s->rank, e, t).n;

            s->here[e * s->ranks + p] = (struct rows){s->n, n};
            s->sent[e * s->ranks + p] = in_round(s, s->rank, p, e, t);
            s->n += n;
        }
    }
    first_of[s->experts] = (int32_t)s->n;
    mds_dev_copy_in(s->b->c->par.dev, s->first_of, first_of,
                    (s->experts + 1) * (int64_t)sizeof *first_of);
}

/* ---- rows on their way ---- */

static void copy_own(const struct spread *s, const void *in,
                     const struct mds_comm_block *from, void *out,
                     const struct mds_comm_block *to)
{
    for (int i = s->rank; i < s->experts * s->ranks; i += s->ranks)
        if (from[i].bytes > 0)
            mds_dev_copy(s->b->c->par.dev, (char *)out + to[i].at,
                         (const char *)in + from[i].at, from[i].bytes);
}

/* Rows of `bytes` bytes each. */
struct cargo {
    int64_t bytes;
    const void *in;
    void *out;
};

enum { CARGOS = 2 };

/* From `base` to p, in bytes: blocks of a second cargo are told from the first's. */
static int64_t distance(const void *base, const void *p)
{
    return (int64_t)((uintptr_t)p - (uintptr_t)base);
}

/* The rows of this round of one cargo or two: from's of `in` to to's of `out`. */
static enum mds_rc exchange(const struct spread *s, const struct cargo *c, int cargos,
                            const struct rows *from, const struct rows *to)
{
    struct mds_comm_block send[CARGOS * MDSK_EXPERTS_MOST];
    struct mds_comm_block recv[CARGOS * MDSK_EXPERTS_MOST];
    int n = s->experts * s->ranks;

    for (int i = 0; i < cargos * n; i++) {
        const struct cargo *k = &c[i / n];
        int64_t in = distance(c->in, k->in), out = distance(c->out, k->out);

        send[i] = (struct mds_comm_block){in + from[i % n].first * k->bytes,
                                          from[i % n].n * k->bytes};
        recv[i] = (struct mds_comm_block){out + to[i % n].first * k->bytes,
                                          to[i % n].n * k->bytes};
    }
    for (int i = 0; i < cargos; i++)
        copy_own(s, c->in, send + i * n, c->out, recv + i * n);
    return mds_comm_exchange(s->group, cargos * s->experts, c->in, send, c->out, recv);
}

static enum mds_rc send_to_experts(const struct spread *s, const struct cargo *c,
                                   int cargos)
{
    return exchange(s, c, cargos, s->sent, s->here);
}

static enum mds_rc send_back(const struct spread *s, const struct cargo *c, int cargos)
{
    return exchange(s, c, cargos, s->here, s->sent);
}

/* ---- what a round has in memory ---- */

/* x, y, d [rows, H], u, du [rows, the first layer's width], g [rows, F], weight and
 * d_weight [rows]; and all copies' weights and their gradients.  d, du and d_weights
 * are backward's. */
struct round {
    int64_t row;                  /* bytes of a row of copies */
    void *x, *y, *u, *g, *d, *du; /* y: the second layer's results */
    float *weight, *d_weight, *weights, *d_weights;
    int has_first_layer; /* x, u and weight are those of forward */
};

static enum mds_rc alloc_round(const struct spread *s, int backward, struct round *r)
{
    const struct mds_par *p = &s->b->c->par;
    const struct mlp_ids *id = &s->b->id->mlp;
    int64_t C = s->most * s->ranks, all = copies_here(s->b->c);
    int64_t H = s->b->c->g->cfg.hidden;

    *r = (struct round){.row = H * (int64_t)mdsk_dtype_size(p->dtype)};
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, C * H, &r->x));
    r->y = r->x; /* the second layer does not read x */
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, C * id->wide, &r->u));
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, C * id->inner, &r->g));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, C, &r->weight));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, all, &r->weights));
    if (!backward)
        return MDS_OK;
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, C * H, &r->d));
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, C * id->wide, &r->du));
    MDS_TRY(mds_par_alloc_f32(p, MDS_MEM_WORK, C, &r->d_weight));
    return mds_par_alloc_f32(p, MDS_MEM_WORK, all, &r->d_weights);
}

/* Round t: the first one's x, u and weight are where the block saves them, if it does.
 * Otherwise they take turns in working memory, so that any number has room. */
static struct round round_at(const struct spread *s, const struct round *work,
                             int64_t t, void *saved, void *saved_weights)
{
    struct round r = *work;

    if (t > 0 || !saved)
        return r;
    r.x = saved;
    r.u = (char *)saved + s->most * s->ranks * r.row;
    r.weight = saved_weights;
    return r;
}

static enum mds_rc fetch_copies(const struct spread *s, const struct round *r,
                                const void *copies)
{
    const struct cargo c[] = {{r->row, copies, r->x},
                              {sizeof *r->weight, r->weights, r->weight}};

    return send_to_experts(s, c, 2);
}

/* Weights [R,k] to the order of copies, and their gradients back.  map: as in
 * experts.c. */
static enum mds_rc order_weights(const struct block_pass *b, const int32_t *map,
                                 const void *weights, float *ordered)
{
    int64_t n = copies_here(b->c);
    struct mdsk_dispatch a = {
        .R = n, .H = 1, .k = 1, .from = map + 2 * n, .x = weights, .y = ordered};

    return mds_op_dispatch(b->c->par.dev, &a);
}

static enum mds_rc order_back(const struct block_pass *b, const int32_t *map,
                              const float *ordered, void *weights)
{
    int64_t n = copies_here(b->c);
    struct mdsk_combine a = {
        .R = n, .H = 1, .k = 1, .to = map + n, .x = ordered, .y = weights};

    return mds_op_combine(b->c->par.dev, &a);
}

/* ---- forward ---- */

static struct expert_rows rows_of(const struct spread *s)
{
    return (struct expert_rows){mds_max(s->n, 1), s->first_of};
}

/* u and g of the rows that have come. */
static enum mds_rc first_layer(const struct spread *s, const struct round *r)
{
    const struct context *c = s->b->c;
    struct mdsk_weigh a = {.kind = c->g->cfg.activation,
                           .R = s->n,
                           .F = s->b->id->mlp.inner,
                           .k = 1,
                           .dtype = c->par.dtype,
                           .weight = r->weight,
                           .x = r->u,
                           .y = r->g};

    if (!r->has_first_layer)
        MDS_TRY(
            mds_gpt_experts_product(s->b, LAYER_EXPERTS_UP, rows_of(s), r->x, r->u));
    return mds_op_weigh(c->par.dev, &a);
}

static enum mds_rc forward_round(const struct spread *s, const struct round *r,
                                 const void *copies, void *y)
{
    const struct cargo results = {r->row, r->y, y};

    MDS_TRY(fetch_copies(s, r, copies));
    if (s->n > 0) {
        MDS_TRY(first_layer(s, r));
        MDS_TRY(
            mds_gpt_experts_product(s->b, LAYER_EXPERTS_DOWN, rows_of(s), r->g, r->y));
    }
    return send_back(s, &results, 1);
}

static enum mds_rc forward(struct spread *s, const struct mds_block_call *call)
{
    struct round work;

    MDS_TRY(alloc_round(s, 0, &work));
    MDS_TRY(order_weights(s->b, call->in[2], call->in[1], work.weights));
    for (int64_t t = 0; t < s->rounds; t++) {
        struct round r = round_at(s, &work, t, call->out[1], call->out[2]);

        open_round(s, t);
        MDS_TRY(forward_round(s, &r, call->in[0], call->out[0]));
    }
    return MDS_OK;
}

enum mds_rc mds_gpt_spread(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_params *ps = b->c->g->ps;
    struct spread s;
    enum mds_rc rc;

    if (mds_gpt_is_first_tile(b))
        MDS_TRY(mds_params_acquire(ps, b->id->mlp.unit));
    rc = open_rounds(b, call->in[3], &s);
    if (!rc)
        rc = forward(&s, call);
    free(s.first);
    MDS_TRY(rc);
    return mds_gpt_is_last_tile(b) ? mds_params_release(ps, b->id->mlp.unit) : MDS_OK;
}

/* ---- backward ---- */

/* The gradient of the rows that have come, r->d, to that of x, and those of their
 * weights; g becomes its own gradient. */
static enum mds_rc layers_backward(const struct spread *s, const struct round *r)
{
    const struct context *c = s->b->c;
    struct mdsk_weigh_bwd a = {.kind = c->g->cfg.activation,
                               .R = s->n,
                               .F = s->b->id->mlp.inner,
                               .k = 1,
                               .dtype = c->par.dtype,
                               .weight = r->weight,
                               .x = r->u,
                               .dy = r->g,
                               .dx = r->du,
                               .dweight = r->d_weight};

    MDS_TRY(first_layer(s, r));
    MDS_TRY(mds_gpt_experts_product_bwd_w(s->b, LAYER_EXPERTS_DOWN, rows_of(s), r->g,
                                          r->d));
    MDS_TRY(mds_gpt_experts_product_bwd_x(s->b, LAYER_EXPERTS_DOWN, rows_of(s), r->d,
                                          r->g));
    MDS_TRY(mds_op_weigh_bwd(c->par.dev, &a));
    MDS_TRY(
        mds_gpt_experts_product_bwd_w(s->b, LAYER_EXPERTS_UP, rows_of(s), r->x, r->du));
    return mds_gpt_experts_product_bwd_x(s->b, LAYER_EXPERTS_UP, rows_of(s), r->du,
                                         r->d);
}

/* No row has come: gradients of weights begin all the same. */
static enum mds_rc no_rows_backward(const struct spread *s, const struct round *r)
{
    MDS_TRY(mds_gpt_experts_product_bwd_w(s->b, LAYER_EXPERTS_DOWN, rows_of(s), r->g,
                                          r->d));
    return mds_gpt_experts_product_bwd_w(s->b, LAYER_EXPERTS_UP, rows_of(s), r->x,
                                         r->du);
}

static enum mds_rc backward_round(const struct spread *s, const struct round *r,
                                  const void *copies, const void *dy, void *d_copies)
{
    const struct cargo gradient = {r->row, dy, r->d};
    const struct cargo back[] = {{r->row, r->d, d_copies},
                                 {sizeof *r->d_weight, r->d_weight, r->d_weights}};

    if (!r->has_first_layer)
        MDS_TRY(fetch_copies(s, r, copies));
    MDS_TRY(send_to_experts(s, &gradient, 1));
    MDS_TRY(s->n > 0 ? layers_backward(s, r) : no_rows_backward(s, r));
    return send_back(s, back, 2);
}

static enum mds_rc backward(struct spread *s, const struct mds_block_call *call)
{
    struct round work;

    MDS_TRY(alloc_round(s, 1, &work));
    MDS_TRY(order_weights(s->b, call->in[2], call->in[1], work.weights));
    for (int64_t t = 0; t < s->rounds; t++) {
        struct round r = round_at(s, &work, t, call->in[5], call->in[6]);

        r.has_first_layer = t == 0 && call->in[5];
        open_round(s, t);
        MDS_TRY(backward_round(s, &r, call->in[0], call->in[4], call->out[0]));
    }
    return order_back(s->b, call->in[2], work.d_weights, call->out[1]);
}

enum mds_rc mds_gpt_spread_bwd(void *ctx, const struct mds_block_call *call)
{
    const struct block_pass *b = ctx;
    struct mds_params *ps = b->c->g->ps;
    struct spread s;
    enum mds_rc rc;

    if (mds_gpt_is_first_tile(b)) {
        MDS_TRY(mds_params_acquire(ps, b->id->mlp.unit));
        MDS_TRY(mds_params_grad_begin(ps, b->id->mlp.unit));
    }
    rc = open_rounds(b, call->in[3], &s);
    if (!rc)
        rc = backward(&s, call);
    free(s.first);
    MDS_TRY(rc);
    if (!mds_gpt_is_last_tile(b))
        return MDS_OK;
    MDS_TRY(mds_params_grad_ready(ps, b->id->mlp.unit));
    return mds_params_release(ps, b->id->mlp.unit);
}
