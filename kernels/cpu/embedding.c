#include "kernels/embedding.h"

#include <string.h>

#include "kernels/cpu/cpu.h"

MDSK_DISPATCH static void add_to(int64_t n, const float *x, float *y)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

int mdsk_embedding_fwd_cpu(void *stream, const struct mdsk_embedding_fwd *a)
{
    const float *word = a->word, *position = a->position;
    int64_t R = a->B * a->S;
    size_t bytes = (size_t)a->H * sizeof *word;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(mdsk_threads_for(R * a->H))
    for (int64_t r = 0; r < R; r++) {
        int64_t w = a->token[r] - a->first_word;
        float *y = (float *)a->y + r * a->H;

        if (w >= 0 && w < a->words)
            memcpy(y, word + w * a->H, bytes);
        else
            memset(y, 0, bytes);
        if (position)
            add_to(a->H, position + (a->first_token + r / a->B) * a->H, y);
    }
    return 0;
}

/* Columns c .. c+n-1 of every row, in the order of the rows. */
static void add_columns(const struct mdsk_embedding_bwd *a, int64_t c, int64_t n)
{
    const float *dy = a->dy;

    for (int64_t r = 0; r < a->B * a->S; r++) {
        int64_t w = a->token[r] - a->first_word, s = a->first_token + r / a->B;

        if (w >= 0 && w < a->words)
            add_to(n, dy + r * a->H + c, a->dword + w * a->H + c);
        if (a->dposition)
            add_to(n, dy + r * a->H + c, a->dposition + s * a->H + c);
    }
}

/* Threads share the columns, not the rows: no two write one word, and each sum has the
 * same order whatever their number. */
int mdsk_embedding_bwd_cpu(void *stream, const struct mdsk_embedding_bwd *a)
{
    int threads = mdsk_threads_for(a->B * a->S * a->H);
    int64_t wide = mdsk_ceil_div(mdsk_ceil_div(a->H, threads), 16) * 16;

    (void)stream;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t c = 0; c < a->H; c += wide)
        add_columns(a, c, mdsk_min(wide, a->H - c));
    return 0;
}
