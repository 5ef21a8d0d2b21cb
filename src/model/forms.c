/* SPDX-License-Identifier: BSD-3-Clause */
/* What a block computes, for each kind of model: the forward on one rank.  Gradients,
 * exchanges between ranks, what is saved and where it lies follow (block/passes.h). */
#include "block/build.h"
#include "model/lists.h"

struct form {
    struct mds_step_list *p;
    const struct mds_model_config *m;
    int64_t A, G; /* heads of queries and keys on this tensor rank */
    int64_t F, E; /* and inner sizes: of the MLP or shared expert, of each expert */
    int groups;   /* of these heads */
    int with_experts, dropout;
};

/* A part of the policy, as the lists number it. */
enum { NEVER = 0 };

static int part(enum mds_act_part of)
{
    return (int)of + 1;
}

static int64_t qkv_width(const struct form *f)
{
    return (f->A + 2 * f->G) / f->groups * f->m->head_dim;
}

/* Before attention and the MLP; the stream, if the model has no norm there. */
static mds_tid norm(const struct form *f, int layer, const char *name, mds_tid x)
{
    if (f->m->norm_placement == MDS_NORM_AFTER)
        return x;
    return mds_norm(f->p, layer, name, x, part(MDS_ACT_NORMS), part(MDS_ACT_REST));
}

static mds_tid dropout(const struct form *f, int site, mds_tid x)
{
    return f->dropout ? mds_dropout(f->p, site, x) : x;
}

/* The result x of attention or the MLP, as it is added to the stream. */
static mds_tid branch(const struct form *f, int layer, const char *name, int site,
                      mds_tid x)
{
    if (f->m->norm_placement != MDS_NORM_BEFORE) {
        f->p->tensor[x].part = (uint8_t)part(MDS_ACT_REST);
        x = mds_norm(f->p, layer, name, x, NEVER, part(MDS_ACT_REST));
    }
    return dropout(f, site, x);
}

/* Also saves q and k from before, and their statistics. */
static mds_tid head_norms(const struct form *f, mds_tid qkv)
{
    int64_t heads = (f->A + f->G) / f->groups;
    int64_t norms = f->m->qk_norm_across_heads ? 2 : heads;
    int rest = part(MDS_ACT_REST);
    mds_tid y = mds_unary(f->p, MDS_STEP_HEAD_NORMS, "q k v", qkv, qkv_width(f), NEVER);
    struct mds_step *s = &f->p->step[f->p->steps - 1];

    s->layer = LAYER_HEAD_NORMS;
    s->out[1] = mds_add_tensor(f->p, "q k", MDS_ROWS_GEMM, MDS_ELEM_ACT,
                               heads * f->m->head_dim, rest);
    s->out[2] =
        mds_add_tensor(f->p, "st q k", MDS_ROWS_GEMM, MDS_ELEM_F32, 2 * norms, rest);
    return y;
}

static mds_tid attend(const struct form *f, mds_tid qkv)
{
    struct mds_step *s = mds_add_step(f->p, MDS_STEP_ATTEND, -1);

    f->p->tensor[qkv].part = (uint8_t)part(MDS_ACT_REST); /* as attention reads them */
    s->in[0] = qkv;
    s->out[0] = mds_add_tensor(f->p, "o", MDS_ROWS_HEADS, MDS_ELEM_ACT,
                               f->A * f->m->head_dim, part(MDS_ACT_ATTENTION));
    s->out[1] = mds_add_tensor(f->p, "lse", MDS_ROWS_HEADS, MDS_ELEM_F32, f->A,
                               part(MDS_ACT_LSE));
    return s->out[0];
}

/* Attention from the stream on, without its output layer: what groups of heads do one
 * after the other. */
static mds_tid heads(const struct form *f, mds_tid x)
{
    int from = f->p->steps;
    mds_tid n = norm(f, LAYER_NORM1, "n1", x), o;
    mds_tid qkv =
        mds_linear(f->p, LAYER_QKV, "q k v", MDS_CUT_COLUMNS, qkv_width(f), n, NEVER);

    if (f->m->qk_layernorm)
        qkv = head_norms(f, qkv);
    if (f->m->position == MDS_POSITION_ROPE)
        qkv = mds_unary(f->p, MDS_STEP_ROPE, "q k v", qkv, qkv_width(f), NEVER);
    o = attend(f, qkv);
    for (int i = from; i < f->p->steps; i++)
        f->p->step[i].of_heads = 1;
    return o;
}

