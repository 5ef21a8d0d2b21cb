/* SPDX-License-Identifier: BSD-3-Clause */
/* The cuda backend as the tests see it: its arguments are in host memory.  Each call's
 * arrays are copied to the device, where they lie between margins that nobody may
 * write, and back; what the contract calls an input must come back as it was. */
#include "tests/kernels/staged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda.h"

enum { MARGIN = 256, MARK = 0xa5, MOST = 16 };

/* An array of the current call.  On the device it begins as far from a multiple of 16
 * as it does here. */
struct array {
    char *host;
    int64_t bytes;
    int64_t begin, size; /* of the block on the device: where it begins, all of it */
    char *block;
    int written;
};

static struct array arrays[MOST];
static int n_arrays;

/* Fail, and forget the call. */
static void refuse(const char *why)
{
    n_arrays = 0;
    fail_msg("%s", why);
}

static void check(cudaError_t err)
{
    if (err != cudaSuccess)
        refuse(cudaGetErrorString(err));
}

/* One that is moved already, such as an array that is input and output. */
static void *find(const char *host, int64_t bytes, int written)
{
    for (int i = 0; i < n_arrays; i++) {
        struct array *x = &arrays[i];

        if (host + bytes <= x->host || host >= x->host + x->bytes)
            continue;
        if (host < x->host || host + bytes > x->host + x->bytes)
            refuse("arrays of a call overlap in part");
        x->written |= written;
        return x->block + x->begin + (host - x->host);
    }
    return NULL;
}

static void *move(const void *host, int64_t bytes, int written)
{
    struct array x = {.host = (char *)(uintptr_t)host,
                      .bytes = bytes,
                      .begin = MARGIN + (int64_t)((uintptr_t)host % 16),
                      .written = written};
    void *there;

    if (!host || bytes < 1)
        return NULL;
    there = find(host, bytes, written);
    if (there)
        return there;
    assert_true(n_arrays < MOST);
    x.size = x.begin + bytes + MARGIN;
    check(cudaMalloc((void **)&x.block, (size_t)x.size));
    check(cudaMemset(x.block, MARK, (size_t)x.size));
    check(cudaMemcpy(x.block + x.begin, host, (size_t)bytes, cudaMemcpyHostToDevice));
    arrays[n_arrays++] = x;
    return x.block + x.begin;
}

static void *in(const void *host, enum mdsk_dtype t, int64_t n)
{
    return move(host, n * (int64_t)mdsk_dtype_size(t), 0);
}

static void *out(void *host, enum mdsk_dtype t, int64_t n)
{
    return move(host, n * (int64_t)mdsk_dtype_size(t), 1);
}

static void bring_back(const struct array *x)
{
    char *copy = malloc((size_t)x->size);

    assert_non_null(copy);
    check(cudaMemcpy(copy, x->block, (size_t)x->size, cudaMemcpyDeviceToHost));
    for (int64_t i = 0; i < x->size; i++)
        if ((i < x->begin || i >= x->begin + x->bytes) && (uint8_t)copy[i] != MARK)
            fail_msg("written outside an array of %lld bytes, at %lld",
                     (long long)x->bytes, (long long)(i - x->begin));
    if (!x->written && memcmp(copy + x->begin, x->host, (size_t)x->bytes) != 0)
        fail_msg("an input of %lld bytes was written", (long long)x->bytes);
    if (x->written)
        memcpy(x->host, copy + x->begin, (size_t)x->bytes);
    free(copy);
    check(cudaFree(x->block));
}

/* After the call. */
static int done(int err)
{
    int n = n_arrays;

    n_arrays = 0;
    if (err)
        fail_msg("the call failed: %s", mdsk_cuda_error_text());
    check(cudaDeviceSynchronize());
    for (int i = 0; i < n; i++)
        bring_back(&arrays[i]);
    return err;
}

