/* SPDX-License-Identifier: BSD-3-Clause */
/* A sample of a test's cases, where all of them would take minutes: builds with
 * sanitizers, or without libraries and SIMD (.ci/run). */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#include <stdlib.h>

/* Whether to try case n.  If TEST_SAMPLE is set, of `of` cases in a row only one,
 * the first, of the next ones the second, and so on: what varies fastest has every
 * value. */
static inline int is_sampled(int n, int of)
{
    return !getenv("TEST_SAMPLE") || n % of == n / of % of;
}

#endif
