/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/pairs.h"

#include "kernels/attention.h"

static double count_pairs(int64_t n, int64_t window)
{
    const struct mdsk_attention_shape s = {.Sq = n, .Sk = n, .window = window};

    return mdsk_attention_pairs(&s);
}

struct mds_pairs mds_pairs_of_document(int64_t n, int64_t window)
{
    return (struct mds_pairs){count_pairs(n, 0), count_pairs(n, window)};
}

void mds_pairs_add(struct mds_pairs *to, double times, struct mds_pairs x)
{
    to->global += times * x.global;
    to->local += times * x.local;
}

struct mds_pairs mds_pairs_share(struct mds_pairs x, double rows, int64_t n)
{
    double all = rows * count_pairs(n, 0);

    return (struct mds_pairs){x.global / all, x.local / all};
}

struct mds_pairs mds_pairs_whole_row(int64_t n, int64_t window)
{
    return mds_pairs_share(mds_pairs_of_document(n, window), 1, n);
}