/* Elements from the first to the last of an array of heads. */
static int64_t extent(const struct mdsk_heads *h, int64_t B, int64_t S, int64_t A,
                      int64_t D)
{
    return (B - 1) * h->batch_stride + (S - 1) * h->token_stride +
           (A - 1) * h->head_stride + D;
}

static int64_t stats_extent(int64_t rows, int64_t S, int64_t stride)
{
    return (rows - 1) * (stride ? stride : S) + S;
}

static int linear_fwd(void *stream, const struct mdsk_linear_fwd *a)
{
    struct mdsk_linear_fwd b = *a;

    b.x = in(a->x, a->dtype, a->R * a->in);
    b.w = in(a->w, a->dtype, a->in * a->out);
    b.b = in(a->b, a->dtype, a->out);
    b.y = out(a->y, a->dtype, a->R * a->out);
    b.gelu = out(a->gelu, a->dtype, a->R * a->out);
    return done(mdsk_cuda()->linear_fwd(stream, &b));
}

static int linear_bwd_input(void *stream, const struct mdsk_linear_bwd_input *a)
{
    struct mdsk_linear_bwd_input b = *a;

    b.dy = in(a->dy, a->dtype, a->R * a->out);
    b.w = in(a->w, a->dtype, a->in * a->out);
    b.u = in(a->u, a->dtype, a->R * a->in);
    b.dx = out(a->dx, a->dtype, a->R * a->in);
    return done(mdsk_cuda()->linear_bwd_input(stream, &b));
}

static int linear_bwd_weight(void *stream, const struct mdsk_linear_bwd_weight *a)
{
    struct mdsk_linear_bwd_weight b = *a;

    b.x = in(a->x, a->dtype, a->R * a->in);
    b.dy = in(a->dy, a->dtype, a->R * a->out);
    b.dw = out(a->dw, MDSK_F32, a->in * a->out);
    b.db = out(a->db, MDSK_F32, a->out);
    return done(mdsk_cuda()->linear_bwd_weight(stream, &b));
}

static int next_token(void *stream, const struct mdsk_next_token *a)
{
    struct mdsk_next_token b = *a;

    b.logits = in(a->logits, a->dtype, a->B * a->stride);
    b.place = out(a->place, MDSK_I32, 1);
    b.start = out(a->start, MDSK_I32, a->B);
    b.token = out(a->token, MDSK_I32, a->B);
    b.made = out(a->made, MDSK_I32, MDSK_TOKENS_AHEAD * a->B);
    return done(mdsk_cuda()->next_token(stream, &b));
}

static int fp8_cast(void *stream, const struct mdsk_fp8_cast *a)
{
    struct mdsk_fp8_cast b = *a;

    b.x = in(a->x, a->dtype, mdsk_fp8_cast_inputs(a));
    b.rows = out(a->rows, a->to, a->R * mdsk_fp8_ld(a->C));
    b.cols = out(a->cols, a->to, a->C * mdsk_fp8_ld(a->R));
    b.scale = out(a->scale, MDSK_F32, 1);
    b.amax = move(a->amax, sizeof *a->amax, !a->amax_known);
    b.sum = out(a->sum, MDSK_F32, a->C);
    return done(mdsk_cuda()->fp8_cast(stream, &b));
}

static int fp8_gemm(void *stream, const struct mdsk_fp8_gemm *a)
{
    struct mdsk_fp8_gemm b = *a;

    b.a.code = in(a->a.code, a->a.type, a->M * mdsk_fp8_ld(a->K));
    b.a.scale = in(a->a.scale, MDSK_F32, 1);
    b.b.code = in(a->b.code, a->b.type, a->N * mdsk_fp8_ld(a->K));
    b.b.scale = in(a->b.scale, MDSK_F32, 1);
    b.bias = in(a->bias, a->dtype, a->N);
    b.y = out(a->y, a->dtype, a->M * a->N);
    return done(mdsk_cuda()->fp8_gemm(stream, &b));
}

