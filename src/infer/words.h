/* SPDX-License-Identifier: BSD-3-Clause */
/* The words of a vocabulary that are bases alone, and how likely each token makes them
 * as the next one. */
#ifndef MDS_INFER_WORDS_H
#define MDS_INFER_WORDS_H

#include "base/status.h"
#include "data/tokenizer.h"

struct mds_infer_words {
    int32_t *word; /* [n] */
    int64_t n;     /* 0: nothing is kept */
    float *logit;  /* [tokens, n] */
};

enum { MDS_INFER_WORD_BASES = 3 }; /* at most: 64 words */

/* Of a tokenizer whose tokens have 1 to MDS_INFER_WORD_BASES bases.  Free it by fini,
 * also if this fails; a zeroed one is fine. */
enum mds_rc mds_infer_words_init(struct mds_infer_words *w, enum mds_tokenizer t);
void mds_infer_words_fini(struct mds_infer_words *w);

/* Room for so many tokens; what is there stays. */
enum mds_rc mds_infer_words_resize(struct mds_infer_words *w, int64_t tokens);

/* What a token says: logits[n] of words first .. first + n - 1 of the vocabulary. */
void mds_infer_words_put(struct mds_infer_words *w, int64_t token, int64_t first,
                         int64_t n, const float *logits);

/* The Jensen-Shannon divergence, in nats, of what two tokens say: 0 to log 2. */
double mds_infer_words_divergence(const struct mds_infer_words *w, int64_t token,
                                  int64_t other);

#endif
