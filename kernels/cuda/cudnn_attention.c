/* SPDX-License-Identifier: BSD-3-Clause */
/* Which attention problems cuDNN can compute; its tensors and its scratch memory. */
#include "kernels/cuda/cudnn_attention.h"

#include <errno.h>
#include <string.h>

#include "kernels/attention_scratch.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/cudnn_plan.h"

/* cuDNN's kernels are not made for shorter sequences. */
enum { SHORTEST = 32 };

static int32_t mask_kind(const struct mdsk_attention_shape *s)
{
    if (s->q_offset >= s->Sk - 1 && s->window == 0)
        return MDSK_CUDNN_ALL;
    return s->q_offset > 0 ? MDSK_CUDNN_SHIFTED : MDSK_CUDNN_TRIANGLE;
}

/* Every query sees a key, and indices are exact in f32. */
static int is_window_supported(const struct mdsk_attention_shape *s)
{
    const int64_t exact = 1 << 23;

    return s->Sq <= s->Sk && mdsk_attention_window_key(s, s->Sq - 1) < s->Sk &&
           s->Sk < exact && s->window < exact && s->q_offset < exact;
}

static int is_supported(const struct mdsk_attention_shape *s)
{
    const int64_t most_D = mdsk_cuda_capability() >= 90 ? 256 : 128;

    return s->dtype != MDSK_F32 && !(s->dropout.p > 0) && !s->start &&
           (s->window == 0 || is_window_supported(s)) && s->D % 8 == 0 &&
           s->D <= most_D && s->Sq >= SHORTEST && s->Sk >= SHORTEST &&
           s->Sk <= s->Sq + s->q_offset &&
           (mask_kind(s) == MDSK_CUDNN_ALL || s->Sq + s->q_offset < INT32_MAX) &&
           mdsk_cudnn_is_usable();
}

static int is_aligned(const struct mdsk_heads *h, int n)
{
    for (int i = 0; i < n; i++)
        if ((uintptr_t)h[i].data % 16 || h[i].batch_stride % 8 ||
            h[i].token_stride % 8 || h[i].head_stride % 8)
            return 0;
    return 1;
}

/* Part of a problem: sequences b .. b+B-1 and query heads h .. h+A-1. */
struct part {
    int64_t b, B, h, A;
};

static struct mdsk_cudnn_problem problem_of(const struct mdsk_attention_shape *s,
                                            enum mdsk_cudnn_pass pass,
                                            const struct part *part)
{
    struct mdsk_cudnn_problem p;

    memset(&p, 0, sizeof p);
    p.pass = (int32_t)pass;
    p.mask = mask_kind(s);
    p.dtype = (int32_t)s->dtype;
    p.windowed = s->window > 0;
    p.B = part->B;
    p.A = part->A;
    p.G = part->A / (s->A / s->G);
    p.Sq = s->Sq;
    p.Sk = s->Sk;
    p.D = s->D;
    return p;
}

/* Key j of the call is at position j - shift relative to its first query. */
static struct mdsk_cudnn_call call_of(const struct mdsk_cudnn_problem *p,
                                      const struct mdsk_attention_shape *s)
{
    return (struct mdsk_cudnn_call){.problem = p,
                                    .scale = s->scale,
                                    .shift = (int32_t)s->q_offset,
                                    .left = (float)(s->window - s->q_offset)};
}

/* Set strides and address of tensor `id`, for a part of x.  group: the number of query
 * heads that share a head of x; 1 for tensors of the queries. */
static void set_tensor(struct mdsk_cudnn_problem *p, struct mdsk_cudnn_call *c, int id,
                       const struct mdsk_heads *x, const struct part *part,
                       int64_t group)
{
    int64_t at = part->b * x->batch_stride + part->h / group * x->head_stride;

    p->stride[id - 1][0] = x->batch_stride;
    p->stride[id - 1][1] = x->head_stride;
    p->stride[id - 1][2] = x->token_stride;
    c->data[id - 1] = (uint16_t *)x->data + at;
}

