/* SPDX-License-Identifier: BSD-3-Clause */
/* Choosing the next token from logits. */
#ifndef MDS_INFER_SAMPLE_H
#define MDS_INFER_SAMPLE_H

#include <stdint.h>

/* As transformers and vLLM have them, in this order. */
struct mds_infer_sampling {
    double temperature; /* logits are divided by it; 0: the likeliest token */
    int64_t top_k;      /* of so many likeliest tokens, and those as likely as the last
                           of them; 0: of all */
    double top_p;       /* of the fewest likeliest tokens that have this probability
                           together; 1: of all */
    uint64_t seed;
};

struct mds_infer_candidate {
    float logit;
    int32_t id;
    double weight;
};

/* The token of logits[n] that u, in [0, 1), selects; of equal logits the one of the
 * smallest id comes first.  work [n] is scratch; temperature 0 needs none.  -1 if a
 * logit is NaN, or the largest is not finite. */
int32_t mds_infer_sample(const struct mds_infer_sampling *s, const float *logits,
                         int64_t n, double u, struct mds_infer_candidate *work);

/* A random number in [0, 1) for a token: which prompt of all, which sample of it, and
 * the token's place in the sequence.  Neither layout nor batch matters. */
double mds_infer_uniform(uint64_t seed, int64_t prompt, int64_t sample, int64_t place);

#endif
