/* SPDX-License-Identifier: BSD-3-Clause */
/* A stand-in for cuBLASLt that multiplies on the cpu what it is described, with
 * epilogues, and has a clock of its own: a test sets how long each algorithm takes. */
#ifndef TESTS_KERNELS_FAKE_CUBLAS_H
#define TESTS_KERNELS_FAKE_CUBLAS_H

#include <stdint.h>

#include "kernels/types.h"

enum { FAKE_ALGOS = 12, FAKE_EVENTS = 64 };

struct fake_cublas {
    float ms[FAKE_ALGOS];       /* of a product by each algorithm */
    int32_t id[FAKE_ALGOS];     /* 66: leaves out what splits[] does not divide */
    int32_t splits[FAKE_ALGOS]; /* of K */
    float epilogue_ms;          /* more, if it does more than multiply */
    float separate_ms;          /* of GELU or column sums by themselves */
    int no_epilogue;            /* no algorithm has one */
    int nothing;                /* there is no algorithm at all */
    int most;                   /* suggestions at a time; 0: all */
    int repeatable;
    double seconds; /* on the host's clock */
    /* what was done */
    int searches, products, beside, events, allocations;
    uint64_t last_algo;
    int32_t last_epilogue;
    int last_fast; /* FP8: sums in fewer bits */
    float clock_ms, event_ms[FAKE_EVENTS];
};

extern struct fake_cublas fake;

/* Number i of an array of a type. */
float fake_get(enum mdsk_dtype t, const void *p, int64_t i);
void fake_put(enum mdsk_dtype t, void *p, int64_t i, float x);

#endif