static int norm_fwd(void *stream, const struct mdsk_norm_fwd *a)
{
    struct mdsk_norm_fwd b = *a;

    b.x = in(a->x, a->dtype, a->R * a->H);
    b.r = in(a->r, a->dtype, a->R * a->H);
    b.sum = out(a->sum, a->dtype, a->R * a->H);
    b.gamma = in(a->gamma, a->dtype, a->H);
    b.beta = in(a->beta, a->dtype, a->H);
    b.y = out(a->y, a->dtype, a->R * a->H);
    b.mean = out(a->mean, MDSK_F32, a->R);
    b.rstd = out(a->rstd, MDSK_F32, a->R);
    b.amax = move(a->amax, sizeof *a->amax, 1);
    b.part.totals = in(a->part.totals, MDSK_F32, a->R);
    b.part.sums = out(a->part.sums, MDSK_F32, a->R);
    return done(mdsk_cuda()->norm_fwd(stream, &b));
}

static int norm_bwd(void *stream, const struct mdsk_norm_bwd *a)
{
    struct mdsk_norm_bwd b = *a;

    b.x = in(a->x, a->dtype, a->R * a->H);
    b.gamma = in(a->gamma, a->dtype, a->H);
    b.mean = in(a->mean, MDSK_F32, a->R);
    b.rstd = in(a->rstd, MDSK_F32, a->R);
    b.dy = in(a->dy, a->dtype, a->R * a->H);
    b.dx = out(a->dx, a->dtype, a->R * a->H);
    b.d = in(a->d, a->dtype, a->R * a->H);
    b.dgamma = out(a->dgamma, MDSK_F32, a->H);
    b.dbeta = out(a->dbeta, MDSK_F32, a->H);
    b.part.totals = in(a->part.totals, MDSK_F32, 2 * a->R);
    b.part.sums = out(a->part.sums, MDSK_F32, 2 * a->R);
    return done(mdsk_cuda()->norm_bwd(stream, &b));
}

static struct mdsk_heads queries(const struct mdsk_attention_shape *s,
                                 struct mdsk_heads h, int written)
{
    int64_t n = extent(&h, s->B, s->Sq, s->A, s->D);

    h.data = move(h.data, n * (int64_t)mdsk_dtype_size(s->dtype), written);
    return h;
}

static struct mdsk_heads keys(const struct mdsk_attention_shape *s, struct mdsk_heads h,
                              int written)
{
    int64_t n = extent(&h, s->B, s->Sk, s->G, s->D);

    h.data = move(h.data, n * (int64_t)mdsk_dtype_size(s->dtype), written);
    return h;
}

static const int32_t *starts(const struct mdsk_attention_shape *s)
{
    return in(s->start, MDSK_I32, (s->first_query + s->Sq) * s->B);
}

static int attention_fwd(void *stream, const struct mdsk_attention_fwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_attention_fwd b = *a;

    b.shape.start = starts(s);
    b.q = queries(s, a->q, 0);
    b.k = keys(s, a->k, 0);
    b.v = keys(s, a->v, 0);
    b.o = queries(s, a->o, 1);
    b.lse = out(a->lse, MDSK_F32, stats_extent(s->B * s->A, s->Sq, a->lse_stride));
    return done(mdsk_cuda()->attention_fwd(stream, &b));
}

static int attention_bwd(void *stream, const struct mdsk_attention_bwd *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_attention_bwd b = *a;

    b.shape.start = starts(s);
    b.q = queries(s, a->q, 0);
    b.k = keys(s, a->k, 0);
    b.v = keys(s, a->v, 0);
    b.o = queries(s, a->o, 0);
    b.d_o = queries(s, a->d_o, 0);
    b.dq = queries(s, a->dq, 1);
    b.dk = keys(s, a->dk, 1);
    b.dv = keys(s, a->dv, 1);
    b.lse = in(a->lse, MDSK_F32, stats_extent(s->B * s->A, s->Sq, a->lse_stride));
    b.delta = out(a->delta, MDSK_F32, s->B * s->A * s->Sq);
    return done(mdsk_cuda()->attention_bwd(stream, &b));
}