static mds_tid output(const struct form *f, mds_tid o)
{
    mds_tid y =
        mds_linear(f->p, LAYER_OUT, "out", MDS_CUT_ROWS, f->m->hidden, o, NEVER);

    return branch(f, LAYER_OUT_NORM, "out n", SITE_OUT, y);
}

/* The MLP, or the shared expert: what it makes has these names. */
static const char *const mlp_names[] = {"u", "g", "down"};
static const char *const shared_names[] = {"u s", "g s", "down s"};

static mds_tid dense(const struct form *f, mds_tid x, const char *const *name)
{
    int64_t wide = mdsk_activation_inputs(f->m->activation, 1, f->F);
    mds_tid u = mds_linear(f->p, LAYER_UP, name[0], MDS_CUT_COLUMNS, wide, x,
                           part(MDS_ACT_MLP_IN));
    mds_tid g =
        mds_unary(f->p, MDS_STEP_ACTIVATE, name[1], u, f->F, part(MDS_ACT_MLP_ACT));

    return mds_linear(f->p, LAYER_DOWN, name[2], MDS_CUT_ROWS, f->m->hidden, g, NEVER);
}

/* Which experts each row goes to, and where its copies are. */
static struct mds_step route(const struct form *f, mds_tid x)
{
    const struct mds_experts_config *e = &f->m->experts;
    int rest = part(MDS_ACT_REST);
    struct mds_step *s = mds_add_step(f->p, MDS_STEP_ROUTE, LAYER_ROUTER);

    s->in[0] = x;
    s->out[0] =
        mds_add_tensor(f->p, "map", MDS_ROWS_GEMM, MDS_ELEM_I32, 3 * e->topk, rest);
    s->out[1] =
        mds_add_tensor(f->p, "weights", MDS_ROWS_GEMM, MDS_ELEM_F32, e->topk, rest);
    s->out[2] =
        mds_add_tensor(f->p, "first", MDS_ROWS_ONE, MDS_ELEM_I32, e->n + 1, rest);
    s->out[3] =
        mds_add_tensor(f->p, "scores", MDS_ROWS_GEMM, MDS_ELEM_F32, e->n + 1, rest);
    s->out[4] = mds_add_tensor(f->p, "load", MDS_ROWS_ONE, MDS_ELEM_F32, e->n, NEVER);
    f->p->tensor[s->out[4]].home = MDS_HOME_ARG;
    f->p->tensor[s->out[4]].at = MDS_ARG_LOAD;
    return *s;
}

/* A step of copies of rows; more: what else it reads. */
static mds_tid copies(const struct form *f, enum mds_step_op op, int layer,
                      const char *name, int64_t cols, mds_tid x, mds_tid more, int kept)
{
    struct mds_step *s = mds_add_step(f->p, op, layer);

    s->in[0] = x;
    s->in[1] = more;
    s->out[0] = mds_add_tensor(f->p, name, MDS_ROWS_COPIES, MDS_ELEM_ACT, cols, kept);
    return s->out[0];
}

/* Weighing comes before the second layer, so that backward does not need its result. */
static mds_tid routed(const struct form *f, mds_tid x)
{
    int64_t wide = mdsk_activation_inputs(f->m->activation, 1, f->E);
    const struct mds_step r = route(f, x);
    mds_tid c =
        copies(f, MDS_STEP_DISPATCH, -1, "copies", f->m->hidden, x, r.out[0], NEVER);
    mds_tid u = copies(f, MDS_STEP_EXPERTS, LAYER_EXPERTS_UP, "u", wide, c, r.out[2],
                       part(MDS_ACT_MLP_IN));
    mds_tid g =
        copies(f, MDS_STEP_WEIGH, -1, "g", f->E, u, r.out[1], part(MDS_ACT_MLP_ACT));
    struct mds_step *s = &f->p->step[f->p->steps - 1];

    s->in[2] = r.out[0];
    c = copies(f, MDS_STEP_EXPERTS, LAYER_EXPERTS_DOWN, "down", f->m->hidden, g,
               r.out[2], NEVER);
    s = mds_add_step(f->p, MDS_STEP_COMBINE, -1);
    s->in[0] = c;
    s->in[1] = r.out[0];
    s->out[0] = mds_add_tensor(f->p, "combined", MDS_ROWS_SLICE, MDS_ELEM_ACT,
                               f->m->hidden, NEVER);
    return s->out[0];
}