static int64_t round_up_256(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Bytes of an array with one float per query. */
static int64_t column_bytes(const struct mdsk_cudnn_problem *p)
{
    return round_up_256(p->B * p->A * p->Sq * (int64_t)sizeof(float));
}

/* Whether cuDNN can use an array of one float per query where it is: packed, aligned.
 */
static int is_in_place(const float *column, int64_t stride, int64_t Sq)
{
    return (stride == 0 || stride == Sq) && (uintptr_t)column % 16 == 0;
}

static int copy_rows(cudaStream_t stream, void *to, int64_t to_pitch, const void *from,
                     int64_t from_pitch, int64_t width, int64_t rows)
{
    return mdsk_cuda_rc(
        cudaMemcpy2DAsync(to, (size_t)to_pitch, from, (size_t)from_pitch, (size_t)width,
                          (size_t)rows, cudaMemcpyDeviceToDevice, stream));
}

/* ---- forward, block by block ---- */

/* A result in scratch memory, packed; valid until the next call. */
struct scratch_result {
    struct mdsk_heads o;
    float *lse;
};

/* One call of cuDNN.  The result goes to a->o and a->lse, or, unless it is NULL, to
 * *result in scratch memory. */
static int call_forward(cudaStream_t stream, const struct mdsk_attention_fwd *a,
                        struct scratch_result *result)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const int64_t width = s->A * s->D, row = s->Sq * (int64_t)sizeof(float);
    const int64_t o_bytes =
        result ? round_up_256(s->B * s->Sq * width * (int64_t)sizeof(uint16_t)) : 0;
    const struct mdsk_heads packed = {NULL, s->Sq * width, width, s->D};
    const struct mdsk_heads all[] = {a->q, a->k, a->v, result ? packed : a->o};
    const struct part whole = {0, s->B, 0, s->A};
    struct mdsk_cudnn_problem p = problem_of(s, MDSK_CUDNN_FORWARD, &whole);
    struct mdsk_cudnn_call c = call_of(&p, s);
    const struct mdsk_cudnn_graph *plan = NULL;
    int64_t stride = a->lse_stride ? a->lse_stride : s->Sq;
    char *scratch;
    int in_place = !result && is_in_place(a->lse, stride, s->Sq), err;

    for (int id = MDSK_CUDNN_Q; id <= MDSK_CUDNN_O; id++)
        set_tensor(&p, &c, id, &all[id - 1], &whole,
                   id == MDSK_CUDNN_K || id == MDSK_CUDNN_V ? s->A / s->G : 1);
    err = mdsk_cudnn_find(&p, &plan);
    if (err)
        return err;
    scratch = mdsk_cuda_scratch(stream, MDSK_CUDA_ATTEND,
                                o_bytes + column_bytes(&p) + plan->workspace);
    if (!scratch)
        return -ENOMEM;
    if (result) {
        *result = (struct scratch_result){packed, (float *)(scratch + o_bytes)};
        result->o.data = c.data[MDSK_CUDNN_O - 1] = scratch;
    }
    scratch += o_bytes;
    c.data[MDSK_CUDNN_LSE - 1] = in_place ? (void *)a->lse : scratch;
    err = mdsk_cudnn_call(stream, plan, &c, scratch + column_bytes(&p));
    if (err || in_place || result)
        return err;
    return copy_rows(stream, a->lse, stride * (int64_t)sizeof(float), scratch, row, row,
                     s->B * s->A);
}

static struct mdsk_heads heads_from_token(const struct mdsk_heads *h, int64_t token)
{
    struct mdsk_heads at = *h;

    at.data = (uint16_t *)h->data + token * h->token_stride;
    return at;
}

