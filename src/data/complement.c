/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/complement.h"

/* The next token from i on, in steps of 1 or -1, that has a complement; `end` if none
 * does. */
static int64_t next_of_bases(enum mds_tokenizer t, const int32_t *token, int64_t i,
                             int64_t end, int step)
{
    while (i != end && mds_tokenizer_complement(t, token[i]) < 0)
        i += step;
    return i;
}

static void swap(const struct mds_sample *s, int64_t a, int64_t b)
{
    int32_t token = s->token[a];

    s->token[a] = s->token[b];
    s->token[b] = token;
    if (s->kind) {
        unsigned char kind = s->kind[a];

        s->kind[a] = s->kind[b];
        s->kind[b] = kind;
    }
}

/* Tokens first .. end - 1 are of one document. */
static void reverse_document(enum mds_tokenizer t, const struct mds_sample *s,
                             int64_t first, int64_t end)
{
    int64_t a = next_of_bases(t, s->token, first, end, 1);
    int64_t b = next_of_bases(t, s->token, end - 1, first - 1, -1);

    while (a < b) {
        swap(s, a, b);
        a = next_of_bases(t, s->token, a + 1, end, 1);
        b = next_of_bases(t, s->token, b - 1, first - 1, -1);
    }
    for (int64_t i = first; i < end; i++) {
        int32_t other = mds_tokenizer_complement(t, s->token[i]);

        s->token[i] = other < 0 ? s->token[i] : other;
    }
}

void mds_sample_reverse_complement(enum mds_tokenizer t, const struct mds_sample *s,
                                   int64_t n)
{
    int32_t eod = mds_tokenizer_vocabulary(t).eod;
    int64_t first = 0;

    for (int64_t i = 1; i <= n; i++)
        if (i == n || s->token[i - 1] == eod ||
            (s->start && s->start[i] != s->start[i - 1])) {
            reverse_document(t, s, first, i);
            first = i;
        }
}
