/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/marginals.h"
#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>

enum mds_rc mds_infer_marginals_init(struct mds_infer_marginals *m,
                                     const struct mds_vocabulary *v)
{
    unsigned char bases[MDS_INFER_MARGINAL_BASES];

    *m = (struct mds_infer_marginals){.vocab = v->size,
                                      .bases = mds_tokenizer_bases(v->tokenizer)};
    m->word = mds_zalloc((size_t)m->vocab, sizeof *m->word);
    if (!m->word)
        return MDS_EMEM;
    for (int64_t id = 0; id < m->vocab; id++)
        m->word[id] = -1;
    for (int32_t i = 0; i < 1 << 2 * m->bases; i++) {
        int32_t id;

        for (int k = 0; k < m->bases; k++)
            bases[k] = (unsigned char)(i >> 2 * k & 3);
        mds_tokenizer_encode(v->tokenizer, bases, (size_t)m->bases, &id);
        m->word[id] = i;
    }
    return MDS_OK;
}

void mds_infer_marginals_fini(struct mds_infer_marginals *m)
{
    free(m->word);
    free(m->sums);
}

static int64_t width(const struct mds_infer_marginals *m)
{
    return 2 + 4 * m->bases;
}

enum mds_rc mds_infer_marginals_resize(struct mds_infer_marginals *m, int64_t tokens)
{
    return mds_resize(&m->sums, (size_t)(tokens * width(m)), sizeof *m->sums);
}

/* Let sums be relative to a larger logit. */
static void raise_top(const struct mds_infer_marginals *m, double *sums, double top)
{
    double factor = exp(sums[0] - top);

    sums[0] = top;
    for (int64_t i = 1; i < width(m); i++)
        sums[i] *= factor;
}

void mds_infer_marginals_put(struct mds_infer_marginals *m, int64_t token,
                             int64_t first, int64_t n, const float *logits)
{
    double *sums = m->sums + token * width(m), top = -INFINITY;

    n = first + n < m->vocab ? n : m->vocab - first; /* without the padding */
    for (int64_t i = 0; first == 0 && i < width(m); i++)
        sums[i] = i == 0 ? -INFINITY : 0;
    for (int64_t i = 0; i < n; i++)
        top = fmax(top, (double)logits[i]);
    if (top > sums[0])
        raise_top(m, sums, top);
    for (int64_t i = 0; i < n; i++) {
        double p = exp((double)logits[i] - sums[0]);
        int32_t word = m->word[first + i];

        sums[1] += p;
        for (int j = 0; word >= 0 && j < m->bases; j++)
            sums[2 + 4 * j + (word >> 2 * j & 3)] += p;
    }
}

int mds_infer_marginals_of(const struct mds_infer_marginals *m, int64_t token,
                           int32_t next, double *out)
{
    const double *sums = m->sums + token * width(m);
    int32_t word = m->word[next];

    for (int j = 0; word >= 0 && j < m->bases; j++)
        out[j] = log(sums[2 + 4 * j + (word >> 2 * j & 3)] / sums[1]);
    return word >= 0;
}
