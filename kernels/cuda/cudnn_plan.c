/* SPDX-License-Identifier: BSD-3-Clause */
/* Attention as a graph of operations that cuDNN recognises and runs as one kernel.
 *
 * Only this very composition is recognised, step by step as written here: it is the one
 * that NVIDIA's own front end builds (github.com/NVIDIA/cudnn-frontend, MIT licence,
 * node/scaled_dot_product_flash_attention.h). */
#include "kernels/cuda/cudnn_plan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    struct plan *next;
    struct mdsk_cudnn_problem problem;
    struct mdsk_cudnn_graph graph;
    int usable;
};

static const struct mdsk_cudnn *const dnn = &mdsk_cudnn;
static cudnnHandle_t handle;
static struct plan *plans;

static int cudnn_fail(cudnnStatus_t status)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    return mdsk_cuda_fail("cuDNN", dnn->cudnnGetErrorString(status));
}

/* ---- graphs ---- */

/* The graph under construction, and what several steps need. */
struct builder {
    struct mdsk_cudnn_graph *g;
    const struct mdsk_cudnn_problem *p;
    cudnnDataType_t io;
    mdsk_cudnn_tensor scale;
};

static const cudnnDataType_t f32 = CUDNN_DATA_FLOAT;

static struct mdsk_cudnn_shape shape_of(const struct mdsk_cudnn_problem *p, int id)
{
    int keys = id == MDSK_CUDNN_K || id == MDSK_CUDNN_V || id == MDSK_CUDNN_DK ||
               id == MDSK_CUDNN_DV;
    const int64_t *stride = p->stride[id - 1];

    return (struct mdsk_cudnn_shape){
        {p->B, keys ? p->G : p->A, keys ? p->Sk : p->Sq, p->D},
        {stride[0], stride[1], stride[2], 1}};
}

static mdsk_cudnn_tensor heads_tensor(const struct builder *b, int id)
{
    return mdsk_cudnn_real(b->g, id, b->io, shape_of(b->p, id));
}

static mdsk_cudnn_tensor transposed_heads_tensor(const struct builder *b, int id)
{
    return mdsk_cudnn_real(b->g, id, b->io, mdsk_cudnn_flipped(shape_of(b->p, id)));
}

/* [B,A,Sq,1] in f32, packed. */
static struct mdsk_cudnn_shape column_shape(const struct mdsk_cudnn_problem *p)
{
    return mdsk_cudnn_packed(p->B, p->A, p->Sq, 1);
}

static mdsk_cudnn_tensor column_tensor(const struct builder *b)
{
    return mdsk_cudnn_inner(b->g, f32, column_shape(b->p));
}

/* [B,A,Sq,Sk] inside the graph. */
static mdsk_cudnn_tensor score_tensor(const struct builder *b, cudnnDataType_t type)
{
    const struct mdsk_cudnn_problem *p = b->p;

    return mdsk_cudnn_inner(b->g, type, mdsk_cudnn_packed(p->B, p->A, p->Sq, p->Sk));
}

/* f(x, y) of squares, in f32. */
static mdsk_cudnn_tensor score_pointwise(const struct builder *b,
                                         cudnnPointwiseMode_t f, mdsk_cudnn_tensor x,
                                         mdsk_cudnn_tensor y)
{
    mdsk_cudnn_tensor out = score_tensor(b, f32);

    mdsk_cudnn_point(b->g, f, f32, x, y, out);
    return out;
}

/* q k^T scale */
static mdsk_cudnn_tensor score_matmul(const struct builder *b, mdsk_cudnn_tensor q,
                                      mdsk_cudnn_tensor k_flipped)
{
    mdsk_cudnn_tensor s = score_tensor(b, f32);

    mdsk_cudnn_matmul(b->g, q, k_flipped, s);
    return score_pointwise(b, CUDNN_POINTWISE_MUL, s, b->scale);
}

static mdsk_cudnn_tensor shifted_index(const struct builder *b, mdsk_cudnn_tensor row)
{
    mdsk_cudnn_tensor out = score_tensor(b, CUDNN_DATA_INT32);

    mdsk_cudnn_point(b->g, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, row,
                     mdsk_cudnn_number(b->g, MDSK_CUDNN_SHIFT, CUDNN_DATA_INT32), out);
    return out;
}

