#include "kernels/linear.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/product.h"

/* The product adds to the bias instead of a second pass over y. */
int mdsk_linear_fwd_cpu(void *stream, const struct mdsk_linear_fwd *a)
{
    struct mdsk_operand x = {a->x, a->in, 0}, w = {a->w, a->in, 1};
    float *y = a->y;

    (void)stream;
    if (a->b) {
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(a->R * a->out))
        for (int64_t r = 0; r < a->R; r++)
            memcpy(y + r * a->out, a->b, (size_t)a->out * sizeof *y);
    }
    return mdsk_product(a->R, a->out, a->in, &x, &w, y, a->out, a->b != NULL);
}

int mdsk_linear_bwd_input_cpu(void *stream, const struct mdsk_linear_bwd_input *a)
{
    struct mdsk_operand dy = {a->dy, a->out, 0}, w = {a->w, a->in, 0};

    (void)stream;
    return mdsk_product(a->R, a->in, a->out, &dy, &w, a->dx, a->in, 0);
}

/* sum += column sums of rows r0 .. r1-1 of x [.., n], through blocks of 64 rows, so
 * that rounding grows with the blocks and not with the rows. */
MDSK_DISPATCH static void sum_rows(const float *x, int64_t r0, int64_t r1, int64_t n,
                                   float *block, float *sum)
{
    for (int64_t b0 = r0; b0 < r1; b0 += 64) {
        int64_t b1 = mdsk_min(b0 + 64, r1);

        memset(block, 0, (size_t)n * sizeof *block);
        for (int64_t r = b0; r < b1; r++)
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                block[i] += x[r * n + i];
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += block[i];
    }
}

static int add_column_sums(const float *x, int64_t R, int64_t n, float *out)
{
    int64_t parts = mdsk_parts(R), rows = mdsk_ceil_div(R, parts);
    float *room = mdsk_scratch(2 * parts * n);

    if (!room)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(R *n))
    for (int64_t p = 0; p < parts; p++) {
        memset(room + p * n, 0, (size_t)n * sizeof *room);
        sum_rows(x, p * rows, mdsk_min(R, (p + 1) * rows), n, room + (parts + p) * n,
                 room + p * n);
    }
    mdsk_add_partials(parts, n, room, out);
    return 0;
}

int mdsk_linear_bwd_weight_cpu(void *stream, const struct mdsk_linear_bwd_weight *a)
{
    struct mdsk_operand dy = {a->dy, a->out, 1}, x = {a->x, a->in, 0};

    (void)stream;
    if (a->db) {
        int err = add_column_sums(a->dy, a->R, a->out, a->db);

        if (err)
            return err;
    }
    return mdsk_product(a->out, a->in, a->R, &dy, &x, a->dw, a->in, 1);
}
