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
#include "kernels/optimizer.h"
#include "kernels/rope.h"

struct mdsk_table {
    const char *name;
    uint32_t dtypes; /* bit 1 << t: weights and activations may be of type t */
    int (*linear_fwd)(void *stream, const struct mdsk_linear_fwd *a);
    int (*linear_bwd_input)(void *stream, const struct mdsk_linear_bwd_input *a);
    int (*linear_bwd_weight)(void *stream, const struct mdsk_linear_bwd_weight *a);
    int (*norm_fwd)(void *stream, const struct mdsk_norm_fwd *a);
    int (*norm_bwd)(void *stream, const struct mdsk_norm_bwd *a);
    int (*attention_fwd)(void *stream, const struct mdsk_attention_fwd *a);
    int (*attention_bwd)(void *stream, const struct mdsk_attention_bwd *a);
    int (*attention_merge)(void *stream, const struct mdsk_attention_merge *a);
    int (*rope)(void *stream, const struct mdsk_rope *a);
    int (*activation_fwd)(void *stream, const struct mdsk_activation_fwd *a);
    int (*activation_bwd)(void *stream, const struct mdsk_activation_bwd *a);
    int (*embedding_fwd)(void *stream, const struct mdsk_embedding_fwd *a);
    int (*embedding_bwd)(void *stream, const struct mdsk_embedding_bwd *a);
    int (*xent_stats)(void *stream, const struct mdsk_xent_stats *a);
    int (*xent_loss)(void *stream, const struct mdsk_xent_loss *a);
    int (*xent_bwd)(void *stream, const struct mdsk_xent_bwd *a);
    int (*dropout)(void *stream, const struct mdsk_dropout *a);
    int (*copy_rows)(void *stream, const struct mdsk_copy_rows *a);
    int (*cast)(void *stream, const struct mdsk_cast *a);
    int (*add)(void *stream, const struct mdsk_add *a);
    int (*sum_squares)(void *stream, const struct mdsk_sum_squares *a);
    int (*adamw)(void *stream, const struct mdsk_adamw *a);
};

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
