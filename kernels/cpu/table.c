/* SPDX-License-Identifier: BSD-3-Clause */
/* The cpu backend: its kernels and its threads. */
#include "kernels/table.h"

#include <stdio.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/gemm.h"

static const struct mdsk_table table = {
    .name = "cpu",
    .dtypes = 1u << MDSK_F32 | 1u << MDSK_BF16 | 1u << MDSK_F16,
#define ENTRY(NAME, name) .name = mdsk_##name##_cpu,
    MDSK_OPERATIONS(ENTRY)
#undef ENTRY
};

const struct mdsk_table *mdsk_cpu(void)
{
    return &table;
}

void mdsk_cpu_set_threads(int n)
{
    mdsk_set_threads(n);
}

int mdsk_cpu_start(int n)
{
    mdsk_set_threads(n);
    return mdsk_gemm_start(n);
}

const char *mdsk_cpu_describe(void)
{
    static char text[96];
    char library[64];

    mdsk_gemm_library(library, sizeof library);
    snprintf(text, sizeof text, "%s, %d thread%s", library, mdsk_threads(),
             mdsk_threads() == 1 ? "" : "s");
    return text;
}