static int attention_most(void *stream, const struct mdsk_attention_most *a)
{
    struct mdsk_attention_most b = *a;

    b.lse = in(a->lse, MDSK_F32, stats_extent(a->B * a->A, a->Sq, a->lse_stride));
    b.most = out(a->most, MDSK_F32, a->A);
    return done(mdsk_cuda()->attention_most(stream, &b));
}

/* Keys and values lie side by side, in the cache and in the rows, as do queries.  What
 * is read on the device is not told otherwise. */
static int attention_cached(void *stream, const struct mdsk_attention_cached *a)
{
    struct mdsk_attention_cached b = *a;
    const struct mdsk_attention_shape *s = &a->shape;
    int64_t size = (int64_t)mdsk_dtype_size(s->dtype);
    int64_t row = extent(&a->new_v, s->B, 1, s->G, s->D) * size +
                  ((char *)a->new_v.data - (char *)a->q.data);
    int64_t cache = extent(&a->v, s->B, a->tokens, s->G, s->D) * size +
                    ((char *)a->v.data - (char *)a->k.data);

    b.q.data = move(a->q.data, row, 0);
    b.new_k.data = (char *)b.q.data + ((char *)a->new_k.data - (char *)a->q.data);
    b.new_v.data = (char *)b.q.data + ((char *)a->new_v.data - (char *)a->q.data);
    b.k.data = move(a->k.data, cache, 1);
    b.v.data = (char *)b.k.data + ((char *)a->v.data - (char *)a->k.data);
    b.o = queries(s, a->o, 1);
    b.place = in(a->place, MDSK_I32, 1);
    if (a->place) {
        b.shape.q_offset = b.shape.first_query = 0;
        b.shape.Sk = 1;
    }
    return done(mdsk_cuda()->attention_cached(stream, &b));
}

static int attention_merge(void *stream, const struct mdsk_attention_merge *a)
{
    struct mdsk_attention_merge b = *a;

    b.acc.data = out(a->acc.data, MDSK_F32, extent(&a->acc, a->B, a->Sq, a->A, a->D));
    b.o2.data = in(a->o2.data, a->dtype, extent(&a->o2, a->B, a->Sq, a->A, a->D));
    b.lse = out(a->lse, MDSK_F32, stats_extent(a->B * a->A, a->Sq, a->lse_stride));
    b.lse2 = in(a->lse2, MDSK_F32, stats_extent(a->B * a->A, a->Sq, a->lse2_stride));
    return done(mdsk_cuda()->attention_merge(stream, &b));
}

static int rope(void *stream, const struct mdsk_rope *a)
{
    struct mdsk_rope b = *a;

    b.start = in(a->start, MDSK_I32, a->B * a->S);
    b.x.data = out(a->x.data, a->dtype, extent(&a->x, a->B, a->S, a->A, a->D));
    return done(mdsk_cuda()->rope(stream, &b));
}

static int activation_fwd(void *stream, const struct mdsk_activation_fwd *a)
{
    int64_t n = a->R * a->F, wide = mdsk_activation_inputs(a->kind, a->R, a->F);
    struct mdsk_activation_fwd b = *a;

    b.x = in(a->x, a->dtype, wide);
    b.y = out(a->y, a->dtype, n);
    return done(mdsk_cuda()->activation_fwd(stream, &b));
}

static int activation_bwd(void *stream, const struct mdsk_activation_bwd *a)
{
    int64_t n = a->R * a->F, wide = mdsk_activation_inputs(a->kind, a->R, a->F);
    struct mdsk_activation_bwd b = *a;

    b.x = in(a->x, a->dtype, wide);
    b.dy = in(a->dy, a->dtype, n);
    b.dx = out(a->dx, a->dtype, wide);
    b.amax = move(a->amax, sizeof *a->amax, 1);
    return done(mdsk_cuda()->activation_bwd(stream, &b));
}

