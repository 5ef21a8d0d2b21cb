/* SPDX-License-Identifier: BSD-3-Clause */
/* Token (and learned position) embedding. */
#ifndef MDSK_EMBEDDING_H
#define MDSK_EMBEDDING_H

#include "kernels/types.h"

/* y[r] = word[token[r] - first_word] + position[first_token + s - start[r]],
 * r = s*B + b
 *
 *   token     [S*B]      i32
 *   start     [S*B]      i32, or NULL for 0: the token whose position is 0
 *   word      [words, H] dtype; a token outside first_word .. first_word+words-1
 *                        belongs to another rank and gives a zero row
 *   position  [.., H]    dtype, row 0 is token 0 of a sequence; NULL for none
 *   y         [S*B, H]   dtype */
struct mdsk_embedding_fwd {
    int64_t B, S, H;
    int64_t first_word, words, first_token;
    enum mdsk_dtype dtype;
    const int32_t *token, *start;
    const void *word, *position;
    void *y;
};

/* dword[token[r] - first_word] += dy[r];
 * dposition[first_token + s - start[r]] += dy[r],  r = s*B + b
 *
 *   dy         [S*B, H]   dtype
 *   dword      [words, H] f32, added to in the order of the rows, so repeatable
 *   dposition  [.., H]    f32, added to, or NULL */
struct mdsk_embedding_bwd {
    int64_t B, S, H;
    int64_t first_word, words, first_token;
    enum mdsk_dtype dtype;
    const int32_t *token, *start;
    const void *dy;
    float *dword, *dposition;
};

#endif
