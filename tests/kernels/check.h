/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel tests share: arrays kept as the kernel sees them and as the reference
 * does, distances between the two, and slopes by finite differences.
 *
 * References are plain loops in double, written here and nowhere else. */
#ifndef TESTS_KERNELS_CHECK_H
#define TESTS_KERNELS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/table.h"

/* The backend under test: that named by MDS_TEST_BACKEND, or cpu.  Arguments are in
 * host memory. */
const struct mdsk_table *backend(void);

/* n numbers twice: f is the kernel's, d the reference's; and h the kernel's where it
 * takes 16 bits. */
struct vec {
    int64_t n;
    float *f;
    double *d;
    uint16_t *h;
};

/* The types of weights and activations. */
enum { DTYPES = 3 };
extern const enum mdsk_dtype dtypes[DTYPES];

/* The same random numbers in both, normal-ish with the given spread; `seed` picks them.
 * Equal seeds give equal numbers. */
struct vec vec_random(int64_t n, uint32_t seed, double spread);

/* Filled with NaN: whoever writes it must write all of it. */
struct vec vec_unset(int64_t n);

struct vec vec_zero(int64_t n);

/* Copy what the kernel left to the reference's side. */
void vec_adopt(struct vec *v);

/* What the kernel gets where it takes type t: f, or h, to which f and d are rounded. */
void *vec_as(enum mdsk_dtype t, struct vec *v);

/* Let f be what the kernel left in h; nothing where t is f32. */
void vec_back(enum mdsk_dtype t, struct vec *v);

/* Bits of the largest magnitude of v->f. */
uint32_t vec_amax(const struct vec *v);

/* x as type t holds it. */
double rounded(enum mdsk_dtype t, double x);

void vec_free(struct vec *v);

/* Fail unless |f - d| <= tolerance * |d| (Euclidean norms over all n). */
void assert_near(const char *what, const struct vec *v, double tolerance);

/* The same of what is stored as type t: the kernel rounded it once.  Truncation, or
 * rounding twice, is more than is allowed here. */
void assert_near_as(enum mdsk_dtype t, const char *what, struct vec *v,
                    double tolerance);

/* The reference's loss at the numbers its inputs now hold. */
typedef double loss_fn(void *ctx);

/* Fail unless gradient[i] - before[i] is the central difference of the loss in x->d[i],
 * for up to `samples` i spread over x; before may be NULL for 0. */
void assert_slope(const char *what, struct vec *x, const float *gradient,
                  const float *before, loss_fn *loss, void *ctx, int samples);

/* Rotary frequencies theta^(-2i/rot), i < rot/2; until the next call. */
const double *rotary_frequencies(double theta, int64_t rot);

/* sum of y dy, the loss whose gradient in y is dy */
double inner(int64_t n, const double *y, const double *dy);

#endif
