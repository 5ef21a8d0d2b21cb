/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend: one function per operation.  Returns 0 or -errno; queued on stream. */
#ifndef MDSK_TABLE_H
#define MDSK_TABLE_H

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/norm.h"
#include "kernels/operations.h"
#include "kernels/optimizer.h"
#include "kernels/rope.h"

struct mdsk_table {
    const char *name;
    uint32_t dtypes; /* bit 1 << t: weights and activations may be of type t */
#define MDSK_MEMBER(NAME, name) int (*name)(void *stream, const struct mdsk_##name *a);
    MDSK_OPERATIONS(MDSK_MEMBER)
#undef MDSK_MEMBER
};

#define MDSK_DECLARE(NAME, name)                                                       \
    struct mdsk_cost mdsk_##name##_cost(const struct mdsk_##name *a);                  \
    int mdsk_##name##_cpu(void *stream, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDSK_DECLARE)
#undef MDSK_DECLARE

/* The cpu backend; its streams are ignored, every call is finished when it returns. */
const struct mdsk_table *mdsk_cpu(void);

/* Threads the cpu backend uses from now on (its own loops and the BLAS); n >= 1. */
void mdsk_cpu_set_threads(int n);

/* The same, and whatever else the first product needs: before anything is computed.
 * Returns 0; -ENOMEM: there is no room for the BLAS; -ENOENT: it cannot be opened, and
 * mdsk_library_why (kernels/library.h) says why. */
int mdsk_cpu_start(int n);

/* Zero bytes, by all threads. */
void mdsk_cpu_zero(void *p, int64_t bytes);

/* "OpenBLAS 0.3.21, 2 threads" or "built-in products, 2 threads".  Static. */
const char *mdsk_cpu_describe(void);

#endif
