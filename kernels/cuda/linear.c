/* Products by cuBLASLt.
 *
 * It thinks in columns: what is [r, c] by rows here is [c, r] by columns there.  So
 * y [R,out] = x W^T is computed as y^T [out,R] = W x^T, and likewise the rest.
 *
 * Which of its algorithms is fastest for a shape is found by timing the first few that
 * it suggests, at the first call; from then on the same one runs. */
#include "kernels/cuda/linear.h"

#include <cublasLt.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SUGGESTIONS = 8, MOST_ALIGNED = 256, WORKSPACE = 32 << 20 };

/* C [m,n] = A [m,k] B [k,n], by columns; all packed.  flip: the operand is stored
 * transposed.  Compared bytewise: zero it first. */
struct shape {
    int64_t m, n, k;
    int32_t in, out; /* enum mdsk_dtype of A and B, and of C */
    int32_t flip_a, flip_b;
    int32_t add; /* to what C holds */
    int32_t epilogue;
    int32_t alignment; /* of the operands' addresses */
    int32_t unused;
};

struct plan {
    struct plan *next;
    struct shape shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
    float ms;      /* of one product; 0: not timed */
    float sums_ms; /* of column sums beside it; 0: not timed */
    int usable;    /* cuBLASLt has an algorithm */
};

/* Addresses of one product.  bias: read or written by the epilogue, or NULL. */
struct operands {
    const void *a, *b, *bias;
    void *c;
};

static cublasLtHandle_t handle;
static struct plan *plans;

static int rc(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS
               ? 0
               : mdsk_cuda_fail("cuBLASLt", cublasLtGetStatusString(status));
}

static cudaDataType_t type_of(int32_t dtype)
{
    if (dtype == MDSK_F32)
        return CUDA_R_32F;
    return dtype == MDSK_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static int32_t alignment_of(const void *const *addresses, int n)
{
    uintptr_t all = MOST_ALIGNED;

    for (int i = 0; i < n; i++)
        all |= (uintptr_t)addresses[i];
    return (int32_t)(all & -all);
}

static int set_desc(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t what,
                    const void *value, size_t size)
{
    return rc(cublasLtMatmulDescSetAttribute(desc, what, value, size));
}

/* The bias of y has y's type; the gradient of a bias is f32. */
static int describe_epilogue(struct plan *p)
{
    uint32_t epilogue = (uint32_t)p->shape.epilogue;
    int32_t type = (int32_t)type_of(p->shape.out);
    int err =
        set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);

    if (!err && p->shape.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        err =
            set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    return err;
}

static int describe(struct plan *p)
{
    const struct shape *s = &p->shape;
    cublasOperation_t flip = CUBLAS_OP_T;
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    int err = rc(cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));

    if (!err && s->flip_a)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &flip, sizeof flip);
    if (!err && s->flip_b)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &flip, sizeof flip);
    if (!err)
        err = describe_epilogue(p);
    if (!err)
        err =
            rc(cublasLtMatrixLayoutCreate(&p->a, type_of(s->in), s->flip_a ? k : m,
                                          s->flip_a ? m : k, s->flip_a ? s->k : s->m));
    if (!err)
        err =
            rc(cublasLtMatrixLayoutCreate(&p->b, type_of(s->in), s->flip_b ? n : k,
                                          s->flip_b ? k : n, s->flip_b ? s->n : s->k));
    if (!err)
        err = rc(cublasLtMatrixLayoutCreate(&p->c, type_of(s->out), m, n, s->m));
    return err;
}

static void forget(struct plan *p)
{
    cublasLtMatrixLayoutDestroy(p->c);
    cublasLtMatrixLayoutDestroy(p->b);
    cublasLtMatrixLayoutDestroy(p->a);
    cublasLtMatmulDescDestroy(p->desc);
}

static int prefer(cublasLtMatmulPreference_t pref,
                  cublasLtMatmulPreferenceAttributes_t what, const void *value,
                  size_t size)
{
    return rc(cublasLtMatmulPreferenceSetAttribute(pref, what, value, size));
}

/* Sums that are cut up are added in f32 and in order, or not cut up. */
static int set_preferences(cublasLtMatmulPreference_t pref, const struct shape *s)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    uint32_t alignment = (uint32_t)s->alignment;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint64_t workspace = WORKSPACE;
    int err = prefer(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                     sizeof workspace);

    if (!err)
        err = prefer(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                     sizeof schemes);
    for (int i = 0; !err && i < 4; i++)
        err = prefer(pref, aligned[i], &alignment, sizeof alignment);
    return err;
}

/* The best guesses first.  *n may become 0. */
static int suggest(const struct plan *p, cublasLtMatmulHeuristicResult_t *out, int *n)
{
    cublasLtMatmulPreference_t pref;
    int err = rc(cublasLtMatmulPreferenceCreate(&pref));

    *n = 0;
    if (err)
        return err;
    err = set_preferences(pref, &p->shape);
    if (!err &&
        cublasLtMatmulAlgoGetHeuristic(handle, p->desc, p->a, p->b, p->c, p->c, pref,
                                       SUGGESTIONS, out, n) != CUBLAS_STATUS_SUCCESS)
        *n = 0;
    cublasLtMatmulPreferenceDestroy(pref);
    return err;
}

