/* Dropout masks, sixteen Philox blocks at a time: one factor per element, 0 or
 * 1 / (1 - p), of the elements and counters that mdsk_dropout_block defines. */
#ifndef MDSK_CPU_RANDOM_H
#define MDSK_CPU_RANDOM_H

#include "kernels/cpu/cpu.h"
#include "kernels/types.h"

enum {
    MDSK_MASK_LANES = 16,
    MDSK_MASK_SPAN = 4 * MDSK_MASK_LANES, /* elements a call yields */
};

/* Sixteen blocks of one token:  factor[e] is for element first + e; first is a multiple
 * of 4. */
void mdsk_mask_span(const struct mdsk_dropout_key *key, int64_t sample, int64_t token,
                    int64_t first, float *factor);

/* One block of sixteen tokens:  factor[16 w + t] is for element 4 block + w of token
 * token + t. */
void mdsk_mask_tokens(const struct mdsk_dropout_key *key, int64_t sample, int64_t token,
                      int64_t block, float *factor);

#endif
