/* SPDX-License-Identifier: BSD-3-Clause */
/* The vocabulary of data that are here, for dry runs and plans: embedding and logits of
 * 66 codons are not those of GPT-2's 50,257 words. */
#ifndef MDS_DATA_VOCAB_H
#define MDS_DATA_VOCAB_H

#include "config/options.h"

/* If no vocabulary size is set, take it from the data files, if they can be read here
 * and state one.  log: say so. */
void mds_data_read_vocab(struct mds_config_run *run, int log);

#endif