static int multiply(cudaStream_t stream, const struct plan *p, const struct operands *o)
{
    const float one = 1, zero = 0;
    void *room = mdsk_cuda_scratch(MDSK_CUDA_PRODUCT, WORKSPACE);
    int err = 0;

    if (!room)
        return -ENOMEM;
    if (o->bias)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias,
                       sizeof o->bias);
    if (err)
        return err;
    return rc(cublasLtMatmul(handle, p->desc, &one, o->a, p->a, o->b, p->b,
                             p->shape.add ? &one : &zero, o->c, p->c, o->c, p->c,
                             &p->algo, room, WORKSPACE, stream));
}

/* Something to be timed. */
typedef int work_fn(cudaStream_t stream, const void *what);

/* Milliseconds of one piece of work, once warm; negative if it fails. */
static float time_work(cudaStream_t stream, work_fn *work, const void *what)
{
    const int times = 4;
    cudaEvent_t begin, end;
    float ms = -1;
    int err;

    if (cudaEventCreate(&begin) != cudaSuccess)
        return -1;
    if (cudaEventCreate(&end) != cudaSuccess)
        goto destroy_begin;
    err = work(stream, what);
    cudaEventRecord(begin, stream);
    for (int i = 0; !err && i < times; i++)
        err = work(stream, what);
    cudaEventRecord(end, stream);
    if (cudaEventSynchronize(end) != cudaSuccess || err ||
        cudaEventElapsedTime(&ms, begin, end) != cudaSuccess)
        ms = -1;
    cudaEventDestroy(end);
destroy_begin:
    cudaEventDestroy(begin);
    return ms / (float)times;
}

struct product {
    const struct plan *plan;
    const struct operands *operands;
};

static int work_product(cudaStream_t stream, const void *what)
{
    const struct product *p = what;

    return multiply(stream, p->plan, p->operands);
}

/* Keep the fastest; a later guess must be clearly faster than an earlier one, so that
 * mere noise decides little. */
static void race(cudaStream_t stream, struct plan *p, const struct operands *o,
                 const cublasLtMatmulHeuristicResult_t *guess, int n)
{
    const float clearly = 0.98f;
    cublasLtMatmulAlgo_t best = guess[0].algo;

    p->ms = 0;
    for (int i = 0; i < n; i++) {
        float ms;

        p->algo = guess[i].algo;
        ms = time_work(stream, work_product, &(struct product){p, o});
        if (ms > 0 && (p->ms <= 0 || ms < clearly * p->ms)) {
            p->ms = ms;
            best = guess[i].algo;
        }
    }
    p->algo = best;
}

static int can_race(cudaStream_t stream)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

    return !mdsk_cuda_is_repeatable() &&
           cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
           status == cudaStreamCaptureStatusNone;
}

/* A product that adds must not do so more than once: it races into memory of its own.
 * Where that cannot be had the first guess has to do. */
static void choose(cudaStream_t stream, struct plan *p, const struct operands *o,
                   const cublasLtMatmulHeuristicResult_t *guess, int n)
{
    struct operands mine = *o;
    size_t size = (size_t)(p->shape.m * p->shape.n) *
                  mdsk_dtype_size((enum mdsk_dtype)p->shape.out);

    p->algo = guess[0].algo;
    if (!can_race(stream))
        return;
    if (!p->shape.add) {
        race(stream, p, o, guess, n);
        return;
    }
    if (cudaMalloc(&mine.c, size) != cudaSuccess) {
        cudaGetLastError();
        return;
    }
    cudaMemsetAsync(mine.c, 0, size, stream);
    race(stream, p, &mine, guess, n);
    cudaFree(mine.c);
}

static int make(cudaStream_t stream, struct plan *p, const struct operands *o)
{
    cublasLtMatmulHeuristicResult_t guess[SUGGESTIONS];
    int n = 0, err = describe(p);

    if (!err && o->bias)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias,
                       sizeof o->bias);
    if (!err)
        err = suggest(p, guess, &n);
    p->usable = !err && n > 0;
    if (p->usable)
        choose(stream, p, o, guess, n);
    return err;
}

/* The plan for a shape, made at its first use. */
static int find(cudaStream_t stream, const struct shape *s, const struct operands *o,
                struct plan **out)
{
    struct plan *p = plans;
    int err = handle ? 0 : rc(cublasLtCreate(&handle));

    if (err)
        return err;
    while (p && memcmp(&p->shape, s, sizeof *s) != 0)
        p = p->next;
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p)
            return -ENOMEM;
        p->shape = *s;
        err = make(stream, p, o);
        if (err)
            goto free_p;
        p->next = plans;
        plans = p;
    }
    *out = p;
    return 0;

free_p:
    forget(p);
    free(p);
    return err;
}

