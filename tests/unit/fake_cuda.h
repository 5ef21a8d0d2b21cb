/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for the CUDA runtime, as far as src/device/cuda.c and transport use it.
 *
 * What is queued on a stream is done as late as may be: when the host waits for it, or
 * piece by piece while the host asks whether it is done.  So whoever changes memory too
 * early, or reads it without having waited, is seen. */
#ifndef TESTS_UNIT_FAKE_CUDA_H
#define TESTS_UNIT_FAKE_CUDA_H

#include <cuda_runtime_api.h>
#include <stddef.h>

struct fake_cuda {
    int gpus, device; /* there are; chosen, -1: none */
    cudaError_t count_code;
    int capability; /* 10 major + minor */
    int has_kernels;
    size_t memory, memory_left;
    int allocated, pinned, streams, events, graphs; /* not given back */
    cudaError_t fault; /* of the next copy, and of all that comes after it */
    int stuck;         /* nothing is ever done */
};

extern struct fake_cuda fake_cuda;

/* As if the process had just begun. */
void fake_cuda_start(void);

#endif
