/* SPDX-License-Identifier: BSD-3-Clause */
/* What options follow from the data files that can be read here. */
#ifndef MDS_DATA_INSPECT_H
#define MDS_DATA_INSPECT_H

#include "config/options.h"

/* For dry runs and plans, before resolving: take the vocabulary size from the files if
 * none is set and they state one (embedding and logits of 66 codons are not those of
 * GPT-2's 50,257 words), and whether documents are packed.  scanned: the words of
 * Megatron's files, which state none; 0: unknown.  log: say so. */
void mds_data_inspect(struct mds_config_run *run, int64_t scanned, int log);

/* What --pack-documents auto means: on if a file of mds_data has several documents.
 * Megatron's programs do not pack what is in its format. */
enum mds_pack mds_data_choose_packing(const struct mds_data_config *c);

#endif