/* Scores where f(x, y) holds stay, others become the number `hidden`. */
static mdsk_cudnn_tensor select_scores(const struct builder *b, mdsk_cudnn_tensor s,
                                       cudnnPointwiseMode_t f, mdsk_cudnn_tensor x,
                                       mdsk_cudnn_tensor y, int hidden)
{
    mdsk_cudnn_tensor sees = score_tensor(b, CUDNN_DATA_BOOLEAN),
                      out = score_tensor(b, f32);

    mdsk_cudnn_point(b->g, f, CUDNN_DATA_BOOLEAN, x, y, sees);
    mdsk_cudnn_select(b->g, s, mdsk_cudnn_number(b->g, hidden, f32), sees, out);
    return out;
}

static mdsk_cudnn_tensor index_of(const struct builder *b, int64_t axis,
                                  mdsk_cudnn_tensor s)
{
    mdsk_cudnn_tensor out = score_tensor(b, CUDNN_DATA_INT32);

    mdsk_cudnn_index(b->g, axis, s, out);
    return out;
}

/* The left bound has its own indices and is in f32: cuDNN recognises this form. */
static mdsk_cudnn_tensor mask_before_window(const struct builder *b,
                                            mdsk_cudnn_tensor s)
{
    mdsk_cudnn_tensor row = index_of(b, 2, s), col = index_of(b, 3, s),
                      end = score_tensor(b, f32);

    mdsk_cudnn_point(b->g, CUDNN_POINTWISE_ADD, f32, col,
                     mdsk_cudnn_number(b->g, MDSK_CUDNN_LEFT, f32), end);
    return select_scores(b, s, CUDNN_POINTWISE_CMP_GT, end, row, MDSK_CUDNN_BEFORE);
}

/* Scores of keys that a query does not see become -infinity. */
static mdsk_cudnn_tensor mask_scores(const struct builder *b, mdsk_cudnn_tensor s)
{
    mdsk_cudnn_tensor row, col;

    if (b->p->mask == MDSK_CUDNN_ALL)
        return s;
    row = index_of(b, 2, s);
    col = index_of(b, 3, s);
    if (b->p->mask == MDSK_CUDNN_SHIFTED)
        row = shifted_index(b, row);
    s = select_scores(b, s, CUDNN_POINTWISE_CMP_GE, row, col, MDSK_CUDNN_HIDDEN);
    return b->p->windowed ? mask_before_window(b, s) : s;
}

/* lse = max + log sum exp(s - max);  o = exp(s - max) / sum exp(s - max) v */
static void build_forward(const struct builder *b)
{
    struct mdsk_cudnn_graph *g = b->g;
    mdsk_cudnn_tensor s =
        mask_scores(b, score_matmul(b, heads_tensor(b, MDSK_CUDNN_Q),
                                    transposed_heads_tensor(b, MDSK_CUDNN_K)));
    mdsk_cudnn_tensor max = column_tensor(b), sum = column_tensor(b),
                      log = column_tensor(b), e, p;

    mdsk_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, max);
    e = score_pointwise(b, CUDNN_POINTWISE_EXP,
                        score_pointwise(b, CUDNN_POINTWISE_SUB, s, max), NULL);
    mdsk_cudnn_reduce(g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    mdsk_cudnn_point(g, CUDNN_POINTWISE_LOG, f32, sum, NULL, log);
    mdsk_cudnn_point(g, CUDNN_POINTWISE_ADD, f32, max, log,
                     mdsk_cudnn_real(g, MDSK_CUDNN_LSE, f32, column_shape(b->p)));
    p = score_tensor(b, b->io);
    mdsk_cudnn_point(g, CUDNN_POINTWISE_DIV, f32, e, sum, p);
    mdsk_cudnn_matmul(g, p, heads_tensor(b, MDSK_CUDNN_V),
                      heads_tensor(b, MDSK_CUDNN_O));
}