static int run(cudaStream_t stream, const struct shape *s, const struct operands *o)
{
    struct plan *p = NULL;
    int err = find(stream, s, o, &p);

    if (err)
        return err;
    if (!p->usable) {
        mdsk_cuda_fail("cuBLASLt", "no algorithm for a product");
        return -ENOTSUP;
    }
    return multiply(stream, p, o);
}

static struct shape shape_of(int64_t m, int64_t n, int64_t k, enum mdsk_dtype in,
                             enum mdsk_dtype out, const struct operands *o)
{
    const void *addresses[] = {o->a, o->b, o->c, o->bias};
    struct shape s;

    memset(&s, 0, sizeof s);
    s.m = m;
    s.n = n;
    s.k = k;
    s.in = (int32_t)in;
    s.out = (int32_t)out;
    s.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    s.alignment = alignment_of(addresses, o->bias ? 4 : 3);
    return s;
}

/* Where no epilogue adds the bias, the product adds to it. */
int mdsk_linear_fwd_cuda(void *stream, const struct mdsk_linear_fwd *a)
{
    struct operands o = {a->w, a->x, a->b, a->y};
    struct shape s = shape_of(a->out, a->R, a->in, a->dtype, a->dtype, &o);
    struct plan *p = NULL;
    int err;

    s.flip_a = 1;
    if (!a->b)
        return run(stream, &s, &o);
    s.epilogue = CUBLASLT_EPILOGUE_BIAS;
    err = find(stream, &s, &o, &p);
    if (err || p->usable)
        return err ? err : multiply(stream, p, &o);
    s.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    s.add = 1;
    o.bias = NULL;
    err = mdsk_cuda_spread_rows(stream, a->R, a->out, a->dtype, a->b, a->y);
    return err ? err : run(stream, &s, &o);
}

int mdsk_linear_bwd_input_cuda(void *stream, const struct mdsk_linear_bwd_input *a)
{
    struct operands o = {a->w, a->dy, NULL, a->dx};
    struct shape s = shape_of(a->in, a->R, a->out, a->dtype, a->dtype, &o);

    return run(stream, &s, &o);
}

static int product_and_add(cudaStream_t stream, const struct plan *p,
                           const struct operands *o, int64_t out, float *db)
{
    int err = multiply(stream, p, o);

    return err ? err : mdsk_cuda_add_sums(stream, out, o->bias, db);
}

/* Column sums of dy into db, of which nothing is wanted but the time. */
static int work_sums(cudaStream_t stream, const void *what)
{
    const struct mdsk_linear_bwd_weight *a = what;

    return mdsk_cuda_column_sums(stream, a->R, a->out, a->dtype, a->dy, a->db);
}

/* Milliseconds, found at the first call for this shape. */
static float sums_ms(cudaStream_t stream, const struct mdsk_linear_bwd_weight *a,
                     struct plan *p)
{
    struct mdsk_linear_bwd_weight mine = *a;

    if (p->sums_ms > 0 || !can_race(stream))
        return p->sums_ms;
    if (cudaMalloc((void **)&mine.db, (size_t)a->out * sizeof *a->db) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    cudaMemsetAsync(mine.db, 0, (size_t)a->out * sizeof *a->db, stream);
    p->sums_ms = time_work(stream, work_sums, &mine);
    cudaFree(mine.db);
    return p->sums_ms;
}

/* One product can also sum dy's columns, while it has them at hand; but not every
 * algorithm can, and those may be slower than two passes.  *fused: NULL for two. */
static int choose_passes(cudaStream_t stream, const struct mdsk_linear_bwd_weight *a,
                         const struct shape *s, const struct operands *o,
                         const struct plan **fused)
{
    struct operands alone = *o;
    struct shape plain = *s;
    struct plan *p = NULL, *f = NULL;
    int err;

    plain.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    alone.bias = NULL;
    err = find(stream, &plain, &alone, &p);
    if (!err)
        err = find(stream, s, o, &f);
    *fused = NULL;
    if (!err && f->usable && p->ms > 0 && f->ms > 0 &&
        f->ms < p->ms + sums_ms(stream, a, p))
        *fused = f;
    return err;
}

int mdsk_linear_bwd_weight_cuda(void *stream, const struct mdsk_linear_bwd_weight *a)
{
    struct operands o = {a->x, a->dy, NULL, a->dw};
    struct shape s = shape_of(a->in, a->out, a->R, a->dtype, MDSK_F32, &o);
    const struct plan *fused = NULL;
    int err = 0;

    s.flip_b = 1;
    s.add = 1;
    if (a->db && a->dtype != MDSK_F32) {
        struct shape both = s;
        struct operands with = o;

        both.epilogue = CUBLASLT_EPILOGUE_BGRADB;
        with.bias = mdsk_cuda_scratch(MDSK_CUDA_BIAS, a->out * (int64_t)sizeof *a->db);
        if (!with.bias)
            return -ENOMEM;
        err = choose_passes(stream, a, &both, &with, &fused);
        if (err || fused)
            return err ? err : product_and_add(stream, fused, &with, a->out, a->db);
    }
    err = run(stream, &s, &o);
    if (err || !a->db)
        return err;
    return mdsk_cuda_column_sums(stream, a->R, a->out, a->dtype, a->dy, a->db);
}
