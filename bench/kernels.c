/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast the kernels are beside what the device can do.
 *
 *   bench/kernels [-d cpu|cuda] [-p f32|bf16|f16] [-t THREADS] [WORK...]
 *
 * Shapes are those of a GPT: on the cpu of 10M parameters, on a GPU of 1.3B.  The floor
 * of a product, and of attention, is its flops at the rate of one large product; that
 * of the others is their bytes at the speed of a copy.
 *
 * WORK, if any, is timed instead: product=ROWS,IN,OUT, fp8-product= the same, or
 * attention=SEQUENCES,TOKENS,HEADS,HEAD_DIM[,WINDOW], in seconds, or copy, in bytes
 * read and written a second, for bench/ceiling.py and bench/account.py; or, beside
 * their floors, norm=ROWS,COLUMNS, fp8-cast=ROWS,COLUMNS,
 * embedding=TOKENS,HIDDEN,WORDS, loss=ROWS,WORDS, and step=PARAMETERS, the optimizer's
 * part of a step; or beside one product of all rows, experts=ROWS,IN,OUT,EXPERTS. */
#include "bench/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int print_usage(void)
{
    fprintf(stderr, "usage: bench/kernels [-d cpu|cuda] [-p f32|bf16|f16] [-t THREADS] "
                    "[product=ROWS,IN,OUT | fp8-product=ROWS,IN,OUT | "
                    "attention=SEQUENCES,TOKENS,HEADS,HEAD_DIM[,WINDOW] | "
                    "norm=ROWS,COLUMNS | fp8-cast=ROWS,COLUMNS | "
                    "embedding=TOKENS,HIDDEN,WORDS | loss=ROWS,WORDS | "
                    "step=PARAMETERS | experts=ROWS,IN,OUT,EXPERTS | copy]...\n");
    return 1;
}

/* Whether the name is that of a type. */
static int read_dtype(const char *name, enum mdsk_dtype *dtype)
{
    static const char *const names[] = {"f32", "bf16", "f16"};

    for (int t = MDSK_F32; t <= MDSK_F16; t++) {
        if (strcmp(name, names[t]) == 0) {
            *dtype = (enum mdsk_dtype)t;
            return 1;
        }
    }
    return 0;
}

static int run_work(const struct bench *b, const char *word)
{
    long long n[5] = {0};

    if (sscanf(word, "product=%lld,%lld,%lld", &n[0], &n[1], &n[2]) == 3)
        bench_product(b, n[0], n[1], n[2]);
    else if (sscanf(word, "fp8-product=%lld,%lld,%lld", &n[0], &n[1], &n[2]) == 3)
        bench_fp8_product(b, n[0], n[1], n[2]);
    else if (sscanf(word, "attention=%lld,%lld,%lld,%lld,%lld", &n[0], &n[1], &n[2],
                    &n[3], &n[4]) >= 4)
        bench_attention(b, n[0], n[1], n[2], n[3], n[4]);
    else if (sscanf(word, "norm=%lld,%lld", &n[0], &n[1]) == 2)
        bench_norm(b, n[0], n[1]);
    else if (sscanf(word, "fp8-cast=%lld,%lld", &n[0], &n[1]) == 2)
        bench_fp8_cast(b, n[0], n[1]);
    else if (sscanf(word, "embedding=%lld,%lld,%lld", &n[0], &n[1], &n[2]) == 3)
        bench_embedding(b, n[0], n[1], (int32_t)n[2]);
    else if (sscanf(word, "loss=%lld,%lld", &n[0], &n[1]) == 2)
        bench_loss(b, n[0], (int32_t)n[1]);
    else if (sscanf(word, "step=%lld", &n[0]) == 1 && n[0] > 0)
        bench_step(b, n[0]);
    else if (sscanf(word, "experts=%lld,%lld,%lld,%lld", &n[0], &n[1], &n[2], &n[3]) ==
             4)
        bench_experts(b, n[0], n[1], n[2], n[3]);
    else if (strcmp(word, "copy") == 0)
        printf("copy %.6g\n", 1e9 / b->dev->copy_s(1e9));
    else
        return 0;
    fflush(stdout);
    return 1;
}

static const struct bench_device *find_device(const char *name, int threads)
{
    if (strcmp(name, "cuda") == 0)
        return bench_cuda();
    return strcmp(name, "cpu") == 0 ? bench_cpu(threads) : NULL;
}

int main(int argc, char **argv)
{
    const char *name = "cpu";
    struct bench b = {.dtype = MDSK_F32};
    int threads = 2, c;

    while ((c = getopt(argc, argv, "d:p:t:")) != -1) {
        if (c == 'd')
            name = optarg;
        else if (c == 't' && atoi(optarg) > 0)
            threads = atoi(optarg);
        else if (c != 'p' || !read_dtype(optarg, &b.dtype))
            return print_usage();
    }
    b.dev = find_device(name, threads);
    if (!b.dev) {
        fprintf(stderr, "bench/kernels: no device %s in this build\n", name);
        return 1;
    }
    b.kern = b.dev->kernels();
    if (optind == argc) {
        b.dev->describe();
        bench_operations(&b);
    }
    for (int i = optind; i < argc; i++)
        if (!run_work(&b, argv[i]))
            return print_usage();
    return 0;
}
