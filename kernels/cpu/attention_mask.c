#include "kernels/cpu/attention.h"
#include "kernels/cpu/random.h"

const float *mdsk_pair_mask(const struct mdsk_attention_shape *s,
                            const struct mdsk_pair *p, int64_t r, float *room)
{
    int64_t key = s->first_key + p->j, first = key / 4 * 4;
    int64_t token = (s->first_head + p->h) * 4294967296 + s->first_query + p->i + r;

    for (int64_t e = first; e < key + p->n; e += MDSK_MASK_SPAN)
        mdsk_mask_span(&s->dropout, s->first_sample + p->b, token, e, room + e - first);
    return room + key - first;
}
