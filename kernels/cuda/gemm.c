/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMs by cuBLASLt.
 *
 * It is column-major: what is [r, c] row-major here is [c, r] column-major there.  So
 * y [R,out] = x W^T is computed as y^T [out,R] = W x^T, and likewise the rest.
 */
#include "kernels/cuda/gemm.h"

#include <errno.h>
#include <string.h>

enum {
    MOST_ALIGNED = 256,
    WORKSPACE = 32 << 20,
    SUGGESTIONS = 2 * MDSK_CUDA_CANDIDATES /* requested; not all are used */
};

static const struct mdsk_cublaslt *const lt = &mdsk_cublaslt;
static cublasLtHandle_t handle;

static int cublas_rc(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS
               ? 0
               : mdsk_cuda_fail("cuBLASLt", lt->cublasLtGetStatusString(status));
}

static cudaDataType_t cuda_type_of(int32_t dtype)
{
    switch (dtype) {
    case MDSK_F32:
        return CUDA_R_32F;
    case MDSK_BF16:
        return CUDA_R_16BF;
    case MDSK_E4M3:
        return CUDA_R_8F_E4M3;
    case MDSK_E5M2:
        return CUDA_R_8F_E5M2;
    default:
        return CUDA_R_16F;
    }
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
    return cublas_rc(lt->cublasLtMatmulDescSetAttribute(desc, what, value, size));
}

static int has_aux(int32_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU;
}

static int has_bias(int32_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_BIAS || epilogue == CUBLASLT_EPILOGUE_BGRADB ||
           epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

/* The bias of y and the input of GELU have y's type; the gradient of a bias is f32. */
static int describe_epilogue(struct mdsk_cuda_gemm_plan *p)
{
    uint32_t epilogue = (uint32_t)p->shape.epilogue;
    int32_t type = (int32_t)cuda_type_of(p->shape.out);
    int err =
        set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);

    if (!err && has_bias(p->shape.epilogue))
        err =
            set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    if (!err && has_aux(p->shape.epilogue))
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p->shape.m,
                       sizeof p->shape.m);
    return err;
}

static int is_fp8(int32_t dtype)
{
    return dtype == MDSK_E4M3 || dtype == MDSK_E5M2;
}

/* Sums of FP8 products have 14 bits on Hopper, unless they are moved to f32 often. */
static int describe_accumulation(struct mdsk_cuda_gemm_plan *p)
{
    int8_t fast = (int8_t)p->shape.fast;

    return is_fp8(p->shape.in)
               ? set_desc(p->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast)
               : 0;
}

/* The matrices of a batch, of so many elements, lie one after the other. */
static int describe_batch(const struct mdsk_cuda_gemm_shape *s,
                          cublasLtMatrixLayout_t layout, int64_t elements)
{
    int32_t batch = (int32_t)s->batch;
    int err;

    if (batch == 1)
        return 0;
    err = cublas_rc(lt->cublasLtMatrixLayoutSetAttribute(
        layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
    return err ? err
               : cublas_rc(lt->cublasLtMatrixLayoutSetAttribute(
                     layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &elements,
                     sizeof elements));
}

static int create_descriptors(struct mdsk_cuda_gemm_plan *p)
{
    const struct mdsk_cuda_gemm_shape *s = &p->shape;
    cublasOperation_t flip = CUBLAS_OP_T;
    uint64_t m = (uint64_t)s->m, n = (uint64_t)s->n, k = (uint64_t)s->k;
    int err = cublas_rc(
        lt->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));

    if (!err && s->flip_a)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &flip, sizeof flip);
    if (!err && s->flip_b)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &flip, sizeof flip);
    if (!err)
        err = describe_epilogue(p);
    if (!err)
        err = describe_accumulation(p);
    if (!err)
        err = cublas_rc(lt->cublasLtMatrixLayoutCreate(
            &p->a, cuda_type_of(s->in), s->flip_a ? k : m, s->flip_a ? m : k,
            s->flip_a ? s->k : s->m));
    if (!err)
        err = cublas_rc(lt->cublasLtMatrixLayoutCreate(
            &p->b, cuda_type_of(s->in_b), s->flip_b ? n : k, s->flip_b ? k : n,
            s->flip_b ? s->n : s->k));
    if (!err)
        err = cublas_rc(
            lt->cublasLtMatrixLayoutCreate(&p->c, cuda_type_of(s->out), m, n, s->m));
    if (!err)
        err = describe_batch(s, p->a, s->m * s->k);
    if (!err)
        err = describe_batch(s, p->b, s->k * s->n);
    return err ? err : describe_batch(s, p->c, s->m * s->n);
}

static void destroy_descriptors(struct mdsk_cuda_gemm_plan *p)
{
    lt->cublasLtMatrixLayoutDestroy(p->c);
    lt->cublasLtMatrixLayoutDestroy(p->b);
    lt->cublasLtMatrixLayoutDestroy(p->a);
    lt->cublasLtMatmulDescDestroy(p->desc);
}

static int set_preference(cublasLtMatmulPreference_t pref,
                          cublasLtMatmulPreferenceAttributes_t what, const void *value,
                          size_t size)
{
    return cublas_rc(lt->cublasLtMatmulPreferenceSetAttribute(pref, what, value, size));
}

