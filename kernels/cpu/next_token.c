/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

int mdsk_next_token_cpu(void *stream, const struct mdsk_next_token *a)
{
    float *staging = mdsk_scratch(mdsk_staging_floats(a->dtype, a->V));

    (void)stream;
    if (!staging)
        return -ENOMEM;
    for (int64_t b = 0; b < a->B; b++) {
        const float *row = mdsk_read(a->dtype, a->logits, b * a->stride, a->V, staging);
        int64_t at = -(int64_t)a->start[b] % MDSK_TOKENS_AHEAD;

        a->token[b] = a->made[at * a->B + b] = mdsk_likeliest(row, a->V);
        a->start[b]--;
    }
    *a->place = -a->start[0];
    return 0;
}
