/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMs by OpenBLAS or the built-in one. */
#include "kernels/cpu/gemm.h"
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>

#include "kernels/library.h"

#define CALLS(X)                                                                       \
    X(cblas_sgemm)                                                                     \
    X(openblas_set_num_threads) X(openblas_get_config) X(openblas_get_corename)

#ifdef MDS_OPENBLAS_FILE
static struct {
    CALLS(MDSK_LIBRARY_CALL)
} blas;

static int wanted_threads; /* 0: OpenBLAS's default */

/* The kernels that this CPU can run, if OpenBLAS has not found them: it goes by the
 * model of the CPU, and on one that is newer than itself it takes those of 2004, a
 * fifth as fast.  NULL: those that it has are right, or OPENBLAS_CORETYPE says which.
 */
static const char *newer_kernels(void)
{
    static const char *const last_resorts[] = {"Katmai", "Prescott", "Barcelona"};
    const char *best = NULL;

#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        best = "SkylakeX";
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        best = "Haswell";
#endif
    for (size_t i = 0; i < sizeof last_resorts / sizeof *last_resorts; i++)
        if (!strcmp(blas.openblas_get_corename(), last_resorts[i]))
            return getenv("OPENBLAS_CORETYPE") ? NULL : best;
    return NULL;
}

/* OpenBLAS starts its threads when it is opened: one per core unless told otherwise. */
static int open_openblas(void)
{
    static const char *const names[] = {CALLS(MDSK_LIBRARY_NAME) NULL};
    const char *newer;
    char n[16];
    int err;

    if (blas.cblas_sgemm)
        return 0;
    snprintf(n, sizeof n, "%d", wanted_threads);
    if (wanted_threads > 0)
        setenv("OPENBLAS_NUM_THREADS", n, 1);
    err = mdsk_library_open(MDS_OPENBLAS_FILE, names, &blas);
    newer = err ? NULL : newer_kernels();
    if (newer) {
        setenv("OPENBLAS_CORETYPE", newer, 1);
        mdsk_library_close(MDS_OPENBLAS_FILE);
        err = mdsk_library_open(MDS_OPENBLAS_FILE, names, &blas);
    }
    if (!err && wanted_threads > 0)
        blas.openblas_set_num_threads(wanted_threads);
    return err;
}

void mdsk_gemm_set_threads(int n)
{
    wanted_threads = n;
    if (blas.cblas_sgemm)
        blas.openblas_set_num_threads(n);
}

#else
static const struct {
    CALLS(MDSK_LIBRARY_CALL)
} blas = {CALLS(MDSK_LIBRARY_LINKED)};

static int open_openblas(void)
{
    return 0;
}

void mdsk_gemm_set_threads(int n)
{
    blas.openblas_set_num_threads(n);
}
#endif

int mdsk_gemm(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
              const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    int err = open_openblas();

    if (err)
        return err;
    blas.cblas_sgemm(CblasRowMajor, a->transposed ? CblasTrans : CblasNoTrans,
                     b->transposed ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                     (blasint)k, 1, a->data, (blasint)a->ld, b->data, (blasint)b->ld,
                     add ? 1 : 0, c, (blasint)ldc);
    return 0;
}

/* A GEMM large enough for all threads. */
static int warm_up_openblas(void)
{
    const int64_t n = 256;
    float *m = calloc(2 * (size_t)(n * n), sizeof *m);
    const struct mdsk_operand zeros = {m, n, 0};
    int err = m ? mdsk_gemm(n, n, n, &zeros, &zeros, m + n * n, n, 0) : -ENOMEM;

    free(m);
    return err;
}

/* OpenBLAS allocates memory for each thread and for the caller, when it is opened or at
 * the first GEMM: 128 MiB of addresses on x86-64, and a stack; besides the library
 * itself.  If that is refused it tries again for ever, so it is checked first. */
static int has_memory_for(int n)
{
    const size_t size = ((size_t)(n + 1) * 136 + 64) << 20;
    void *pages =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return 0;
    munmap(pages, size);
    return 1;
}

int mdsk_gemm_start(int n)
{
    static int started; /* threads that have their memory */
    int err;

    if (n > started && !has_memory_for(n))
        return -ENOMEM;
    mdsk_gemm_set_threads(n);
    err = warm_up_openblas();
    if (!err && n > started)
        started = n;
    return err;
}

void mdsk_gemm_library(char *out, size_t size)
{
    char name[24] = "OpenBLAS", version[24] = "";
    const char *kernels = "not opened";

    if (!open_openblas()) {
        sscanf(blas.openblas_get_config(), "%23s %23s", name, version);
        kernels = blas.openblas_get_corename();
    }
    snprintf(out, size, "%s %s (%s)", name, version, kernels);
}

#else

int mdsk_gemm(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
              const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    return mdsk_gemm_builtin(m, n, k, a, b, c, ldc, add);
}

void mdsk_gemm_set_threads(int n)
{
    (void)n;
}

int mdsk_gemm_start(int n)
{
    (void)n;
    return 0;
}

void mdsk_gemm_library(char *out, size_t size)
{
    snprintf(out, size, "built-in products");
}

#endif
