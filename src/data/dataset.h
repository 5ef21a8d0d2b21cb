/* SPDX-License-Identifier: BSD-3-Clause */
/* What a training loop reads: windows of tokens from one source or a weighted mix of
 * sources, in an order that depends on the seed and the sample's number alone, so that
 * it is the same for any number of ranks and for a resumed run.  There is no index
 * file.
 *
 * Each split has files of its own, or all have parts of the same files, which --split
 * cuts (data/split.h).
 *
 * A sample is a window of seq_length + 1 tokens: inputs are the first seq_length of
 * them, targets the last.  A span of T tokens has n = floor((T - 1) / seq_length)
 * windows, side by side from a shift of 0 .. (T - 1) mod seq_length that differs from
 * epoch to epoch, so a token is a target at most once an epoch.  The training order is
 * a keyed permutation of the n windows, drawn anew each epoch.  Validation and test
 * windows come in file order from shift 0, the same in each evaluation.
 *
 * A mix assigns sample i to a source by error diffusion over the weights (as Megatron
 * does), exact over each period of 65536 samples; the window within the source is the
 * number of samples this source had before i, and the epoch is counted per source. */
#ifndef MDS_DATA_DATASET_H
#define MDS_DATA_DATASET_H

#include "base/status.h"
#include "config/config.h"
#include "data/tokenizer.h"

#include <stdint.h>

enum mds_split { MDS_SPLIT_TRAIN, MDS_SPLIT_VALID, MDS_SPLIT_TEST, MDS_SPLITS };

struct mds_dataset;

/* MDS_EUSER if a file is missing or broken, or the training split is shorter than
 * seq_length + 1 tokens.  The vocabulary is settled before anything is read. */
enum mds_rc mds_dataset_open(const struct mds_data_config *c, int64_t seq_length,
                             uint64_t seed, struct mds_dataset **out);
void mds_dataset_close(struct mds_dataset *d); /* NULL is fine */

/* The largest id in part number `part` of `parts` of the sources that state no
 * vocabulary; -1 without one.  Reads that part. */
enum mds_rc mds_dataset_largest_id(struct mds_dataset *d, int part, int parts,
                                   int64_t *largest);

/* Once, with the largest of all parts.  MDS_EUSER if sources disagree about the
 * vocabulary. */
enum mds_rc mds_dataset_set_vocab(struct mds_dataset *d, int64_t largest);

/* Words of the settled vocabulary, not padded. */
int64_t mds_dataset_vocab(const struct mds_dataset *d);
/* The tokenizer and <eod> that all sources state; ids and -1 where they do not. */
struct mds_vocabulary mds_dataset_vocabulary(const struct mds_dataset *d);
/* Tokens in split s, over all sources. */
int64_t mds_dataset_tokens(const struct mds_dataset *d, enum mds_split s);
/* Distinct windows per epoch, over all sources; 0 without any, or if one source has
 * none. */
int64_t mds_dataset_samples(const struct mds_dataset *d, enum mds_split s);
/* MDS_EUSER, saying which file is too short and what would fit, where samples is 0. */
enum mds_rc mds_dataset_require(const struct mds_dataset *d, enum mds_split s);
/* Log what there is for a run that trains on so many samples; once settled. */
enum mds_rc mds_dataset_log(const struct mds_dataset *d, int64_t samples);
/* Unigram entropy of split s in nats per token; of a mix: of the mixed distribution.
 * Reads the whole split. */
enum mds_rc mds_dataset_entropy(struct mds_dataset *d, enum mds_split s, double *nats);
/* Sample `index` of the run (0, 1, 2, ... without end) into tokens[seq_length + 1].  A
 * token id outside the vocabulary is MDS_EUSER naming file and position. */
enum mds_rc mds_dataset_sample(struct mds_dataset *d, enum mds_split s, int64_t index,
                               int32_t *tokens);

#endif