static int embedding_fwd(void *stream, const struct mdsk_embedding_fwd *a)
{
    struct mdsk_embedding_fwd b = *a;

    b.token = in(a->token, MDSK_I32, a->B * a->S);
    b.start = in(a->start, MDSK_I32, a->B * a->S);
    b.word = in(a->word, a->dtype, a->words * a->H);
    b.position = in(a->position, a->dtype, (a->first_token + a->S) * a->H);
    b.y = out(a->y, a->dtype, a->B * a->S * a->H);
    return done(mdsk_cuda()->embedding_fwd(stream, &b));
}

static int embedding_bwd(void *stream, const struct mdsk_embedding_bwd *a)
{
    struct mdsk_embedding_bwd b = *a;

    b.token = in(a->token, MDSK_I32, a->B * a->S);
    b.start = in(a->start, MDSK_I32, a->B * a->S);
    b.dy = in(a->dy, a->dtype, a->B * a->S * a->H);
    b.dword = out(a->dword, MDSK_F32, a->words * a->H);
    b.dposition = out(a->dposition, MDSK_F32, (a->first_token + a->S) * a->H);
    return done(mdsk_cuda()->embedding_bwd(stream, &b));
}

static struct mdsk_kinds kinds_in(const struct mdsk_kinds *k, int64_t R)
{
    return (struct mdsk_kinds){
        .n = k->n, .of = move(k->of, R, 0), .weight = in(k->weight, MDSK_F32, k->n)};
}

static int xent_stats(void *stream, const struct mdsk_xent_stats *a)
{
    struct mdsk_xent_stats b = *a;

    b.logits = move(
        a->logits, ((a->R - 1) * a->ld + a->words) * (int64_t)mdsk_dtype_size(a->dtype),
        a->gradient);
    b.target = in(a->target, MDSK_I32, a->R);
    b.max = out(a->max, MDSK_F32, a->R);
    b.sum = out(a->sum, MDSK_F32, a->R);
    b.target_logit = out(a->target_logit, MDSK_F32, a->R);
    b.kinds = kinds_in(&a->kinds, a->R);
    return done(mdsk_cuda()->xent_stats(stream, &b));
}

static int xent_loss(void *stream, const struct mdsk_xent_loss *a)
{
    int64_t n = (a->parts - 1) * a->part_stride + a->R;
    int64_t kinds = a->kinds.n > 1 ? a->kinds.n : 1;
    struct mdsk_xent_loss b = *a;

    b.target = in(a->target, MDSK_I32, a->R);
    b.max = in(a->max, MDSK_F32, n);
    b.sum = in(a->sum, MDSK_F32, n);
    b.target_logit = in(a->target_logit, MDSK_F32, n);
    b.lse = out(a->lse, MDSK_F32, a->R);
    b.loss_sum = out(a->loss_sum, MDSK_F64, kinds);
    b.count = out(a->count, MDSK_F64, kinds);
    b.kinds = kinds_in(&a->kinds, a->R);
    b.loss = a->loss ? out(a->loss, MDSK_F64, a->R) : NULL;
    return done(mdsk_cuda()->xent_loss(stream, &b));
}

static int xent_bwd(void *stream, const struct mdsk_xent_bwd *a)
{
    struct mdsk_xent_bwd b = *a;

    b.logits = out(a->logits, a->dtype, (a->R - 1) * a->ld + a->words);
    b.target = in(a->target, MDSK_I32, a->R);
    b.lse = in(a->lse, MDSK_F32, a->R);
    b.kinds = kinds_in(&a->kinds, a->R);
    return done(mdsk_cuda()->xent_bwd(stream, &b));
}

static int dropout(void *stream, const struct mdsk_dropout *a)
{
    int64_t n = a->rows.B * a->rows.S * a->H;
    struct mdsk_dropout b = *a;

    b.x = in(a->x, a->dtype, n);
    b.y = out(a->y, a->dtype, n);
    return done(mdsk_cuda()->dropout(stream, &b));
}

