/* SPDX-License-Identifier: BSD-3-Clause */
/* A sample of seq_length + 1 tokens, as whoever wants it has memory for it. */
#ifndef MDS_DATA_SAMPLE_H
#define MDS_DATA_SAMPLE_H

#include <stdint.h>

struct mds_sample {
    int32_t *token;
    int32_t *start;      /* index, in the sample, of the first token of each token's
                            document: 0 if that is before it; or NULL */
    unsigned char *kind; /* of each token, in the data set's table, or MDS_KIND_MASKED;
                            or NULL */
};

#endif
