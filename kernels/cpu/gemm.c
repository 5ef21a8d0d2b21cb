/* SPDX-License-Identifier: BSD-3-Clause */
/* GEMMs by OpenBLAS or the built-in one.  OpenBLAS computes tiles of C, each on the
 * thread that calls it: threads of its own would be a second pool, and each pool spins
 * while the other computes (docs/adr/0063). */
#include "kernels/cpu/gemm.h"
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>

#include "kernels/cpu/cpu.h"
#include "kernels/library.h"

#define CALLS(X)                                                                       \
    X(cblas_sgemm)                                                                     \
    X(openblas_set_num_threads) X(openblas_get_config) X(openblas_get_corename)

#ifdef MDS_OPENBLAS_FILE
static struct {
    CALLS(MDSK_LIBRARY_CALL)
} blas;

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
static int load_openblas(void)
{
    static const char *const names[] = {CALLS(MDSK_LIBRARY_NAME) NULL};
    const char *newer;
    int err;

    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    err = mdsk_library_open(MDS_OPENBLAS_FILE, names, &blas);
    newer = err ? NULL : newer_kernels();
    if (newer) {
        setenv("OPENBLAS_CORETYPE", newer, 1);
        mdsk_library_close(MDS_OPENBLAS_FILE);
        err = mdsk_library_open(MDS_OPENBLAS_FILE, names, &blas);
    }
    return err;
}

#else
static const struct {
    CALLS(MDSK_LIBRARY_CALL)
} blas = {CALLS(MDSK_LIBRARY_LINKED)};

static int load_openblas(void)
{
    return 0;
}
#endif

/* Threads that may be inside OpenBLAS at once: it has memory for those that it was
 * built for, and no locks if that is one.  0: it is not open. */
static int callers;

static int open_openblas(void)
{
    const char *most;
    int err = callers ? 0 : load_openblas();

    if (err || callers)
        return err;
    blas.openblas_set_num_threads(1);
    most = strstr(blas.openblas_get_config(), "MAX_THREADS=");
    callers = most ? atoi(strchr(most, '=') + 1) : 1;
    return 0;
}

/* How C is split: into down x across tiles of m x n, fewer at its edges.  By the shapes
 * alone: OpenBLAS may add up in another order in a product of another shape, so the
 * bits are then the same for any number of threads. */
struct tiles {
    int64_t down, across, m, n;
};

/* The size of one of `parts` parts of n, in whole vectors. */
static int64_t part_of(int64_t n, int64_t parts)
{
    const int64_t vector = 16;

    return mdsk_ceil_div(mdsk_ceil_div(n, parts), vector) * vector;
}

/* Each tile packs its rows of A and columns of B anew: two tiles of 512 x 960 cost one
 * thread 2 % beside C as a whole, four of 256 x 320 7 % (AVX-512).  So there are two
 * where this is worth a thread's start, and more of them for more work only. */
static int worth_halving(int64_t tiles, int64_t edge, int64_t products)
{
    enum { FEW = 8, WIDE = 1024, NARROW = 256, START = 1 << 23, MORE = 1 << 27 };

    return edge >= NARROW && products / 2 >= (tiles == 1 ? START : MORE) &&
           (tiles < FEW || edge > WIDE);
}

static struct tiles tiles_of(int64_t m, int64_t n, int64_t k)
{
    struct tiles t = {1, 1, m, n};

    while (worth_halving(t.down * t.across, mdsk_max(t.m, t.n), t.m * t.n * k)) {
        if (t.m >= t.n)
            t.m = part_of(m, t.down *= 2);
        else
            t.n = part_of(n, t.across *= 2);
    }
    t.down = mdsk_ceil_div(m, t.m);
    t.across = mdsk_ceil_div(n, t.n);
    return t;
}

static inline int threads_for(int64_t work, int64_t tiles)
{
    return (int)mdsk_min(mdsk_threads_for(work), mdsk_min(tiles, callers));
}

int mdsk_gemm(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
              const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    const struct tiles tiles = tiles_of(m, n, k);
    const int64_t count = tiles.down * tiles.across;
    int err = open_openblas();

    if (err)
        return err;
#pragma omp parallel num_threads(threads_for(m *n / 16 * k, count))
    {
        omp_set_num_threads(1); /* an OpenBLAS that uses OpenMP asks for this */
#pragma omp for schedule(dynamic)
        for (int64_t t = 0; t < count; t++) {
            int64_t i = t / tiles.across * tiles.m, j = t % tiles.across * tiles.n;

            blas.cblas_sgemm(CblasRowMajor, a->transposed ? CblasTrans : CblasNoTrans,
                             b->transposed ? CblasTrans : CblasNoTrans,
                             (blasint)mdsk_min(tiles.m, m - i),
                             (blasint)mdsk_min(tiles.n, n - j), (blasint)k, 1,
                             a->data + (a->transposed ? i : i * a->ld), (blasint)a->ld,
                             b->data + (b->transposed ? j * b->ld : j), (blasint)b->ld,
                             add ? 1 : 0, c + i * ldc + j, (blasint)ldc);
        }
    }
    return 0;
}

/* A product for each of n threads, all at once.  Large enough to need OpenBLAS's
 * memory; small itself, as the C library keeps more for itself once it has freed
 * something large. */
static int warm_up_openblas(int n)
{
    enum { EDGE = 256 };
    const size_t size = (size_t)EDGE * EDGE;
    int err = open_openblas();
    float *x = err ? NULL : calloc((size_t)(n + 1) * size, sizeof *x);

    if (!x)
        return err ? err : -ENOMEM;
#pragma omp parallel num_threads((int)mdsk_min(n, callers))
    {
        omp_set_num_threads(1);
        blas.cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, EDGE, EDGE, EDGE, 1,
                         x, EDGE, x, EDGE, 0,
                         x + (size_t)(1 + omp_get_thread_num()) * size, EDGE);
    }
    free(x);
    return 0;
}

/* OpenBLAS allocates memory for each caller, when it is opened or in its GEMMs: 128 MiB
 * of addresses on x86-64; besides the threads' stacks and the library itself.  If that
 * is refused it tries again for ever, so it is checked first. */
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
    err = warm_up_openblas(n);
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
