/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that begin before the one queued before them is done (programmatic dependent
 * launch, of Hopper and later): they read what no kernel writes, such as weights, and
 * then wait.
 *
 * CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization". */
#ifndef MDSK_CUDA_EARLY_CUH
#define MDSK_CUDA_EARLY_CUH

#include "kernels/cuda/cuda.h"

namespace mdsk
{

/* The next kernel may begin, if it was launched by launch_early.  Called first by
 * kernels that leave most of the GPU idle; what they write is seen by the next one
 * behind its wait_for_earlier. */
__device__ inline void let_next_begin()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/* All that was queued before this kernel is done.  Kernels of launch_early call it
 * before they read what others write, and before they write. */
__device__ inline void wait_for_earlier()
{
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Whether the code that runs has that instruction: that for an older GPU, compiled for
 * this one by the driver, would not wait. */
inline bool can_begin_early(const void *kernel)
{
    struct cudaFuncAttributes is;

    return mdsk_cuda_capability() >= 90 &&
           cudaFuncGetAttributes(&is, kernel) == cudaSuccess && is.ptxVersion >= 90;
}

template <class P> struct as_is {
    typedef P type;
};

template <class... P>
int launch_early(void (*kernel)(P...), dim3 blocks, dim3 threads, void *stream,
                 typename as_is<P>::type... args)
{
    void *at[] = {(void *)&args...};
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t config = {};
    cudaError_t err;

    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = (cudaStream_t)stream;
    config.attrs = &early;
    config.numAttrs = can_begin_early((const void *)kernel) ? 1 : 0;
    err = cudaLaunchKernelExC(&config, (const void *)kernel, at);
    if (err != cudaSuccess)
        cudaGetLastError(); /* returned here; clear it for the next launch */
    return mdsk_cuda_rc(err);
}

} // namespace mdsk

#endif
