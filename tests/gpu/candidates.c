/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu: every algorithm that autotuning may choose for a weight gradient sums all
 * rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "kernels/cuda/gemm.h"
#include "tests/kernels/check.h"

struct shape {
    int64_t R, in, out;
};

/* In place of kernels/cuda/autotune.c: nothing is timed, so a plan keeps all
 * candidates. */
void mdsk_cuda_autotune(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                        const struct mdsk_cuda_gemm_operands *o)
{
    (void)stream, (void)p, (void)o;
}

void mdsk_cuda_autotune_hot(cudaStream_t stream, struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o)
{
    (void)stream, (void)p, (void)o;
}

int mdsk_cuda_can_autotune(cudaStream_t stream)
{
    (void)stream;
    return 0;
}

float mdsk_cuda_time(cudaStream_t stream, mdsk_cuda_work_fn *work, const void *what,
                     int times)
{
    (void)stream, (void)work, (void)what, (void)times;
    return -1;
}

static void check(cudaError_t err)
{
    if (err != cudaSuccess)
        fail_msg("%s", cudaGetErrorString(err));
}

static void *on_device(enum mdsk_dtype t, struct vec *v)
{
    size_t bytes = (size_t)v->n * mdsk_dtype_size(t);
    void *p = NULL;

    check(cudaMalloc(&p, bytes));
    check(cudaMemcpy(p, vec_as(t, v), bytes, cudaMemcpyHostToDevice));
    return p;
}

/* Element e of a few that are spread over dw. */
enum { SEEN = 64 };

static int64_t place(const struct shape *s, int e)
{
    return e * (s->in * s->out / SEEN);
}

static void reference(const struct shape *s, const struct vec *x, const struct vec *dy,
                      struct vec *seen)
{
    for (int e = 0; e < SEEN; e++) {
        int64_t o = place(s, e) / s->in, i = place(s, e) % s->in;

        seen->d[e] = 0;
        for (int64_t r = 0; r < s->R; r++)
            seen->d[e] += dy->d[r * s->out + o] * x->d[r * s->in + i];
    }
}

/* Without the rows that a split leaves over dw is off by 8e-3 or more. */
static void check_plan(struct mdsk_cuda_gemm_plan *p, const struct shape *s,
                       const struct mdsk_cuda_gemm_operands *o, struct vec *seen)
{
    struct vec dw = vec_unset(s->in * s->out);

    assert_true(p->usable && p->candidates > 0);
    for (int i = 0; i < p->candidates; i++) {
        p->algo = p->candidate[i];
        assert_int_equal(mdsk_cuda_run_gemm_plan(NULL, p, o), 0);
        check(cudaMemcpy(dw.f, o->c, (size_t)dw.n * sizeof *dw.f,
                         cudaMemcpyDeviceToHost));
        for (int e = 0; e < SEEN; e++)
            seen->f[e] = dw.f[place(s, e)];
        print_message("# %lld rows, %lld x %lld, candidate %d of %d\n", (long long)s->R,
                      (long long)s->in, (long long)s->out, i + 1, p->candidates);
        assert_near("dw", seen, 2e-3);
    }
    vec_free(&dw);
}

static void check_products(const struct shape *s, enum mdsk_dtype t, int32_t epilogue,
                           struct vec *x, struct vec *dy)
{
    struct vec dw = vec_unset(s->in * s->out), db = vec_zero(s->out);
    struct vec seen = vec_zero(SEEN);
    void *sums = on_device(MDSK_F32, &db);
    struct mdsk_cuda_gemm_operands o = {
        .a = on_device(t, x), .b = on_device(t, dy), .c = on_device(MDSK_F32, &dw)};
    struct mdsk_cuda_gemm_shape shape =
        mdsk_cuda_gemm_shape_of(s->in, s->out, s->R, t, MDSK_F32, &o);
    struct mdsk_cuda_gemm_plan *p = NULL;

    shape.flip_b = 1;
    shape.epilogue = epilogue;
    if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        o.bias = sums;
    reference(s, x, dy, &seen);
    assert_int_equal(mdsk_cuda_find_gemm_plan(NULL, &shape, &o, &p), 0);
    check_plan(p, s, &o, &seen);
    check(cudaFree((void *)(uintptr_t)o.a));
    check(cudaFree((void *)(uintptr_t)o.b));
    check(cudaFree(o.c));
    check(cudaFree(sums));
    vec_free(&dw);
    vec_free(&db);
    vec_free(&seen);
}

static void test_candidates_add_up_all_rows(void **state)
{
    static const struct shape shapes[] = {{8200, 320, 320},  {16392, 256, 256},
                                          {16392, 512, 512}, {24584, 640, 640},
                                          {65544, 128, 384}, {131080, 256, 768}};

    (void)state;
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *s = &shapes[i];
        struct vec x = vec_random(s->R * s->in, 1, 1);
        struct vec dy = vec_random(s->R * s->out, 2, 1);

        for (int t = MDSK_F32; t <= MDSK_F16; t++) {
            check_products(s, (enum mdsk_dtype)t, CUBLASLT_EPILOGUE_DEFAULT, &x, &dy);
            if (t != MDSK_F32)
                check_products(s, (enum mdsk_dtype)t, CUBLASLT_EPILOGUE_BGRADB, &x,
                               &dy);
        }
        vec_free(&x);
        vec_free(&dy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_candidates_add_up_all_rows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
