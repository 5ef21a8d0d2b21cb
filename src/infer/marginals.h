/* SPDX-License-Identifier: BSD-3-Clause */
/* How likely each base of a token is, whatever its others are: the sum of the
 * probabilities of all words that have it there,
 *
 *   p(y at place j) = sum of p(v) over the words v with v_j = y,
 *
 * of a softmax over the whole vocabulary.  Its mean over the places is Carbon's FNS
 * (factorised nucleotide supervision, huggingface/carbon, finetuning/fns_trainer.py),
 * which takes it as a loss. */
#ifndef MDS_INFER_MARGINALS_H
#define MDS_INFER_MARGINALS_H

#include "base/status.h"
#include "data/tokenizer.h"

struct mds_infer_marginals {
    int64_t vocab;
    int bases;     /* of a token; 0: nothing is kept */
    int32_t *word; /* [vocab]: its bases, two bits each, the first lowest; -1: none */
    /* [tokens, 2 + 4 bases], of what follows a token: the largest logit so far; and
     * relative to it the sum of exponentials of all words, and of those that have each
     * base at each place */
    double *sums;
};

enum { MDS_INFER_MARGINAL_BASES = 6 }; /* at most */

/* Free it by fini, also if this fails; a zeroed one is fine. */
enum mds_rc mds_infer_marginals_init(struct mds_infer_marginals *m,
                                     const struct mds_vocabulary *v);
void mds_infer_marginals_fini(struct mds_infer_marginals *m);

/* Room for so many tokens; what is there stays. */
enum mds_rc mds_infer_marginals_resize(struct mds_infer_marginals *m, int64_t tokens);

/* What a token says of words first .. first + n - 1: their logits.  It says all of them
 * in one or several calls, in this order: word 0 forgets what was said before. */
void mds_infer_marginals_put(struct mds_infer_marginals *m, int64_t token,
                             int64_t first, int64_t n, const float *logits);

/* out[bases] = log-likelihoods, in nats, of the bases of `next` behind a token; 0 if it
 * is not made of bases. */
int mds_infer_marginals_of(const struct mds_infer_marginals *m, int64_t token,
                           int32_t next, double *out);

#endif
