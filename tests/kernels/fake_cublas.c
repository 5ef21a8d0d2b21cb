/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/kernels/fake_cublas.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kernels/cpu/unfused.h"
#include "kernels/cuda/linear.h"
#include "kernels/cuda/unfused.h"
#include "kernels/cuda/gemm.h"
#include "kernels/fp8.h"

struct fake_cublas fake;

struct mdsk_cublaslt mdsk_cublaslt = {MDSK_CUBLASLT_CALLS(MDSK_LIBRARY_LINKED)};

int mdsk_cuda_open(void)
{
    return 0;
}

/* ---- cuBLASLt ---- */

struct cublasLtContext {
    int unused;
};

struct desc {
    cublasOperation_t flip_a, flip_b;
    cublasLtEpilogue_t epilogue;
    const void *bias, *aux;
    const float *scale_a, *scale_b; /* of FP8 */
    int8_t fast;
    int64_t aux_ld;
};

struct layout {
    enum mdsk_dtype type;
    int64_t rows, cols, ld;
    int32_t batch;
    int64_t apart; /* elements, from one matrix of it to the next */
};

static struct cublasLtContext context;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = &context;
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "refused";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    struct desc *d = calloc(1, sizeof *d);

    assert_non_null(d);
    assert_int_equal(compute, CUBLAS_COMPUTE_32F);
    assert_int_equal(scale, CUDA_R_32F);
    d->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    *out = (cublasLtMatmulDesc_t)(void *)d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(const cublasLtMatmulDesc_t d)
{
    free(d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size)
{
    struct desc *d = (struct desc *)(void *)desc;
    int32_t type = -1;
    void *to = what == CUBLASLT_MATMUL_DESC_TRANSA         ? (void *)&d->flip_a
               : what == CUBLASLT_MATMUL_DESC_TRANSB       ? (void *)&d->flip_b
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE     ? (void *)&d->epilogue
               : what == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? (void *)&d->bias
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER ? (void *)&d->aux
               : what == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD      ? (void *)&d->aux_ld
               : what == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE       ? (void *)&type
               : what == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER      ? (void *)&d->scale_a
               : what == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER      ? (void *)&d->scale_b
               : what == CUBLASLT_MATMUL_DESC_FAST_ACCUM           ? (void *)&d->fast
                                                                   : NULL;

    assert_non_null(to);
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    struct layout *l = malloc(sizeof *l);

    assert_non_null(l);
    *l = (struct layout){type == CUDA_R_32F       ? MDSK_F32
                         : type == CUDA_R_16BF    ? MDSK_BF16
                         : type == CUDA_R_8F_E4M3 ? MDSK_E4M3
                         : type == CUDA_R_8F_E5M2 ? MDSK_E5M2
                                                  : MDSK_F16,
                         (int64_t)rows,
                         (int64_t)cols,
                         ld,
                         1,
                         0};
    *out = (cublasLtMatrixLayout_t)(void *)l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void *value, size_t size)
{
    struct layout *l = (struct layout *)(void *)layout;
    void *to = what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT            ? (void *)&l->batch
               : what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET ? (void *)&l->apart
                                                                     : NULL;

    assert_non_null(to);
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

static uint32_t schemes; /* of the preference: there is one at a time */

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(const cublasLtMatmulPreference_t p)
{
    (void)p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                     cublasLtMatmulPreferenceAttributes_t what,
                                     const void *value, size_t size)
{
    (void)p;
    if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        memcpy(&schemes, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static int is_fp8(enum mdsk_dtype t)
{
    return t == MDSK_E4M3 || t == MDSK_E5M2;
}

/* FP8 as on compute capability 9.0: A transposed, B not, whole vectors along each
 * column, a scale for both, and not E5M2 twice. */
static int is_supported(const struct desc *d, const struct layout *a,
                        const struct layout *b, const struct layout *c)
{
    if (!is_fp8(a->type) && !is_fp8(b->type))
        return !d->scale_a && !d->scale_b;
    return is_fp8(a->type) && is_fp8(b->type) &&
           (a->type == MDSK_E4M3 || b->type == MDSK_E4M3) && d->flip_a == CUBLAS_OP_T &&
           d->flip_b == CUBLAS_OP_N && a->ld % 16 == 0 && b->ld % 16 == 0 &&
           a->rows % 16 == 0 && c->rows % 16 == 0 && d->scale_a && d->scale_b &&
           (uintptr_t)d->scale_a % 16 == 0 && (uintptr_t)d->scale_b % 16 == 0;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t p, int most,
                               cublasLtMatmulHeuristicResult_t out[], int *n)
{
    const struct desc *x = (const struct desc *)(const void *)desc;

    (void)h, (void)d, (void)p;
    fake.searches++;
    *n = 0;
    if (fake.nothing ||
        !is_supported(x, (const struct layout *)(const void *)a,
                      (const struct layout *)(const void *)b,
                      (const struct layout *)(const void *)c) ||
        (fake.no_epilogue && x->epilogue != CUBLASLT_EPILOGUE_DEFAULT))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    most = fake.most && fake.most < most ? fake.most : most;
    for (int i = 0; *n < most && i < FAKE_ALGOS; i++)
        if (schemes != CUBLASLT_REDUCTION_SCHEME_NONE || fake.splits[i] <= 1)
            out[(*n)++].algo.data[0] = (uint64_t)i;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                     cublasLtMatmulAlgoConfigAttributes_t what,
                                     void *value, size_t size, size_t *written)
{
    const void *from = what == CUBLASLT_ALGO_CONFIG_ID
                           ? (const void *)&fake.id[algo->data[0]]
                       : what == CUBLASLT_ALGO_CONFIG_SPLITK_NUM
                           ? (const void *)&fake.splits[algo->data[0]]
                           : NULL;

    (void)written;
    assert_non_null(from);
    assert_int_equal(size, 4);
    memcpy(value, from, size);
    return CUBLAS_STATUS_SUCCESS;
}

/* The products of k that an algorithm adds up. */
static int64_t summed(const cublasLtMatmulAlgo_t *algo, int64_t k)
{
    int64_t splits = fake.splits[algo->data[0]];

    return fake.id[algo->data[0]] == 66 && splits > 1 ? k / splits * splits : k;
}

float fake_get(enum mdsk_dtype t, const void *p, int64_t i)
{
    const uint16_t *half = p;
    const uint8_t *code = p;

    if (t == MDSK_F32)
        return ((const float *)p)[i];
    if (is_fp8(t))
        return t == MDSK_E4M3 ? mdsk_e4m3_to_f32(code[i]) : mdsk_e5m2_to_f32(code[i]);
    return t == MDSK_BF16 ? mdsk_bf16_to_f32(half[i]) : mdsk_f16_to_f32(half[i]);
}

void fake_put(enum mdsk_dtype t, void *p, int64_t i, float x)
{
    uint16_t *half = p;

    if (t == MDSK_F32)
        ((float *)p)[i] = x;
    else
        half[i] = t == MDSK_BF16 ? mdsk_f32_to_bf16(x) : mdsk_f32_to_f16(x);
}

static float get(const struct layout *l, const void *p, int64_t i)
{
    return fake_get(l->type, p, i);
}

static void put(const struct layout *l, void *p, int64_t i, float x)
{
    fake_put(l->type, p, i, x);
}

static float gelu(float x, float *slope)
{
    float c = 0.7978845608f, t = tanhf(c * (x + 0.044715f * x * x * x));

    *slope = 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * c * (1 + 3 * 0.044715f * x * x);
    return 0.5f * x * (1 + t);
}

/* What becomes of element (i, j) of the product. */
static float finish(const struct desc *d, const struct layout *c, int64_t i, int64_t j,
                    float x)
{
    float slope;

    switch (d->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BGRADB:
        return x;
    case CUBLASLT_EPILOGUE_BIAS:
        return x + get(c, d->bias, i);
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        x += get(c, d->bias, i);
        /* fall through */
    case CUBLASLT_EPILOGUE_GELU_AUX:
        put(c, (void *)(uintptr_t)d->aux, j * d->aux_ld + i, x);
        return gelu(x, &slope);
    case CUBLASLT_EPILOGUE_DGELU:
        gelu(get(c, d->aux, j * d->aux_ld + i), &slope);
        return x * slope;
    default:
        fail_msg("epilogue %d", (int)d->epilogue);
        return 0;
    }
}

/* The sums over k of B. */
static void sum_b(const struct desc *d, const struct layout *b, const void *B,
                  int64_t n, int64_t k)
{
    float *sum = (float *)(uintptr_t)d->bias;

    for (int64_t j = 0; j < n; j++) {
        sum[j] = 0;
        for (int64_t p = 0; p < k; p++)
            sum[j] += get(b, B, d->flip_b ? p * b->ld + j : j * b->ld + p);
    }
}

/* One product and what is added to it.  alpha, beta: their factors. */
struct product {
    const struct desc *d;
    const struct layout *a, *b, *c;
    const void *A, *B, *C;
    void *D;
    float alpha, beta;
    int64_t k; /* as many products are added up, of a->cols */
};

static const void *matrix(const struct layout *l, const void *p, int64_t i)
{
    return (const char *)p + i * l->apart * (int64_t)mdsk_dtype_size(l->type);
}

/* Product t of a batch. */
static void multiply(const struct product *x, int64_t t)
{
    const struct desc *d = x->d;
    const struct layout *a = x->a, *b = x->b, *c = x->c;
    const void *A = matrix(a, x->A, t), *B = matrix(b, x->B, t),
               *C = matrix(c, x->C, t);
    void *D = (void *)(uintptr_t)matrix(c, x->D, t);

    for (int64_t j = 0; j < c->cols; j++)
        for (int64_t i = 0; i < c->rows; i++) {
            float sum = 0;

            for (int64_t p = 0; p < x->k; p++)
                sum += get(a, A, d->flip_a ? i * a->ld + p : p * a->ld + i) *
                       get(b, B, d->flip_b ? p * b->ld + j : j * b->ld + p);
            sum *= x->alpha;
            if (d->scale_a && d->scale_b)
                sum *= *d->scale_a * *d->scale_b;
            if (x->beta != 0)
                sum += x->beta * get(c, C, j * c->ld + i);
            put(c, D, j * c->ld + i, finish(d, c, i, j, sum));
        }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a_layout, const void *B,
                              cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c_layout, void *D,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t bytes, cudaStream_t stream)
{
    const struct desc *d = (const struct desc *)(const void *)desc;
    const struct layout *a = (const struct layout *)(const void *)a_layout;
    const struct layout *b = (const struct layout *)(const void *)b_layout;
    const struct layout *c = (const struct layout *)(const void *)c_layout;
    int64_t k = d->flip_a ? a->rows : a->cols;
    const struct product x = {.d = d,
                              .a = a,
                              .b = b,
                              .c = c,
                              .A = A,
                              .B = B,
                              .C = C,
                              .D = D,
                              .alpha = *(const float *)alpha,
                              .beta = *(const float *)beta,
                              .k = summed(algo, k)};

    (void)h, (void)workspace, (void)bytes, (void)stream;
    assert_ptr_equal(c_layout, d_layout);
    assert_int_equal(d->flip_a ? a->cols : a->rows, c->rows);
    assert_int_equal(d->flip_b ? b->rows : b->cols, c->cols);
    assert_int_equal(d->flip_b ? b->cols : b->rows, k);
    assert_true(a->batch == c->batch && b->batch == c->batch);
    for (int64_t t = 0; t < c->batch; t++)
        multiply(&x, t);
    if (d->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        sum_b(d, b, B, c->cols, k);
    fake.products++;
    fake.last_algo = algo->data[0];
    fake.last_epilogue = (int32_t)d->epilogue;
    fake.last_fast = d->fast;
    fake.clock_ms += fake.ms[algo->data[0]] +
                     (d->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : fake.epilogue_ms);
    return CUBLAS_STATUS_SUCCESS;
}

/* An event is its place in a list, and a moment of the clock. */
cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    *out = (cudaEvent_t)(void *)&fake.event_ms[fake.events++ % FAKE_EVENTS];
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
    (void)stream;
    *(float *)(void *)e = fake.clock_ms;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
    (void)e;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = *(float *)(void *)to - *(float *)(void *)from;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
    (void)e;
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(p, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                  enum cudaStreamCaptureStatus *out)
{
    (void)stream;
    *out = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

/* ---- what the backend's other sources do ---- */

int mdsk_cuda_is_repeatable(void)
{
    return fake.repeatable;
}

double mdsk_cuda_seconds(void)
{
    return fake.seconds;
}

int mdsk_cuda_fail(const char *library, const char *why)
{
    (void)library;
    (void)why;
    return -EIO;
}

void *mdsk_cuda_scratch(cudaStream_t stream, enum mdsk_cuda_use use, int64_t bytes)
{
    static _Alignas(256) char product[1], bias[1 << 14], attend[1 << 20];

    (void)stream;
    if (use == MDSK_CUDA_GEMM)
        return product;
    assert_true(bytes <=
                (int64_t)(use == MDSK_CUDA_BIAS ? sizeof bias : sizeof attend));
    return use == MDSK_CUDA_BIAS ? bias : attend;
}

int mdsk_cuda_rc(cudaError_t code)
{
    return code == cudaSuccess ? 0 : -EIO;
}

void *mdsk_cuda_alloc(cudaStream_t stream, int64_t bytes)
{
    (void)stream;
    fake.allocations++;
    return malloc((size_t)bytes);
}

void mdsk_cuda_free(cudaStream_t stream, void *p)
{
    (void)stream;
    free(p);
}

static int beside(int err)
{
    fake.beside++;
    fake.clock_ms += fake.separate_ms;
    return err;
}

int mdsk_activation_fwd_cuda(void *stream, const struct mdsk_activation_fwd *a)
{
    return beside(mdsk_activation_fwd_cpu(stream, a));
}

int mdsk_activation_bwd_cuda(void *stream, const struct mdsk_activation_bwd *a)
{
    return beside(mdsk_activation_bwd_cpu(stream, a));
}

/* cuBLASLt is what is looked at. */
int mdsk_cuda_one_row(cudaStream_t stream, const struct mdsk_linear_fwd *a)
{
    (void)stream;
    (void)a;
    return -ENOTSUP;
}

int mdsk_cuda_column_sums(cudaStream_t stream, int64_t rows, int64_t cols,
                          enum mdsk_dtype dtype, const void *x, float *sum)
{
    (void)stream;
    for (int64_t i = 0; i < rows * cols; i++)
        sum[i % cols] += fake_get(dtype, x, i);
    return beside(0);
}

int mdsk_cuda_broadcast_row(cudaStream_t stream, int64_t rows, int64_t cols,
                            enum mdsk_dtype dtype, const void *x, void *y)
{
    (void)stream;
    for (int64_t i = 0; i < rows * cols; i++)
        fake_put(dtype, y, i, fake_get(dtype, x, i % cols));
    return 0;
}

int mdsk_cuda_add_sums(cudaStream_t stream, int64_t n, const float *x, float *sum)
{
    (void)stream;
    for (int64_t i = 0; i < n; i++)
        sum[i] += x[i];
    return 0;
}

/* ---- unfused attention's kernels: the cpu's, with f32 operands ---- */

/* n numbers of a type, to f32 and from it. */
static float *widened(enum mdsk_dtype t, const void *x, int64_t n)
{
    float *y = malloc((size_t)n * sizeof *y);

    assert_non_null(y);
    for (int64_t i = 0; i < n; i++)
        y[i] = fake_get(t, x, i);
    return y;
}

static void narrow(enum mdsk_dtype t, float *x, int64_t n, void *y)
{
    for (int64_t i = 0; i < n; i++)
        fake_put(t, y, i, x[i]);
    free(x);
}

int mdsk_cuda_unfused_pack(void *stream, const struct mdsk_unfused_tokens *t,
                           void *packed)
{
    int64_t n = t->rows * t->width;
    float *wide = widened(t->dtype, packed, n);
    int err = mdsk_unfused_steps_cpu.pack(stream, t, wide);

    narrow(t->dtype, wide, n, packed);
    return err;
}

int mdsk_cuda_unfused_unpack(void *stream, const struct mdsk_unfused_tokens *t,
                             const float *packed)
{
    return mdsk_unfused_steps_cpu.unpack(stream, t, packed);
}

int mdsk_cuda_unfused_softmax_fwd(void *stream, const struct mdsk_unfused_block *x,
                                  const struct mdsk_unfused_softmax_fwd *a)
{
    const enum mdsk_dtype t = x->shape.dtype;
    struct mdsk_unfused_softmax_fwd wide = *a;
    int err;

    wide.p = widened(t, a->p, x->m * x->n);
    err = mdsk_unfused_steps_cpu.softmax_fwd(stream, x, &wide);
    narrow(t, wide.p, x->m * x->n, a->p);
    return err;
}

int mdsk_cuda_unfused_softmax_bwd(void *stream, const struct mdsk_unfused_block *x,
                                  const struct mdsk_unfused_softmax_bwd *a)
{
    const enum mdsk_dtype t = x->shape.dtype;
    const int64_t scores = x->m * x->n;
    float *o = widened(t, a->o, x->m * a->width);
    float *d_o = widened(t, a->d_o, x->m * a->width);
    struct mdsk_unfused_softmax_bwd wide = *a;
    int err;

    wide.o = o;
    wide.d_o = d_o;
    wide.p = widened(t, a->p, scores);
    wide.ds = widened(t, a->ds, scores);
    err = mdsk_unfused_steps_cpu.softmax_bwd(stream, x, &wide);
    narrow(t, wide.p, scores, a->p);
    narrow(t, wide.ds, scores, a->ds);
    free(o);
    free(d_o);
    return err;
}
