/* SPDX-License-Identifier: BSD-3-Clause */
/* Sequences of any length -> the log-likelihood of each of their tokens, or hidden
 * states.
 *
 * Sequences wait until there are enough of them for some steps, and are then packed
 * into rows, longest first, where they do not see each other. */
#ifndef MDS_INFER_BATCH_H
#define MDS_INFER_BATCH_H

#include "infer/model.h"

struct mds_infer_batch;

/* Steps that are worth a run, so that rows are full; their results come together. */
enum { MDS_INFER_BATCH_STEPS = 4 };

/* The model is started, borrowed, and has to outlive the batch. */
enum mds_rc mds_infer_batch_create(struct mds_infer_model *m,
                                   struct mds_infer_batch **out);
void mds_infer_batch_destroy(struct mds_infer_batch *b); /* NULL is fine */

/* Of a model for hidden states: what reads them.  On rank 0 it is called for parts of
 * sequences, in any order: values [n, H] of tokens first .. first + n - 1 of an item.
 */
struct mds_infer_reader {
    enum mds_rc (*read)(void *ctx, int64_t item, int64_t first, int64_t n,
                        const float *values);
    void *ctx;
};
void mds_infer_batch_read_by(struct mds_infer_batch *b, struct mds_infer_reader r);

/* Add a sequence; *item numbers it, from 0.  It has at most S + 1 tokens, S being the
 * model's resolved length; for hidden states S. */
enum mds_rc mds_infer_batch_add(struct mds_infer_batch *b, const int32_t *ids,
                                int64_t n, int64_t *item);

/* Add one that may begin as `beside` does, which is added already: what they share is
 * computed once, if the model was resolved for that (need.row), and there is room in
 * its row.  Results are as without. */
enum mds_rc mds_infer_batch_add_beside(struct mds_infer_batch *b, int64_t beside,
                                       const int32_t *ids, int64_t n, int64_t *item);

/* The share of all sequences' tokens that were not computed, since others had them. */
double mds_infer_batch_shared(const struct mds_infer_batch *b);

/* Whether enough are waiting to fill the rows of some steps, and no more than that. */
int mds_infer_batch_is_full(const struct mds_infer_batch *b);

/* Evaluate those that wait.  All ranks call it with the same sequences; collective. */
enum mds_rc mds_infer_batch_run(struct mds_infer_batch *b);

/* Of a sequence that was evaluated: the log-likelihood in nats of each of its tokens
 * given those before it, [n]; the first one has 0.  Valid until clear; the same on all
 * ranks, but for sums over bases by themselves, which rank 0 alone has. */
const double *mds_infer_batch_loglik(const struct mds_infer_batch *b, int64_t item);

/* Of a model that scores bases by themselves, on rank 0: out[bases] of token i > 0, of
 * which loglik is the sum; 0 of other models, and if the token is not made of bases. */
int mds_infer_batch_bases(const struct mds_infer_batch *b, int64_t item, int64_t i,
                          double *out);

/* Of the tokens that count, which are all but the first and those with an ambiguous
 * base: the sum of their log-likelihoods, and their number. */
struct mds_infer_sum {
    double loglik;
    int64_t tokens;
};
struct mds_infer_sum mds_infer_batch_sum(const struct mds_infer_batch *b, int64_t item);

/* Whether token i of an item is one of these. */
int mds_infer_batch_counts(const struct mds_infer_batch *b, int64_t item, int64_t i);

/* Of a model that keeps logits, on rank 0: how differently two sequences of equally
 * many tokens go on.  The mean of the Jensen-Shannon divergences, in nats, of what is
 * expected behind each token, from the first on in which they differ.  Only words of
 * bases count: their probabilities add up to 1.  NAN if nothing is behind that token,
 * or words have more than MDS_INFER_WORD_BASES bases. */
double mds_infer_batch_divergence(const struct mds_infer_batch *b, int64_t item,
                                  int64_t other);

/* Forget all sequences. */
void mds_infer_batch_clear(struct mds_infer_batch *b);

#endif