/* delta = row sums of d_o o */
static mdsk_cudnn_tensor delta_of(const struct builder *b, mdsk_cudnn_tensor d_o)
{
    const struct mdsk_cudnn_problem *p = b->p;
    struct mdsk_cudnn_shape rows = mdsk_cudnn_packed(p->B, p->A, p->Sq, p->D);
    mdsk_cudnn_tensor product = mdsk_cudnn_inner(b->g, f32, rows),
                      sum = column_tensor(b);
    mdsk_cudnn_tensor delta =
        mdsk_cudnn_real(b->g, MDSK_CUDNN_DELTA, f32, column_shape(p));

    mdsk_cudnn_point(b->g, CUDNN_POINTWISE_MUL, f32, d_o, heads_tensor(b, MDSK_CUDNN_O),
                     product);
    mdsk_cudnn_reduce(b->g, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    mdsk_cudnn_point(b->g, CUDNN_POINTWISE_MUL, f32, sum,
                     mdsk_cudnn_number(b->g, MDSK_CUDNN_ONE, f32), delta);
    return delta;
}

/* dk or dv [B,G,Sk,D] = the transposed square times x [B,A,Sq,D]; grouped heads are
 * summed. */
static void matmul_from_scores(const struct builder *b, mdsk_cudnn_tensor x_square,
                               mdsk_cudnn_tensor x, int id)
{
    const struct mdsk_cudnn_problem *p = b->p;
    struct mdsk_cudnn_shape s =
        mdsk_cudnn_flipped(mdsk_cudnn_packed(p->B, p->A, p->Sq, p->Sk));
    mdsk_cudnn_tensor turned = mdsk_cudnn_inner(b->g, b->io, s), all;

    mdsk_cudnn_reshape(b->g, x_square, turned);
    if (p->A == p->G) {
        mdsk_cudnn_matmul(b->g, turned, x, heads_tensor(b, id));
        return;
    }
    all = mdsk_cudnn_inner(b->g, b->io, mdsk_cudnn_packed(p->B, p->A, p->Sk, p->D));
    mdsk_cudnn_matmul(b->g, turned, x, all);
    mdsk_cudnn_reduce(b->g, CUDNN_REDUCE_TENSOR_ADD, all, heads_tensor(b, id));
}

/* dq = ds k, by way of sums in f32 to which blocks of keys add in any order; or of one
 * product over the whole of ds. */
static void build_dq(const struct builder *b, mdsk_cudnn_tensor ds,
                     mdsk_cudnn_tensor k_flipped)
{
    const struct mdsk_cudnn_problem *p = b->p;
    struct mdsk_cudnn_shape rows = mdsk_cudnn_packed(p->B, p->A, p->Sq, p->D);
    mdsk_cudnn_tensor k = mdsk_cudnn_inner(b->g, b->io, shape_of(p, MDSK_CUDNN_K)), sum;

    mdsk_cudnn_reshape(b->g, k_flipped, k);
    if (p->pass == MDSK_CUDNN_REPEATABLE) {
        mdsk_cudnn_matmul(b->g, ds, k, heads_tensor(b, MDSK_CUDNN_DQ));
        return;
    }
    sum = mdsk_cudnn_real(b->g, MDSK_CUDNN_DQ_SUM, f32, rows);
    mdsk_cudnn_matmul(b->g, ds, k, sum);
    mdsk_cudnn_point(b->g, CUDNN_POINTWISE_IDENTITY, f32, sum, NULL,
                     heads_tensor(b, MDSK_CUDNN_DQ));
}

/* p = exp(s - lse);  dv = p^T d_o;  ds = scale p (d_o v^T - delta);  dk = ds^T q */
static void build_backward(const struct builder *b)
{
    struct mdsk_cudnn_graph *g = b->g;
    mdsk_cudnn_tensor q = heads_tensor(b, MDSK_CUDNN_Q),
                      k = transposed_heads_tensor(b, MDSK_CUDNN_K);
    mdsk_cudnn_tensor v = transposed_heads_tensor(b, MDSK_CUDNN_V),
                      d_o = heads_tensor(b, MDSK_CUDNN_D_O);
    mdsk_cudnn_tensor lse = mdsk_cudnn_real(g, MDSK_CUDNN_LSE, f32, column_shape(b->p));
    mdsk_cudnn_tensor delta = delta_of(b, d_o), p, ds;

    p = score_pointwise(b, CUDNN_POINTWISE_SUB, score_matmul(b, q, k), lse);
    p = score_pointwise(b, CUDNN_POINTWISE_EXP, mask_scores(b, p), NULL);
    matmul_from_scores(b, p, d_o, MDSK_CUDNN_DV);
    ds = score_tensor(b, f32);
    mdsk_cudnn_matmul(g, d_o, v, ds);
    ds = score_pointwise(b, CUDNN_POINTWISE_SUB, ds, delta);
    ds = score_pointwise(b, CUDNN_POINTWISE_MUL, ds, p);
    ds = score_pointwise(b, CUDNN_POINTWISE_MUL, ds, b->scale);
    matmul_from_scores(b, ds, q, MDSK_CUDNN_DK);
    build_dq(b, ds, k);
}

/* ---- plans ---- */

static void build_plan(struct plan *plan)
{
    struct builder b = {.g = &plan->graph, .p = &plan->problem};

    b.io = plan->problem.dtype == MDSK_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
    b.g->handle = handle;
    b.scale = mdsk_cudnn_number(b.g, MDSK_CUDNN_SCALE, f32);
    if (plan->problem.pass == MDSK_CUDNN_FORWARD)
        build_forward(&b);
    else
        build_backward(&b);
    mdsk_cudnn_finish(b.g);
    plan->usable = b.g->status == CUDNN_STATUS_SUCCESS;
    if (!plan->usable)
        mdsk_cudnn_fini(b.g);
}

/* The plan for a problem, made at its first use; -ENOTSUP if cuDNN has none. */
int mdsk_cudnn_find(const struct mdsk_cudnn_problem *p,
                    const struct mdsk_cudnn_graph **out)
{
    struct plan *plan = plans;

    while (plan && memcmp(&plan->problem, p, sizeof *p) != 0)
        plan = plan->next;
    if (!plan) {
        plan = calloc(1, sizeof *plan);
        if (!plan)
            return -ENOMEM;
        plan->problem = *p;
        build_plan(plan);
        plan->next = plans;
        plans = plan;
    }
    *out = &plan->graph;
    return plan->usable ? 0 : -ENOTSUP;
}

/* Whether a graph of this pass has a tensor of this id. */
static int uses_tensor(const struct mdsk_cudnn_problem *p, int id)
{
    switch (id) {
    case MDSK_CUDNN_D_O:
    case MDSK_CUDNN_DQ:
    case MDSK_CUDNN_DK:
    case MDSK_CUDNN_DV:
    case MDSK_CUDNN_DELTA:
    case MDSK_CUDNN_ONE:
        return p->pass != MDSK_CUDNN_FORWARD;
    case MDSK_CUDNN_DQ_SUM:
        return p->pass == MDSK_CUDNN_BACKWARD;
    case MDSK_CUDNN_HIDDEN:
        return p->mask != MDSK_CUDNN_ALL;
    case MDSK_CUDNN_SHIFT:
        return p->mask == MDSK_CUDNN_SHIFTED;
    case MDSK_CUDNN_LEFT:
    case MDSK_CUDNN_BEFORE:
        return p->windowed;
    default:
        return 1;
    }
}

int mdsk_cudnn_call(cudaStream_t stream, const struct mdsk_cudnn_graph *graph,
                    struct mdsk_cudnn_call *c, void *workspace)
{
    int64_t ids[MDSK_CUDNN_IDS];
    void *addresses[MDSK_CUDNN_IDS];
    int n = 0, err;

    c->hidden = -INFINITY;
    c->one = 1;
    c->data[MDSK_CUDNN_SCALE - 1] = &c->scale;
    c->data[MDSK_CUDNN_HIDDEN - 1] = &c->hidden;
    c->data[MDSK_CUDNN_BEFORE - 1] = &c->hidden;
    c->data[MDSK_CUDNN_ONE - 1] = &c->one;
    c->data[MDSK_CUDNN_SHIFT - 1] = &c->shift;
    c->data[MDSK_CUDNN_LEFT - 1] = &c->left;
    for (int id = 1; id <= MDSK_CUDNN_IDS; id++)
        if (uses_tensor(c->problem, id)) {
            ids[n] = id;
            addresses[n++] = c->data[id - 1];
        }
    err = cudnn_fail(dnn->cudnnSetStream(handle, stream));
    return err ? err : cudnn_fail(mdsk_cudnn_run(graph, n, ids, addresses, workspace));
}

int mdsk_cudnn_is_usable(void)
{
    static int known, usable;
    size_t version;

    if (known || mdsk_cuda_open())
        return usable;
    known = 1;
    version = dnn->cudnnGetVersion();
    /* before 9.6 sums had to be cleared; 9.10.0 and 9.10.1 are known to be wrong */
    usable = mdsk_cuda_capability() >= 80 && version >= 90600 && version != 91000 &&
             version != 91001 && dnn->cudnnCreate(&handle) == CUDNN_STATUS_SUCCESS;
    return usable;
}
