/* SPDX-License-Identifier: BSD-3-Clause */
/* Prompts -> the tokens that a model continues them with.
 *
 * Prompts of one length are read and continued together, up to a micro-batch of them;
 * replicas of the model take such batches in turn. */
#ifndef MDS_INFER_CONTINUE_H
#define MDS_INFER_CONTINUE_H

#include "infer/model.h"
#include "infer/sample.h"

struct mds_infer_prompt {
    const int32_t *ids; /* [n], n >= 1 */
    int64_t n, want;    /* want: new tokens, at most, >= 1 */
    int64_t number;     /* of all prompts, for random numbers */
    int64_t sample;
    int64_t at; /* where its new tokens go: their number, then the tokens [want] */
};

/* Continue n prompts, which are reordered, into made[size], which is zeroed.  Less than
 * `want` tokens: <eod> came next.  The model is started.  Collective; made is the same
 * on all ranks. */
enum mds_rc mds_infer_continue(struct mds_infer_model *m,
                               const struct mds_infer_sampling *s,
                               struct mds_infer_prompt *prompt, int64_t n,
                               int32_t *made, int64_t size);

#endif