/* schemes: how partial sums along K may be added. */
static int set_preferences(cublasLtMatmulPreference_t pref,
                           const struct mdsk_cuda_gemm_shape *s, uint32_t schemes)
{
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
    };
    uint32_t alignment = (uint32_t)s->alignment;
    uint64_t workspace = WORKSPACE;
    int err = set_preference(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                             sizeof workspace);

    if (!err)
        err = set_preference(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                             sizeof schemes);
    for (int i = 0; !err && i < 4; i++)
        err = set_preference(pref, aligned[i], &alignment, sizeof alignment);
    return err;
}

/* Whether the algorithm ignores the end of K, which is a bug.  Algorithm 66 does so on
 * Hopper if it splits K into a number of parts that does not divide it, in CUDA 12.6
 * Update 2 to 13.4 (NVIDIA's issue 6580689).  Checked in every version: a library that
 * has the fix loses a candidate or two, for some shapes. */
static int drops_tail(const cublasLtMatmulAlgo_t *algo, int64_t k)
{
    const int32_t faulty = 66;
    int32_t id = 0, splits = 0;

    if (lt->cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_ID, &id,
                                                 sizeof id, NULL) ||
        lt->cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM,
                                                 &splits, sizeof splits, NULL))
        return 1;
    return id == faulty && splits > 1 && k % splits != 0;
}

static int find_candidates_with(struct mdsk_cuda_gemm_plan *p, uint32_t schemes)
{
    cublasLtMatmulHeuristicResult_t guess[SUGGESTIONS];
    cublasLtMatmulPreference_t pref;
    int n = 0, err = cublas_rc(lt->cublasLtMatmulPreferenceCreate(&pref));

    if (err)
        return err;
    err = set_preferences(pref, &p->shape, schemes);
    if (!err && lt->cublasLtMatmulAlgoGetHeuristic(handle, p->desc, p->a, p->b, p->c,
                                                   p->c, pref, SUGGESTIONS, guess,
                                                   &n) != CUBLAS_STATUS_SUCCESS)
        n = 0;
    for (int i = 0; i < n && p->candidates < MDSK_CUDA_CANDIDATES; i++)
        if (!drops_tail(&guess[i].algo, p->shape.k))
            p->candidate[p->candidates++] = guess[i].algo;
    lt->cublasLtMatmulPreferenceDestroy(pref);
    return err;
}

/* The candidates, best guess first; there may be none.  Partial sums are added in f32
 * and in order.  If all candidates split K and ignore its end (256 x 768 weights over
 * 131,080 rows, cuBLASLt 13.1), use candidates that do not split K. */
static int find_candidates(struct mdsk_cuda_gemm_plan *p)
{
    int err = find_candidates_with(p, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);

    if (err || p->candidates > 0)
        return err;
    return find_candidates_with(p, CUBLASLT_REDUCTION_SCHEME_NONE);
}

static int set_pointers(const struct mdsk_cuda_gemm_plan *p,
                        const struct mdsk_cuda_gemm_operands *o)
{
    int err = 0;

    if (o->bias)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &o->bias,
                       sizeof o->bias);
    if (!err && o->aux)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &o->aux,
                       sizeof o->aux);
    if (!err && o->scale_a)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &o->scale_a,
                       sizeof o->scale_a);
    if (!err && o->scale_b)
        err = set_desc(p->desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &o->scale_b,
                       sizeof o->scale_b);
    return err;
}

int mdsk_cuda_run_gemm_plan(cudaStream_t stream, const struct mdsk_cuda_gemm_plan *p,
                            const struct mdsk_cuda_gemm_operands *o)
{
    const float plain[] = {1, 1}, zero = 0, *factors = o->factors ? o->factors : plain;
    void *workspace = mdsk_cuda_scratch(stream, MDSK_CUDA_GEMM, WORKSPACE);
    int err;

    if (!workspace)
        return -ENOMEM;
    err = set_pointers(p, o);
    if (err)
        return err;
    return cublas_rc(lt->cublasLtMatmul(handle, p->desc, &factors[0], o->a, p->a, o->b,
                                        p->b, p->shape.add ? &factors[1] : &zero,
                                        o->z ? o->z : o->c, p->c, o->c, p->c, &p->algo,
                                        workspace, WORKSPACE, stream));
}

static int open_handle(void)
{
    int err = handle ? 0 : mdsk_cuda_open();

    return err || handle ? err : cublas_rc(lt->cublasLtCreate(&handle));
}

int mdsk_cuda_init_gemm_plan(struct mdsk_cuda_gemm_plan *p,
                             const struct mdsk_cuda_gemm_operands *o)
{
    int err = open_handle();

    if (err)
        return err;
    err = create_descriptors(p);
    if (!err)
        err = set_pointers(p, o);
    if (!err)
        err = find_candidates(p);
    if (err)
        destroy_descriptors(p);
    p->usable = !err && p->candidates > 0;
    if (p->usable)
        p->algo = p->candidate[0];
    return err;
}

struct mdsk_cuda_gemm_shape
mdsk_cuda_gemm_shape_of(int64_t m, int64_t n, int64_t k, enum mdsk_dtype in,
                        enum mdsk_dtype out, const struct mdsk_cuda_gemm_operands *o)
{
    const void *addresses[] = {o->a, o->b, o->c, o->bias, o->aux, o->z};
    struct mdsk_cuda_gemm_shape s;

    memset(&s, 0, sizeof s);
    s.m = m;
    s.n = n;
    s.k = k;
    s.batch = 1;
    s.in = s.in_b = (int32_t)in;
    s.out = (int32_t)out;
    s.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    s.alignment = alignment_of(addresses, 6); /* NULL is aligned */
    return s;
}