/* The problem of n queries from `at` on and the keys first .. first+Sk-1. */
static struct mdsk_attention_fwd query_block(const struct mdsk_attention_fwd *a,
                                             int64_t at, int64_t n, int64_t first,
                                             int64_t Sk)
{
    struct mdsk_attention_fwd b = *a;

    b.shape.Sq = n;
    b.shape.Sk = Sk;
    b.shape.q_offset = a->shape.q_offset + at - first;
    b.q = heads_from_token(&a->q, at);
    b.o = heads_from_token(&a->o, at);
    b.k = heads_from_token(&a->k, first);
    b.v = heads_from_token(&a->v, first);
    b.lse = a->lse + at;
    b.lse_stride = a->lse_stride ? a->lse_stride : a->shape.Sq;
    return b;
}

/* first has been computed: merge attention of the same queries over other keys, `more`,
 * into its o and lse. */
static int merge_more_keys(cudaStream_t stream, const struct mdsk_attention_fwd *first,
                           const struct mdsk_attention_fwd *more)
{
    const struct mdsk_attention_shape *s = &more->shape;
    struct mdsk_attention_merge merge = {.B = s->B,
                                         .A = s->A,
                                         .Sq = s->Sq,
                                         .D = s->D,
                                         .dtype = s->dtype,
                                         .acc = first->o,
                                         .lse = first->lse,
                                         .lse_stride = first->lse_stride};
    struct scratch_result result;
    int err = call_forward(stream, more, &result);

    if (err)
        return err;
    merge.o2 = result.o;
    merge.lse2 = result.lse;
    return mdsk_cuda_attention_merge_16(stream, &merge);
}

/* n queries from `at` on, in two calls: without a mask over the keys that all of them
 * see, rounded down to a multiple of blocks->keys; then with the causal mask over the
 * rest.  The second call has the same number of keys for every block, because a plan is
 * for one number of keys; keys that no query sees cost nothing. */
static int forward_block(cudaStream_t stream, const struct mdsk_attention_fwd *a,
                         const struct mdsk_attention_blocks *blocks, int64_t at,
                         int64_t n)
{
    const int64_t Sk = a->shape.Sk, first = a->shape.q_offset + at;
    int64_t seen = first < Sk - SHORTEST ? first : Sk - SHORTEST;
    int64_t unmasked = first >= Sk - 1 ? Sk : seen / blocks->keys * blocks->keys;
    int64_t rest = Sk - unmasked, most = blocks->keys + blocks->queries;
    struct mdsk_attention_fwd all_seen = query_block(a, at, n, 0, unmasked);
    struct mdsk_attention_fwd masked =
        query_block(a, at, n, unmasked, rest < most ? rest : most);
    int err;

    if (unmasked == 0)
        return call_forward(stream, &masked, NULL);
    err = call_forward(stream, &all_seen, NULL);
    return err || rest == 0 ? err : merge_more_keys(stream, &all_seen, &masked);
}

int mdsk_cudnn_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const struct mdsk_heads all[] = {a->q, a->k, a->v, a->o};
    const struct mdsk_attention_blocks blocks = mdsk_attention_fwd_blocks(s);
    int err = 0;

    if (!is_supported(s) || !is_aligned(all, 4))
        return -ENOTSUP;
    if (blocks.keys == s->Sk || s->window > 0)
        return call_forward(stream, a, NULL);
    for (int64_t at = 0, n; !err && at < s->Sq; at += n) {
        n = s->Sq - at;
        if (n >= blocks.queries + SHORTEST)
            n = blocks.queries;
        err = forward_block(stream, a, &blocks, at, n);
    }
    return err;
}

/* ---- backward, part by part ---- */

struct backward {
    cudaStream_t stream;
    const struct mdsk_attention_bwd *a;
    enum mdsk_cudnn_pass pass;
    int64_t group; /* query heads that share a key/value head */
    int copies;    /* o, d_o and dq are copied: cuDNN cannot address them in place */
};

/* Scratch memory of a part. */
struct scratch {
    char *sums, *delta, *lse, *o, *d_o, *dq, *workspace;
};

