/* SPDX-License-Identifier: BSD-3-Clause */
/* What the attention kernels for Hopper are told of dropout. */
#ifndef MDSK_HOPPER_DROPOUT_H
#define MDSK_HOPPER_DROPOUT_H

#include "kernels/attention.h"
#include "kernels/philox.h"

struct hopper_dropout {
    uint64_t seed;
    uint32_t site, step, threshold;
    float scale; /* 1 / (1 - p), of what is kept; 1 without dropout */
    int64_t first_sample;
    /* first_key / 4 and first_key % 4; (first_head, first_query) is the first token */
    uint32_t first_block, skew, first_head, first_query;
};

/* Whether tokens and keys fit the 32 bits that the kernels count them with. */
static inline int mdsk_hopper_dropout_fits(const struct mdsk_attention_shape *s)
{
    return s->first_query + s->Sq <= UINT32_MAX && s->first_key + s->Sk <= UINT32_MAX;
}

static inline struct hopper_dropout
mdsk_hopper_dropout_of(const struct mdsk_attention_shape *s)
{
    const struct mdsk_dropout_key *d = &s->dropout;
    struct hopper_dropout out = {d->seed,
                                 d->site,
                                 d->step,
                                 mdsk_dropout_threshold(d->p),
                                 1 / (1 - d->p),
                                 s->first_sample,
                                 (uint32_t)(s->first_key / 4),
                                 (uint32_t)(s->first_key % 4),
                                 (uint32_t)s->first_head,
                                 (uint32_t)s->first_query};

    return out;
}

#endif
