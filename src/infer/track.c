/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/track.h"
#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum mds_rc mds_infer_track_begin(struct mds_infer_track *k, int64_t n)
{
    int64_t room = k->room;

    MDS_TRY(mds_reserve(&k->sum, &room, n, sizeof *k->sum));
    MDS_TRY(mds_reserve(&k->strands, &k->room, n, sizeof *k->strands));
    k->n = n;
    for (int64_t i = 0; i < n; i++) {
        k->sum[i] = 0;
        k->strands[i] = 0;
    }
    return MDS_OK;
}

void mds_infer_track_add(struct mds_infer_track *k, enum mds_tokenizer t, int reverse,
                         int64_t i, const double *loglik)
{
    int stride = mds_tokenizer_stride(t);
    int64_t end = i * stride + mds_tokenizer_bases(t);

    for (int64_t at = end - stride; at < end && at < k->n; at++) {
        int64_t base = reverse ? k->n - 1 - at : at;

        k->sum[base] += *loglik++;
        k->strands[base]++;
    }
}

static double value(const struct mds_infer_track *k, int64_t i)
{
    return k->sum[i] / k->strands[i];
}

/* Where bases end that are alike, from i on. */
static int64_t run_end(const struct mds_infer_track *k, int64_t i)
{
    int64_t end = i + 1;

    while (end < k->n && k->strands[end] > 0 && value(k, end) == value(k, i))
        end++;
    return end;
}

void mds_infer_track_print(const struct mds_infer_track *k, const char *chrom,
                           int64_t first, struct mds_infer_table *out)
{
    for (int64_t i = 0, end; i < k->n; i = end) {
        end = i + 1;
        if (k->strands[i] == 0)
            continue;
        end = run_end(k, i);
        mds_str_add(&out->text, "%s\t%" PRId64 "\t%" PRId64 "\t%.6g\n", chrom,
                    first + i, first + end, value(k, i));
        out->lines++;
    }
}

void mds_infer_track_fini(struct mds_infer_track *k)
{
    free(k->sum);
    free(k->strands);
}