static int64_t bytes_per_head(const struct mdsk_attention_shape *s,
                              enum mdsk_cudnn_pass pass)
{
    return pass == MDSK_CUDNN_REPEATABLE ? 2 * s->Sq * s->Sk : 4 * s->Sq * s->D;
}

/* Divide scratch memory at base for a part; *bytes = its size.  base may be NULL. */
static struct scratch carve_scratch(const struct backward *w,
                                    const struct mdsk_cudnn_problem *p,
                                    int64_t workspace, char *base, int64_t *bytes)
{
    int64_t rows = p->B * p->A * p->Sq * p->D, column = column_bytes(p);
    int64_t sums = w->pass == MDSK_CUDNN_REPEATABLE
                       ? 0
                       : round_up_256(rows * (int64_t)sizeof(float));
    int64_t copy = w->copies ? round_up_256(rows * (int64_t)sizeof(uint16_t)) : 0;
    int64_t at[] = {0,
                    sums,
                    sums + column,
                    sums + 2 * column,
                    sums + 2 * column + copy,
                    sums + 2 * column + 2 * copy,
                    sums + 2 * column + 3 * copy};

    *bytes = at[6] + workspace;
    if (!base)
        return (struct scratch){0};
    return (struct scratch){base + at[0], base + at[1], base + at[2], base + at[3],
                            base + at[4], base + at[5], base + at[6]};
}

/* Copy a part's heads of x (one sequence) to `packed` [A, Sq, D], or back. */
static int copy_heads(const struct backward *w, const struct mdsk_heads *x,
                      const struct part *part, void *packed, int back)
{
    const struct mdsk_attention_shape *s = &w->a->shape;
    const int64_t e = sizeof(uint16_t), row = s->D * e, stride = x->token_stride * e;
    int err = 0;

    for (int64_t i = 0; !err && i < part->A; i++) {
        int64_t at = part->b * x->batch_stride + (part->h + i) * x->head_stride;
        uint16_t *copy = (uint16_t *)packed + i * s->Sq * s->D;
        uint16_t *head = (uint16_t *)x->data + at;

        err = back ? copy_rows(w->stream, head, stride, copy, row, row, s->Sq)
                   : copy_rows(w->stream, copy, row, head, stride, row, s->Sq);
    }
    return err;
}

/* *out = lse of a part: in place if cuDNN can use it there, else a packed copy. */
static int lse_for_cudnn(const struct backward *w, const struct part *part,
                         const struct scratch *r, void **out)
{
    const struct mdsk_attention_shape *s = &w->a->shape;
    const int64_t e = sizeof(float);
    int64_t stride = w->a->lse_stride ? w->a->lse_stride : s->Sq;
    const float *lse = w->a->lse + (part->b * s->A + part->h) * stride;

    if (is_in_place(lse, stride, s->Sq)) {
        *out = (void *)lse;
        return 0;
    }
    *out = r->lse;
    return copy_rows(w->stream, r->lse, s->Sq * e, lse, stride * e, s->Sq * e,
                     part->B * part->A);
}

/* Strides and addresses of the part's tensors.  Those to be copied get the strides of
 * their copies; their addresses follow in prepare_scratch. */
static void set_all_tensors(const struct backward *w, const struct part *part,
                            struct mdsk_cudnn_problem *p, struct mdsk_cudnn_call *c)
{
    const struct mdsk_attention_bwd *a = w->a;
    const int64_t Sq = a->shape.Sq, D = a->shape.D;
    const struct mdsk_heads copy = {a->o.data, part->A * Sq * D, D, Sq * D};