static int copy_rows(void *stream, const struct mdsk_copy_rows *a)
{
    struct mdsk_copy_rows b = *a;

    b.x = in(a->x, a->dtype, (a->R - 1) * a->ldx + a->C);
    b.y = out(a->y, a->dtype, (a->R - 1) * a->ldy + a->C);
    return done(mdsk_cuda()->copy_rows(stream, &b));
}

static int cast(void *stream, const struct mdsk_cast *a)
{
    struct mdsk_cast b = *a;

    b.x = in(a->x, a->from, a->n);
    b.y = out(a->y, a->to, a->n);
    return done(mdsk_cuda()->cast(stream, &b));
}

static int add(void *stream, const struct mdsk_add *a)
{
    struct mdsk_add b = *a;

    b.y = out(a->y, a->dtype, a->n);
    b.x = in(a->x, a->dtype, a->n);
    b.z = in(a->z, a->dtype, a->n);
    return done(mdsk_cuda()->add(stream, &b));
}

static int sum_squares(void *stream, const struct mdsk_sum_squares *a)
{
    struct mdsk_sum_squares b = *a;

    b.x = in(a->x, MDSK_F32, a->n);
    b.sum = out(a->sum, MDSK_F64, 1);
    return done(mdsk_cuda()->sum_squares(stream, &b));
}

static int adamw(void *stream, const struct mdsk_adamw *a)
{
    struct mdsk_adamw b = *a;

    b.master = out(a->master, MDSK_F32, a->n);
    b.m = out(a->m, MDSK_F32, a->n);
    b.v = out(a->v, MDSK_F32, a->n);
    b.grad = in(a->grad, MDSK_F32, a->n);
    b.weight = out(a->weight, a->dtype, a->n);
    return done(mdsk_cuda()->adamw(stream, &b));
}

static int muon_momentum(void *stream, const struct mdsk_muon_momentum *a)
{
    struct mdsk_muon_momentum b = *a;

    b.m = out(a->m, MDSK_F32, a->n);
    b.grad = in(a->grad, MDSK_F32, a->n);
    b.d = out(a->d, MDSK_F32, a->n);
    return done(mdsk_cuda()->muon_momentum(stream, &b));
}

static int axpby(void *stream, const struct mdsk_axpby *a)
{
    struct mdsk_axpby b = *a;

    b.x = in(a->x, a->from, a->n);
    b.y = out(a->y, a->to, a->n);
    b.squares = in(a->squares, MDSK_F64, 1);
    return done(mdsk_cuda()->axpby(stream, &b));
}

static int muon_product(void *stream, const struct mdsk_muon_product *a)
{
    struct mdsk_muon_product b = *a;

    b.x = in(a->x, a->dtype, a->batch * a->m * a->k);
    b.w = in(a->w, a->dtype, a->batch * a->k * a->n);
    b.z = in(a->z, a->dtype, a->batch * a->m * a->n);
    b.y = out(a->y, a->dtype, a->batch * a->m * a->n);
    return done(mdsk_cuda()->muon_product(stream, &b));
}

static int muon_step(void *stream, const struct mdsk_muon_step *a)
{
    struct mdsk_muon_step b = *a;

    b.master = out(a->master, MDSK_F32, a->n);
    b.o = in(a->o, a->o_dtype, a->n);
    b.weight = out(a->weight, a->dtype, a->n);
    return done(mdsk_cuda()->muon_step(stream, &b));
}

/* ---- experts ---- */

static int32_t *in_i32(const int32_t *host, int64_t n)
{
    return move(host, n * (int64_t)sizeof *host, 0);
}

static int32_t *out_i32(int32_t *host, int64_t n)
{
    return move(host, n * (int64_t)sizeof *host, 1);
}

