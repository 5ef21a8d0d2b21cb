/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_data's options and subcommands. */
#ifndef MDS_PROGRAMS_MDS_DATA_H
#define MDS_PROGRAMS_MDS_DATA_H

#include "config/options.h"
#include "programs/subcommands.h"

struct mds_data_options {
    char *tokenizer, *output, *split, *kind, *tag, *gff3, *gff3_type;
    int frame, strand, split_at, ids, text, overwrite;
    int64_t vocab, eod, from, count, seq_length, stride, tag_every, threads;
    double lowercase_weight, gff3_weight;
};

static inline const struct mds_data_options *
mds_data_options(const struct mds_invocation *c)
{
    return c->settings.values;
}

enum mds_rc mds_data_run_info(const struct mds_invocation *c);

#endif
