/* SPDX-License-Identifier: BSD-3-Clause */
/* FASTA -> tokens of its records, with kinds and tags. */
#ifndef MDS_DATA_TOKENIZE_FASTA_H
#define MDS_DATA_TOKENIZE_FASTA_H

#include "data/make_input.h"

enum mds_rc mds_tokenize_fasta(struct mds_make_input *t);

#endif