static int route(void *stream, const struct mdsk_route *a)
{
    struct mdsk_route b = *a;

    b.x = in(a->x, a->dtype, a->R * a->H);
    b.w = in(a->w, a->dtype, a->E * a->H);
    b.scores = out(a->scores, MDSK_F32, a->R * (a->E + 1));
    b.weight = out(a->weight, MDSK_F32, a->R * a->k);
    b.choice = out_i32(a->choice, a->R * a->k);
    b.bias = in(a->bias, MDSK_F32, a->E);
    b.unbiased = out_i32(a->unbiased, a->R * a->k);
    return done(mdsk_cuda()->route(stream, &b));
}

static int route_sort(void *stream, const struct mdsk_route_sort *a)
{
    struct mdsk_route_sort b = *a;

    b.choice = in_i32(a->choice, a->R * a->k);
    b.first = out_i32(a->first, a->E + 1);
    b.to = out_i32(a->to, a->R * a->k);
    b.from = out_i32(a->from, a->R * a->k);
    return done(mdsk_cuda()->route_sort(stream, &b));
}

static int route_load(void *stream, const struct mdsk_route_load *a)
{
    struct mdsk_route_load b = *a;

    b.choice = in_i32(a->choice, a->R * a->k);
    b.load = out(a->load, MDSK_F32, a->groups * a->E);
    return done(mdsk_cuda()->route_load(stream, &b));
}

static int route_losses(void *stream, const struct mdsk_route_losses *a)
{
    struct mdsk_route_losses b = *a;

    b.scores = in(a->scores, MDSK_F32, a->R * (a->E + 1));
    b.load = in(a->load, MDSK_F32, a->groups * a->E);
    b.sum = out(a->sum, MDSK_F64, 2);
    return done(mdsk_cuda()->route_losses(stream, &b));
}

static int route_bwd(void *stream, const struct mdsk_route_bwd *a)
{
    struct mdsk_route_bwd b = *a;

    b.x = in(a->x, a->dtype, a->R * a->H);
    b.w = in(a->w, a->dtype, a->E * a->H);
    b.scores = in(a->scores, MDSK_F32, a->R * (a->E + 1));
    b.weight = in(a->weight, MDSK_F32, a->R * a->k);
    b.dweight = in(a->dweight, MDSK_F32, a->R * a->k);
    b.load = in(a->load, MDSK_F32, a->groups * a->E);
    b.choice = in_i32(a->choice, a->R * a->k);
    b.dx = out(a->dx, a->dtype, a->R * a->H);
    b.dlogits = out(a->dlogits, MDSK_F32, a->R * a->E);
    b.dw = out(a->dw, MDSK_F32, a->E * a->H);
    return done(mdsk_cuda()->route_bwd(stream, &b));
}

static int dispatch(void *stream, const struct mdsk_dispatch *a)
{
    struct mdsk_dispatch b = *a;

    b.from = in_i32(a->from, a->R * a->k);
    b.x = in(a->x, a->dtype, a->R * a->H);
    b.y = out(a->y, a->dtype, a->R * a->k * a->H);
    return done(mdsk_cuda()->dispatch(stream, &b));
}

static int combine(void *stream, const struct mdsk_combine *a)
{
    struct mdsk_combine b = *a;

    b.to = in_i32(a->to, a->R * a->k);
    b.x = in(a->x, a->dtype, a->R * a->k * a->H);
    b.y = out(a->y, a->dtype, a->R * a->H);
    return done(mdsk_cuda()->combine(stream, &b));
}

static int weigh(void *stream, const struct mdsk_weigh *a)
{
    struct mdsk_weigh b = *a;

    b.from = in_i32(a->from, a->R * a->k);
    b.weight = in(a->weight, MDSK_F32, a->R * a->k);
    b.x = in(a->x, a->dtype, mdsk_activation_inputs(a->kind, a->R * a->k, a->F));
    b.y = out(a->y, a->dtype, a->R * a->k * a->F);
    return done(mdsk_cuda()->weigh(stream, &b));
}

