/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensor maps.  The driver's call is reached through the runtime, so no further library
 * is linked. */
#include "kernels/cuda/hopper/tensor_map.h"

#include <errno.h>

#define MOST_BYTES (INT64_C(1) << 40)

typedef CUresult encode_call(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                             const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                             const cuuint32_t *, CUtensorMapInterleave,
                             CUtensorMapSwizzle, CUtensorMapL2promotion,
                             CUtensorMapFloatOOBfill);

/* cuTensorMapEncodeTiled, or NULL. */
static encode_call *find_encode(void)
{
    static encode_call *encode;
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;

    if (encode)
        return encode;
#if CUDART_VERSION >= 12050
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                     cudaEnableDefault, &result);
#else
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault,
                            &result);
#endif
    if (result == cudaDriverEntryPointSuccess)
        *(void **)&encode = found;
    return encode;
}

static CUtensorMapDataType type_of(enum mdsk_dtype dtype)
{
    if (dtype == MDSK_F32)
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    return dtype == MDSK_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                              : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

int mdsk_tensor_map(CUtensorMap *map, enum mdsk_dtype dtype, void *data,
                    const int64_t dim[4], const int64_t stride[3], const int box[4],
                    int swizzled)
{
    const int64_t bytes = dtype == MDSK_F32 ? 4 : 2;
    cuuint64_t dims[4], strides[3];
    cuuint32_t boxes[4], steps[4] = {1, 1, 1, 1};
    encode_call *encode = find_encode();

    if (!encode)
        return mdsk_cuda_fail("CUDA", "the driver has no cuTensorMapEncodeTiled");
    for (int i = 0; i < 4; i++) {
        dims[i] = (cuuint64_t)dim[i];
        boxes[i] = (cuuint32_t)box[i];
    }
    for (int i = 0; i < 3; i++)
        strides[i] = dim[i + 1] > 1 ? (cuuint64_t)(stride[i] * bytes) : 16;
    if (encode(map, type_of(dtype), 4, data, dims, strides, boxes, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE,
               swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        return mdsk_cuda_fail("CUDA", "the driver refused a tensor map of attention");
    return 0;
}

/* A stride of a dimension of one is not used. */
static int is_stride(int64_t stride, int64_t n)
{
    return n == 1 || (stride > 0 && stride % 8 == 0 && 2 * stride < MOST_BYTES);
}

int mdsk_tensor_map_can(const struct mdsk_heads *x, int64_t B, int64_t heads,
                        int64_t tokens, int64_t D)
{
    return (uintptr_t)x->data % 16 == 0 && is_stride(x->batch_stride, B) &&
           is_stride(x->head_stride, heads) && is_stride(x->token_stride, tokens) &&
           B > 0 && heads > 0 && tokens > 0 && tokens < INT32_MAX - 1024 && D > 0;
}

int mdsk_tensor_map_heads(CUtensorMap *map, const struct mdsk_heads *x, int64_t B,
                          int64_t heads, int64_t tokens, int64_t D,
                          enum mdsk_dtype dtype, int rows)
{
    const int64_t dim[4] = {D, tokens, heads, B};
    const int64_t stride[3] = {x->token_stride, x->head_stride, x->batch_stride};
    const int box[4] = {64, rows, 1, 1};

    return mdsk_tensor_map(map, dtype, x->data, dim, stride, box, 1);
}
