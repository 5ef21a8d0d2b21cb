/* SPDX-License-Identifier: BSD-3-Clause */
/* mds_infer's own options; those behind its files are mds_pretrain's. */
#ifndef MDS_INFER_OPTIONS_H
#define MDS_INFER_OPTIONS_H

#include "config/optset.h"

#include <stdint.h>

struct mds_infer_options {
    char *load, *tokenizer, *output, *per_token, *track, *vcf, *fasta, *feature;
    int64_t batch_tokens, window, layer, pool_window;
    int strand, score_eod, marginal_bases, overwrite, resume, pool, half, variant_at;
    int64_t new_tokens, samples, top_k, seed;
    double temperature, top_p, complete;
};

extern const struct mds_option_set mds_infer_options;

#endif