static int weigh_bwd(void *stream, const struct mdsk_weigh_bwd *a)
{
    struct mdsk_weigh_bwd b = *a;

    b.from = in_i32(a->from, a->R * a->k);
    b.weight = in(a->weight, MDSK_F32, a->R * a->k);
    b.x = in(a->x, a->dtype, mdsk_activation_inputs(a->kind, a->R * a->k, a->F));
    b.dy = in(a->dy, a->dtype, a->R * a->k * a->F);
    b.dx = out(a->dx, a->dtype, mdsk_activation_inputs(a->kind, a->R * a->k, a->F));
    b.dweight = out(a->dweight, MDSK_F32, a->R * a->k);
    return done(mdsk_cuda()->weigh_bwd(stream, &b));
}

static int experts_fwd(void *stream, const struct mdsk_experts_fwd *a)
{
    struct mdsk_experts_fwd b = *a;

    b.w = in(a->w, a->dtype, (a->E - 1) * a->step + a->in * a->out);
    b.first = in_i32(a->first, a->E + 1);
    b.x = in(a->x, a->dtype, a->rows * a->in);
    b.y = out(a->y, a->dtype, a->rows * a->out);
    return done(mdsk_cuda()->experts_fwd(stream, &b));
}

static int experts_bwd_input(void *stream, const struct mdsk_experts_bwd_input *a)
{
    struct mdsk_experts_bwd_input b = *a;

    b.w = in(a->w, a->dtype, (a->E - 1) * a->step + a->in * a->out);
    b.first = in_i32(a->first, a->E + 1);
    b.dy = in(a->dy, a->dtype, a->rows * a->out);
    b.dx = out(a->dx, a->dtype, a->rows * a->in);
    return done(mdsk_cuda()->experts_bwd_input(stream, &b));
}

static int experts_bwd_weight(void *stream, const struct mdsk_experts_bwd_weight *a)
{
    struct mdsk_experts_bwd_weight b = *a;

    b.dw = out(a->dw, MDSK_F32, (a->E - 1) * a->step + a->in * a->out);
    b.first = in_i32(a->first, a->E + 1);
    b.x = in(a->x, a->dtype, a->rows * a->in);
    b.dy = in(a->dy, a->dtype, a->rows * a->out);
    return done(mdsk_cuda()->experts_bwd_weight(stream, &b));
}

static const struct mdsk_table staged = {
    .name = "cuda",
    .dtypes = 1u << MDSK_F32 | 1u << MDSK_BF16 | 1u << MDSK_F16,
    .linear_fwd = linear_fwd,
    .linear_bwd_input = linear_bwd_input,
    .linear_bwd_weight = linear_bwd_weight,
    .fp8_cast = fp8_cast,
    .fp8_gemm = fp8_gemm,
    .norm_fwd = norm_fwd,
    .norm_bwd = norm_bwd,
    .attention_fwd = attention_fwd,
    .attention_bwd = attention_bwd,
    .attention_cached = attention_cached,
    .attention_merge = attention_merge,
    .attention_most = attention_most,
    .rope = rope,
    .activation_fwd = activation_fwd,
    .activation_bwd = activation_bwd,
    .embedding_fwd = embedding_fwd,
    .embedding_bwd = embedding_bwd,
    .next_token = next_token,
    .xent_stats = xent_stats,
    .xent_loss = xent_loss,
    .xent_bwd = xent_bwd,
    .dropout = dropout,
    .copy_rows = copy_rows,
    .cast = cast,
    .add = add,
    .sum_squares = sum_squares,
    .adamw = adamw,
    .route = route,
    .route_sort = route_sort,
    .route_load = route_load,
    .route_losses = route_losses,
    .route_bwd = route_bwd,
    .dispatch = dispatch,
    .combine = combine,
    .weigh = weigh,
    .weigh_bwd = weigh_bwd,
    .experts_fwd = experts_fwd,
    .experts_bwd_input = experts_bwd_input,
    .experts_bwd_weight = experts_bwd_weight,
    .muon_momentum = muon_momentum,
    .axpby = axpby,
    .muon_product = muon_product,
    .muon_step = muon_step,
};

const struct mdsk_table *staged_cuda(void)
{
    return &staged;
}
