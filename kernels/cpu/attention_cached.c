/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels/cpu/attention.h"
#include "kernels/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The token's own key or value, to where it belongs in the cache. */
static void append(const struct mdsk_attention_shape *s, const struct mdsk_heads *from,
                   const struct mdsk_heads *cache)
{
    int64_t size = (int64_t)mdsk_dtype_size(s->dtype);

    for (int64_t b = 0; b < s->B; b++)
        for (int64_t g = 0; g < s->G; g++)
            memcpy((char *)cache->data + mdsk_head_at(cache, b, s->q_offset, g) * size,
                   (const char *)from->data + mdsk_head_at(from, b, 0, g) * size,
                   (size_t)(s->D * size));
}

static int turn(const struct mdsk_attention_cached *a, const struct mdsk_heads *x,
                int64_t heads)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_rope r = {.B = s->B,
                          .S = 1,
                          .A = heads,
                          .D = s->D,
                          .rot = a->rot,
                          .first_token = s->q_offset,
                          .frequency = a->frequency,
                          .scale = a->rope_scale,
                          .dtype = s->dtype,
                          .x = *x};

    return a->rot > 0 ? mdsk_rope_cpu(NULL, &r) : 0;
}

int mdsk_attention_cached_cpu(void *stream, const struct mdsk_attention_cached *a)
{
    const struct mdsk_attention_shape *s = &a->shape;
    struct mdsk_attention_fwd f = {
        .shape = *s, .q = a->q, .k = a->k, .v = a->v, .o = a->o};
    int err = turn(a, &a->q, s->A);

    if (!err)
        err = turn(a, &a->new_k, s->G);
    if (err)
        return err;
    f.lse = calloc((size_t)(s->B * s->A), sizeof *f.lse);
    if (!f.lse)
        return -ENOMEM;
    append(s, &a->new_k, &a->k);
    append(s, &a->new_v, &a->v);
    err = mdsk_attention_fwd_cpu(stream, &f);
    free(f.lse);
    return err;
}
