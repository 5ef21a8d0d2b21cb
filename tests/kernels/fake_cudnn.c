/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/kernels/fake_cudnn.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cuda/attention.h"
#include "kernels/half.h"

enum { WORKSPACE = 1000 };

struct fake_cudnn fake;

void fake_cudnn_reset(void)
{
    free(fake.scratch);
    free(fake.window);
    fake = (struct fake_cudnn){.computes = 1, .capability = 90};
}

static struct mdsk_cudnn_graph graph = {.workspace = WORKSPACE};

int mdsk_cudnn_is_usable(void)
{
    return 1;
}

int mdsk_cuda_capability(void)
{
    return fake.capability;
}

int mdsk_cuda_is_repeatable(void)
{
    return fake.repeatable;
}

int mdsk_cuda_rc(cudaError_t code)
{
    return code == cudaSuccess ? 0 : -EIO;
}

/* A new block at each call: what the last one held is lost, as cuda.h allows. */
void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes)
{
    (void)stream;
    if (use == MDSK_CUDA_WINDOW) {
        free(fake.window);
        fake.window = malloc((size_t)bytes);
        if (bytes > fake.most_window)
            fake.most_window = bytes;
        assert_non_null(fake.window);
        return fake.window;
    }
    assert_int_equal(use, MDSK_CUDA_ATTEND);
    free(fake.scratch);
    fake.scratch = aligned_alloc(256, (size_t)(bytes + 255) / 256 * 256);
    fake.scratch_bytes = bytes;
    if (bytes > fake.most_scratch)
        fake.most_scratch = bytes;
    assert_non_null(fake.scratch);
    if (fake.computes)
        memset(fake.scratch, 0xff, (size_t)bytes);
    return fake.scratch;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t width, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)stream;
    assert_int_equal(kind, cudaMemcpyDeviceToDevice);
    assert_true(width <= to_pitch && width <= from_pitch);
    assert_true(to_pitch < INT32_MAX && from_pitch < INT32_MAX); /* CUDA's limit */
    for (size_t i = 0; i < rows && fake.computes; i++)
        memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    return cudaSuccess;
}

cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int value, size_t width,
                              size_t rows, cudaStream_t stream)
{
    (void)stream;
    assert_true(width <= pitch && pitch < INT32_MAX);
    for (size_t i = 0; i < rows && fake.computes; i++)
        memset((char *)to + i * pitch, value, width);
    return cudaSuccess;
}

int mdsk_cudnn_find(const struct mdsk_cudnn_problem *p,
                    const struct mdsk_cudnn_graph **out)
{
    (void)p;
    *out = &graph;
    return 0;
}

void *fake_cudnn_address(const struct mdsk_cudnn_call *c, int id)
{
    return c->data[id - 1];
}

static struct mdsk_heads heads_of(const struct mdsk_cudnn_call *c, int id)
{
    const int64_t *s = c->problem->stride[id - 1];

    assert_int_equal((uintptr_t)fake_cudnn_address(c, id) % 16, 0);
    return (struct mdsk_heads){fake_cudnn_address(c, id), s[0], s[2], s[1]};
}

static struct mdsk_attention_shape shape_of(const struct mdsk_cudnn_call *c)
{
    const struct mdsk_cudnn_problem *p = c->problem;
    int64_t shift = p->mask == MDSK_CUDNN_ALL       ? p->Sk
                    : p->mask == MDSK_CUDNN_SHIFTED ? c->shift
                                                    : 0;
    int64_t window = p->windowed ? (int64_t)c->left + shift : 0;

    return (struct mdsk_attention_shape){.B = p->B,
                                         .A = p->A,
                                         .G = p->G,
                                         .Sq = p->Sq,
                                         .Sk = p->Sk,
                                         .D = p->D,
                                         .q_offset = shift,
                                         .window = window,
                                         .scale = c->scale,
                                         .dtype = (enum mdsk_dtype)p->dtype};
}

/* Overwrite memory that the graph may overwrite; it must lie in the scratch memory. */
static void spoil(void *p, int64_t bytes)
{
    char *begin = p;

    assert_true(begin >= fake.scratch &&
                begin + bytes <= fake.scratch + fake.scratch_bytes);
    memset(p, 0xff, (size_t)bytes);
}

/* cuDNN 9.19 computes wrong row addresses beyond 2^31. */
static void assert_in_reach(const struct mdsk_cudnn_problem *p, int id)
{
    const int64_t *s = p->stride[id - 1];

    assert_true((p->B - 1) * s[0] + (p->A - 1) * s[1] + (p->Sq - 1) * s[2] + p->D <=
                (INT64_C(1) << 31));
}