/* The shared expert comes first: in backward its weights' gradients are computed while
 * the sum of x's travels between tensor ranks. */
static mds_tid experts(const struct form *f, mds_tid x)
{
    mds_tid shared = f->F > 0 ? dense(f, x, shared_names) : -1, y = routed(f, x);

    return shared < 0 ? y : mds_add(f->p, "experts", shared, y, NEVER);
}

static mds_tid mlp(const struct form *f, mds_tid x)
{
    mds_tid y = f->with_experts ? experts(f, x) : dense(f, x, mlp_names);

    return branch(f, LAYER_MLP_NORM, "mlp n", SITE_MLP, y);
}

/* x += attention(norm1(x));  x += mlp(norm2(x)); with norms after attention and MLP,
 * before them, or both */
static mds_tid in_turn(const struct form *f, mds_tid x)
{
    mds_tid a = output(f, heads(f, x));

    x = mds_add(f->p, "x1", x, a, part(MDS_ACT_REST));
    return mds_add(f->p, "y", x, mlp(f, norm(f, LAYER_NORM2, "n2", x)), NEVER);
}

/* x += attention(norm1(x)) + mlp(norm2(x)).  norm2 comes before the sum: its backward
 * adds to the gradient that the output layer still has to read. */
static mds_tid parallel_residual(const struct form *f, mds_tid x)
{
    mds_tid o = heads(f, x);
    mds_tid n = norm(f, LAYER_NORM2, "n2", x), sum;

    sum = mds_add(f->p, "x1", x, output(f, o), NEVER);
    return mds_add(f->p, "y", sum, mlp(f, n), NEVER);
}

static void name_layers(int gated, int experts, const char **layer)
{
    layer[LAYER_NORM1] = "norm1";
    layer[LAYER_QKV] = "attention.q k v";
    layer[LAYER_HEAD_NORMS] = "attention.qk_norm";
    layer[LAYER_OUT] = "attention.out";
    layer[LAYER_NORM2] = "norm2";
    layer[LAYER_UP] = experts ? gated ? "mlp.shared.gate up" : "mlp.shared.up"
                      : gated ? "mlp.gate up"
                              : "mlp.up";
    layer[LAYER_DOWN] = experts ? "mlp.shared.down" : "mlp.down";
    layer[LAYER_ROUTER] = "mlp.router";
    layer[LAYER_EXPERTS_UP] = gated ? "mlp.gate up" : "mlp.up";
    layer[LAYER_EXPERTS_DOWN] = "mlp.down";
    layer[LAYER_OUT_NORM] = "attention.out_norm";
    layer[LAYER_MLP_NORM] = "mlp.out_norm";
}

void mds_gpt_declare_block(const struct mds_model_config *m, int with_experts,
                           int tensor, int groups, int training,
                           struct mds_step_list *p)
{
    const struct form f = {.p = p,
                           .m = m,
                           .A = m->heads / tensor,
                           .G = m->kv_heads / tensor,
                           .F = mds_model_dense_inner(m, with_experts) / tensor,
                           .E = m->experts.ffn_hidden / tensor,
                           .groups = groups,
                           .with_experts = with_experts,
                           .dropout = training && m->hidden_dropout > 0};

    p->groups = groups;
    name_layers(mdsk_activation_of(m->activation)->gated, with_experts, p->layer);
    p->x = mds_add_tensor(p, "x", MDS_ROWS_SLICE, MDS_ELEM_ACT, m->hidden,
                          part(MDS_ACT_INPUT));
    p->y = m->parallel_residual ? parallel_residual(&f, p->x) : in_turn(&f, p->x);
}
