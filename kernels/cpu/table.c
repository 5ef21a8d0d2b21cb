/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

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
