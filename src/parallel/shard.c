/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/shard.h"
#include "base/minmax.h"

/* Append tokens, as part of the last run where they follow it. */
static void append_run(struct mds_shard_tokens *s, int64_t first, int64_t n)
{
    struct mds_token_run *last = s->runs ? &s->run[s->runs - 1] : 0;

    if (n <= 0)
        return;
    if (last && last->first + last->n == first)
        last->n += n;
    else
        s->run[s->runs++] = (struct mds_token_run){first, n};
    s->n += n;
}

struct mds_shard_tokens mds_shard_whole(int64_t S)
{
    struct mds_shard_tokens s = {0};

    append_run(&s, 0, S);
    return s;
}

struct mds_shard_tokens mds_shard_ring(int64_t S, int P, int rank)
{
    struct mds_shard_tokens s = {0};
    int64_t chunk = S / (2 * P);

    if (P == 1)
        return mds_shard_whole(S);
    append_run(&s, rank * chunk, chunk);
    append_run(&s, (2 * P - 1 - rank) * chunk, chunk);
    return s;
}

struct mds_shard_tokens mds_shard_range(const struct mds_shard_tokens *s, int64_t at,
                                        int64_t n)
{
    struct mds_shard_tokens range = {0};

    for (int i = 0; i < s->runs; i++) {
        int64_t from = mds_min(at, s->run[i].n);
        int64_t take = mds_min(s->run[i].n - from, n);

        append_run(&range, s->run[i].first + from, take);
        at -= from;
        n -= take;
    }
    return range;
}

struct mds_shard_tokens mds_shard_slices(const struct mds_shard_tokens *s, int parts,
                                         int part, int chunks)
{
    struct mds_shard_tokens all = {0};

    for (int i = 0; i < chunks; i++) {
        int64_t at = mds_shard_chunk(s->n / parts, chunks, i);
        int64_t n = mds_shard_chunk(s->n / parts, chunks, i + 1) - at;
        struct mds_shard_tokens one = mds_shard_range(s, at * parts + n * part, n);

        for (int k = 0; k < one.runs; k++)
            append_run(&all, one.run[k].first, one.run[k].n);
    }
    return all;
}

struct mds_shard_tokens mds_shard_slice(const struct mds_shard_tokens *s, int parts,
                                        int part)
{
    return mds_shard_slices(s, parts, part, 1);
}
