/* Dropout masks, sixteen Philox blocks at a time. */
#ifndef MDSK_CPU_RANDOM_H
#define MDSK_CPU_RANDOM_H

#include "kernels/cpu/cpu.h"
#include "kernels/types.h"

enum { MDSK_MASK_SPAN = 64 }; /* elements a call of mdsk_mask_span yields */

/* One factor per element, 0 or 1 / (1 - p):  factor[e] = for element first + e of
 * (sample, token), e < MDSK_MASK_SPAN; first is a multiple of 4. */
void mdsk_mask_span(const struct mdsk_dropout_key *key, int64_t sample, int64_t token,
                    int64_t first, float *factor);

#endif
