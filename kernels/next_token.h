/* SPDX-License-Identifier: BSD-3-Clause */
/* Generation: the likeliest next tokens, and on to these. */
#ifndef MDSK_NEXT_TOKEN_H
#define MDSK_NEXT_TOKEN_H

#include <math.h>

#include "kernels/types.h"

/* token[b] = the word of the largest logit of row b, of equal ones the first; -1 if one
 * is NaN, or the largest is not finite.  Each sequence is then a token longer:
 *
 *   logits  [B, stride]  dtype: V <= stride words, and padding
 *   start   [B]  i32, in place: minus the place of the token that the logits follow,
 *                which is >= 0; -1 is added
 *   place   [1]  i32, written: minus start[0]
 *   token   [B]  i32, written
 *   made    [MDSK_TOKENS_AHEAD, B]  i32: the row of that place, modulo their number,
 *                becomes token */
#define MDSK_TOKENS_AHEAD 16
struct mdsk_next_token {
    int64_t B, V, stride;
    enum mdsk_dtype dtype;
    const void *logits;
    int32_t *place, *start, *token, *made;
};

/* The word that is chosen so, of n logits in f32. */
static inline int32_t mdsk_likeliest(const float *logits, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i]))
            return -1;
        if (logits[i] > logits[best])
            best = i;
    }
    return isfinite(logits[best]) ? (int32_t)best : -1;
}

#endif
