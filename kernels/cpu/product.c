/* The product library, and its name. */
#include "kernels/cpu/product.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "kernels/cpu/cpu.h"
#include "kernels/table.h"

#ifdef HAVE_OPENBLAS
#include <cblas.h>

int mdsk_product(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                 const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    cblas_sgemm(CblasRowMajor, a->transposed ? CblasTrans : CblasNoTrans,
                b->transposed ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n,
                (blasint)k, 1, a->data, (blasint)a->ld, b->data, (blasint)b->ld,
                add ? 1 : 0, c, (blasint)ldc);
    return 0;
}

void mdsk_product_set_threads(int n)
{
    openblas_set_num_threads(n);
}

/* For all threads; a smaller one would be made by one of them. */
static int first_product(void)
{
    const int n = 256;
    float *m = calloc(2 * (size_t)n * n, sizeof *m);

    if (!m)
        return -ENOMEM;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, m, n, m, n, 1,
                m + n * n, n);
    free(m);
    return 0;
}

/* OpenBLAS takes room for a thread when the thread first has work, and where it is
 * refused asks again without end: 128 MiB of addresses on x86-64, and a stack. */
int mdsk_product_start(int n)
{
    const size_t size = (size_t)n * (136 << 20);
    void *room =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (room == MAP_FAILED)
        return -ENOMEM;
    munmap(room, size);
    mdsk_product_set_threads(n);
    return first_product();
}

static void library_name(char *out, size_t size)
{
    char name[24] = "OpenBLAS", version[24] = "";

    sscanf(openblas_get_config(), "%23s %23s", name, version);
    snprintf(out, size, "%s %s", name, version);
}

#else

int mdsk_product(int64_t m, int64_t n, int64_t k, const struct mdsk_operand *a,
                 const struct mdsk_operand *b, float *c, int64_t ldc, int add)
{
    return mdsk_gemm(m, n, k, a, b, c, ldc, add);
}

void mdsk_product_set_threads(int n)
{
    (void)n;
}

int mdsk_product_start(int n)
{
    (void)n;
    return 0;
}

static void library_name(char *out, size_t size)
{
    snprintf(out, size, "built-in products");
}

#endif

const char *mdsk_cpu_describe(void)
{
    static char text[96];
    char library[64];

    library_name(library, sizeof library);
    snprintf(text, sizeof text, "%s, %d thread%s", library, mdsk_threads(),
             mdsk_threads() == 1 ? "" : "s");
    return text;
}