    set_tensor(p, c, MDSK_CUDNN_Q, &a->q, part, 1);
    set_tensor(p, c, MDSK_CUDNN_K, &a->k, part, w->group);
    set_tensor(p, c, MDSK_CUDNN_V, &a->v, part, w->group);
    set_tensor(p, c, MDSK_CUDNN_O, w->copies ? &copy : &a->o, part, 1);
    set_tensor(p, c, MDSK_CUDNN_D_O, w->copies ? &copy : &a->d_o, part, 1);
    set_tensor(p, c, MDSK_CUDNN_DQ, w->copies ? &copy : &a->dq, part, 1);
    set_tensor(p, c, MDSK_CUDNN_DK, &a->dk, part, w->group);
    set_tensor(p, c, MDSK_CUDNN_DV, &a->dv, part, w->group);
}

/* Allocate scratch memory for a part, and copy what cuDNN cannot read in place. */
static int prepare_scratch(const struct backward *w, const struct part *part,
                           const struct mdsk_cudnn_graph *plan,
                           struct mdsk_cudnn_call *c, struct scratch *r)
{
    int64_t bytes;
    char *base;
    int err = 0;

    carve_scratch(w, c->problem, plan->workspace, NULL, &bytes);
    base = mdsk_cuda_scratch(w->stream, MDSK_CUDA_ATTEND, bytes);
    if (!base)
        return -ENOMEM;
    *r = carve_scratch(w, c->problem, plan->workspace, base, &bytes);
    c->data[MDSK_CUDNN_DELTA - 1] = r->delta;
    c->data[MDSK_CUDNN_DQ_SUM - 1] = r->sums;
    if (w->copies) {
        c->data[MDSK_CUDNN_O - 1] = r->o;
        c->data[MDSK_CUDNN_D_O - 1] = r->d_o;
        c->data[MDSK_CUDNN_DQ - 1] = r->dq;
        err = copy_heads(w, &w->a->o, part, r->o, 0);
        if (!err)
            err = copy_heads(w, &w->a->d_o, part, r->d_o, 0);
    }
    return err ? err : lse_for_cudnn(w, part, r, &c->data[MDSK_CUDNN_LSE - 1]);
}

static int backward_part(const struct backward *w, const struct part *part)
{
    const struct mdsk_attention_shape *s = &w->a->shape;
    struct mdsk_cudnn_problem p = problem_of(s, w->pass, part);
    struct mdsk_cudnn_call c = call_of(&p, s);
    const struct mdsk_cudnn_graph *plan = NULL;
    struct scratch r;
    int err;

    set_all_tensors(w, part, &p, &c);
    err = mdsk_cudnn_find(&p, &plan);
    if (!err)
        err = prepare_scratch(w, part, plan, &c, &r);
    if (!err)
        err = mdsk_cudnn_call(w->stream, plan, &c, r.workspace);
    return err || !w->copies ? err : copy_heads(w, &w->a->dq, part, r.dq, 1);
}

int mdsk_cudnn_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    const struct mdsk_heads all[] = {a->q,   a->k,  a->v,  a->o,
                                     a->d_o, a->dq, a->dk, a->dv};
    struct backward w = {.stream = stream, .a = a, .group = s->A / s->G};
    struct mdsk_attention_part first;
    struct part part = {0};
    int err = 0;

    if (!is_supported(s) || !is_aligned(all, 8))
        return -ENOTSUP;
    w.pass = mdsk_cuda_is_repeatable() ? MDSK_CUDNN_REPEATABLE : MDSK_CUDNN_BACKWARD;
    first = mdsk_attention_bwd_part(a, bytes_per_head(s, w.pass));
    part.B = first.B;
    part.A = first.A;
    w.copies = first.copies;
    if ((w.copies && part.A * s->Sq * s->D > INT32_MAX / (int64_t)sizeof(uint16_t)) ||
        (w.pass == MDSK_CUDNN_REPEATABLE &&
         part.B * part.A * bytes_per_head(s, MDSK_CUDNN_REPEATABLE) >
             MDSK_ATTENTION_SCRATCH))
        return -ENOTSUP;
    for (; !err && part.b < s->B; part.b += part.B)
        for (part.h = 0; !err && part.h < s->A; part.h += part.A)
            err = backward_part(&w, &part);
    return err;
}