static int run_forward(const struct mdsk_cudnn_call *c, void *workspace)
{
    struct mdsk_attention_fwd f = {.shape = shape_of(c),
                                   .q = heads_of(c, MDSK_CUDNN_Q),
                                   .k = heads_of(c, MDSK_CUDNN_K),
                                   .v = heads_of(c, MDSK_CUDNN_V),
                                   .o = heads_of(c, MDSK_CUDNN_O),
                                   .lse = fake_cudnn_address(c, MDSK_CUDNN_LSE)};
    int err = mdsk_attention_fwd_cpu(NULL, &f);

    spoil(workspace, WORKSPACE);
    return err;
}

static int run_backward(const struct mdsk_cudnn_call *c, void *workspace)
{
    const struct mdsk_cudnn_problem *p = c->problem;
    struct mdsk_attention_bwd b = {.shape = shape_of(c),
                                   .q = heads_of(c, MDSK_CUDNN_Q),
                                   .k = heads_of(c, MDSK_CUDNN_K),
                                   .v = heads_of(c, MDSK_CUDNN_V),
                                   .o = heads_of(c, MDSK_CUDNN_O),
                                   .d_o = heads_of(c, MDSK_CUDNN_D_O),
                                   .dq = heads_of(c, MDSK_CUDNN_DQ),
                                   .dk = heads_of(c, MDSK_CUDNN_DK),
                                   .dv = heads_of(c, MDSK_CUDNN_DV),
                                   .lse = fake_cudnn_address(c, MDSK_CUDNN_LSE),
                                   .delta = fake_cudnn_address(c, MDSK_CUDNN_DELTA)};
    int64_t queries = p->B * p->A * p->Sq * (int64_t)sizeof(float);

    spoil(workspace, WORKSPACE);
    spoil(b.delta, queries);
    if (p->pass == MDSK_CUDNN_BACKWARD)
        spoil(fake_cudnn_address(c, MDSK_CUDNN_DQ_SUM), queries * p->D);
    return mdsk_attention_bwd_cpu(NULL, &b);
}

int mdsk_cudnn_call(cudaStream_t stream, const struct mdsk_cudnn_graph *g,
                    struct mdsk_cudnn_call *c, void *workspace)
{
    (void)stream;
    assert_ptr_equal(g, &graph);
    assert_true(fake.calls < FAKE_CALLS);
    fake.problem[fake.calls] = *c->problem;
    fake.call[fake.calls++] = *c;
    if (c->problem->pass != MDSK_CUDNN_FORWARD) {
        assert_in_reach(c->problem, MDSK_CUDNN_O);
        assert_in_reach(c->problem, MDSK_CUDNN_D_O);
    }
    if (!fake.computes)
        return 0;
    return c->problem->pass == MDSK_CUDNN_FORWARD ? run_forward(c, workspace)
                                                  : run_backward(c, workspace);
}

/* Checks which two results are merged; computes nothing. */
int mdsk_cuda_attention_merge_16(cudaStream_t stream,
                                 const struct mdsk_attention_merge *a)
{
    const struct mdsk_cudnn_call *first = &fake.call[fake.calls - 2];
    const struct mdsk_cudnn_call *more = &fake.call[fake.calls - 1];

    (void)stream;
    assert_false(fake.computes);
    assert_ptr_equal(a->acc.data, fake_cudnn_address(first, MDSK_CUDNN_O));
    assert_ptr_equal(a->o2.data, fake_cudnn_address(more, MDSK_CUDNN_O));
    assert_ptr_equal(a->lse2, fake_cudnn_address(more, MDSK_CUDNN_LSE));
    assert_int_equal(a->Sq, fake.problem[fake.calls - 1].Sq);
    fake.merges++;
    return 0;
}

int mdsk_own_attention_fwd(cudaStream_t stream, const struct mdsk_attention_fwd *a)
{
    fake.own++;
    return fake.computes ? mdsk_attention_fwd_cpu(stream, a) : 0;
}

int mdsk_own_attention_bwd(cudaStream_t stream, const struct mdsk_attention_bwd *a)
{
    fake.own++;
    return fake.computes ? mdsk_attention_bwd_cpu(stream, a) : 0;
}

int mdsk_cuda_heads_add(cudaStream_t stream, const struct mdsk_attention_shape *s,
                        const struct mdsk_heads *x, const struct mdsk_heads *y)
{
    (void)stream;
    for (int64_t t = 0; t < s->B * s->A * s->Sk && fake.computes; t++) {
        int64_t b = t / s->A / s->Sk, h = t / s->Sk % s->A, i = t % s->Sk;
        uint16_t *to = (uint16_t *)y->data + b * y->batch_stride + h * y->head_stride +
                       i * y->token_stride;
        const uint16_t *from = NULL;

        if (x->data)
            from = (uint16_t *)x->data + b * x->batch_stride + h * x->head_stride +
                   i * x->token_stride;
        for (int64_t d = 0; d < s->D; d++)
            to[d] = from ? mdsk_f32_to_bf16(mdsk_bf16_to_f32(to[d]) +
                                            mdsk_bf16_to_f32(from[d]))
                         : 0;
    }
    return 0;
}
