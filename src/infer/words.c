/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/words.h"
#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

enum mds_rc mds_infer_words_init(struct mds_infer_words *w, enum mds_tokenizer t)
{
    unsigned char bases[MDS_INFER_WORD_BASES];
    int size = mds_tokenizer_bases(t);

    *w = (struct mds_infer_words){.n = INT64_C(1) << 2 * size};
    w->word = mds_zalloc((size_t)w->n, sizeof *w->word);
    if (!w->word)
        return MDS_EMEM;
    for (int64_t i = 0; i < w->n; i++) {
        for (int k = 0; k < size; k++)
            bases[k] = (unsigned char)(i >> 2 * k & 3);
        mds_tokenizer_encode(t, bases, (size_t)size, &w->word[i]);
    }
    return MDS_OK;
}

void mds_infer_words_fini(struct mds_infer_words *w)
{
    free(w->word);
    free(w->logit);
}

enum mds_rc mds_infer_words_resize(struct mds_infer_words *w, int64_t tokens)
{
    return mds_resize(&w->logit, (size_t)(tokens * w->n), sizeof *w->logit);
}

void mds_infer_words_put(struct mds_infer_words *w, int64_t token, int64_t first,
                         int64_t n, const float *logits)
{
    for (int64_t i = 0; i < w->n; i++)
        if (w->word[i] >= first && w->word[i] < first + n)
            w->logit[token * w->n + i] = logits[w->word[i] - first];
}

static double log_sum_exp(const float *x, int64_t n)
{
    double max = (double)x[0], sum = 0;

    for (int64_t i = 1; i < n; i++)
        max = fmax(max, (double)x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    return max + log(sum);
}

/* Half of p log(p / m) + q log(q / m), with m the mean of p and q. */
double mds_infer_words_divergence(const struct mds_infer_words *w, int64_t token,
                                  int64_t other)
{
    const float *x = w->logit + token * w->n, *y = w->logit + other * w->n;
    double all_x = log_sum_exp(x, w->n), all_y = log_sum_exp(y, w->n), sum = 0;

    for (int64_t i = 0; i < w->n; i++) {
        double log_p = (double)x[i] - all_x, log_q = (double)y[i] - all_y;
        double p = exp(log_p), q = exp(log_q), log_m = log((p + q) / 2);

        if (p > 0)
            sum += p * (log_p - log_m) / 2;
        if (q > 0)
            sum += q * (log_q - log_m) / 2;
    }
    return sum;
}
