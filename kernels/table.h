/* SPDX-License-Identifier: BSD-3-Clause */
/* A backend: one function per operation, which queues it on the stream and returns 0 or
 * -errno. */
#ifndef MDSK_TABLE_H
#define MDSK_TABLE_H

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/experts.h"
#include "kernels/fp8.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/next_token.h"
#include "kernels/norm.h"
#include "kernels/operations.h"
#include "kernels/optimizer.h"
#include "kernels/rope.h"

struct mdsk_table {
    const char *name;
    uint32_t dtypes; /* bit 1 << t: supports weights and activations of type t */
#define MDSK_MEMBER(NAME, name) int (*name)(void *stream, const struct mdsk_##name *a);
    MDSK_OPERATIONS(MDSK_MEMBER)
#undef MDSK_MEMBER
};

#define MDSK_DECLARE(NAME, name)                                                       \
    struct mdsk_cost mdsk_##name##_cost(const struct mdsk_##name *a);                  \
    int mdsk_##name##_cpu(void *stream, const struct mdsk_##name *a);
MDSK_OPERATIONS(MDSK_DECLARE)
#undef MDSK_DECLARE

/* The cpu backend.  It ignores streams: every call has completed when it returns. */
const struct mdsk_table *mdsk_cpu(void);

/* Set the number of threads of the cpu backend, products included; n >= 1. */
void mdsk_cpu_set_threads(int n);

/* The same, and open the BLAS and let it allocate; call it before anything is computed.
 * Returns 0; -ENOMEM if the BLAS gets no memory; -ENOENT if it cannot be opened: then
 * mdsk_library_error_text (kernels/library.h) says why. */
int mdsk_cpu_start(int n);

/* Zero memory with all threads. */
void mdsk_cpu_zero(void *p, int64_t bytes);

/* "OpenBLAS 0.3.21 (Haswell), 2 threads" or "built-in products, 2 threads".  Static. */
const char *mdsk_cpu_describe(void);

#endif
