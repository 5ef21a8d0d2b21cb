/* The product library, and its name. */
#include "kernels/cpu/product.h"

#include <stdio.h>

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
