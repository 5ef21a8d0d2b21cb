/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/table.h"

#include <errno.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/storage.h"

static int64_t position_of(int64_t first_token, int64_t B, const int32_t *start,
                           int64_t r)
{
    return first_token + r / B - (start ? start[r] : 0);
}

/* staging [2H] */
static void embed_row(const struct mdsk_embedding_fwd *a, int64_t r, float *staging)
{
    int64_t H = a->H, w = a->token[r] - a->first_word;
    float *y = mdsk_fill(a->dtype, a->y, r * H, staging);

    if (w >= 0 && w < a->words)
        mdsk_widen(a->dtype, a->word, w * H, H, y);
    else
        memset(y, 0, (size_t)H * sizeof *y);
    if (a->position) {
        int64_t at = position_of(a->first_token, a->B, a->start, r) * H;

        mdsk_add_to(H, mdsk_read(a->dtype, a->position, at, H, staging + H), y);
    }
    mdsk_put(a->dtype, y, H, a->y, r * H);
}

int mdsk_embedding_fwd_cpu(void *stream, const struct mdsk_embedding_fwd *a)
{
    int64_t R = a->B * a->S, floats = mdsk_staging_floats(a->dtype, 2 * a->H);
    int threads = mdsk_threads_for(R * a->H);
    float *staging = mdsk_scratch(threads * floats);

    (void)stream;
    if (!staging)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < R; r++)
        embed_row(a, r, staging + omp_get_thread_num() * floats);
    return 0;
}

/* Add columns c .. c+n-1 of every row, in the order of rows; scratch: staging [n]. */
static void add_columns(const struct mdsk_embedding_bwd *a, int64_t c, int64_t n,
                        float *staging)
{
    for (int64_t r = 0; r < a->B * a->S; r++) {
        int64_t w = a->token[r] - a->first_word;
        int64_t s = position_of(a->first_token, a->B, a->start, r);
        const float *dy = mdsk_read(a->dtype, a->dy, r * a->H + c, n, staging);

        if (w >= 0 && w < a->words)
            mdsk_add_to(n, dy, a->dword + w * a->H + c);
        if (a->dposition)
            mdsk_add_to(n, dy, a->dposition + s * a->H + c);
    }
}

/* Threads divide the columns, not the rows: no two write the same element, and the
 * order of each sum does not depend on their number. */
int mdsk_embedding_bwd_cpu(void *stream, const struct mdsk_embedding_bwd *a)
{
    int threads = mdsk_threads_for(a->B * a->S * a->H);
    int64_t wide = mdsk_ceil_div(mdsk_ceil_div(a->H, threads), 16) * 16;
    int64_t floats = mdsk_staging_floats(a->dtype, wide);
    float *staging = mdsk_scratch(threads * floats);

    (void)stream;
    if (!staging)
        return -ENOMEM;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < a->H; c += wide)
        add_columns(a, c, mdsk_min(wide, a->H - c),
                    staging + omp_get_thread_num() * floats);
    return 0;
}
