/* SPDX-License-Identifier: BSD-3-Clause */
/* The data set that a training loop reads: windows of tokens, or rows of whole
 * documents (--pack-documents, data/packing.h), from one source or from a weighted mix
 * of sources.  The order depends only on the seed and the sample's number, so it is the
 * same for any number of ranks and after a resume.  There is no index file.
 *
 * Either each split has its own files, or --split divides the same files among the
 * splits (data/split.h).
 *
 * A sample is a window of seq_length + 1 tokens: inputs are the first seq_length of
 * them, targets are the last seq_length.  A span of T tokens has n = floor((T - 1) /
 * seq_length) consecutive windows.  The first starts at a shift between 0 and (T - 1)
 * mod seq_length that changes every epoch; a token is a target at most once per epoch.
 * The training order is a keyed permutation of the n windows, a new one each epoch.
 *
 * Training on a mix assigns sample i to a source by error diffusion over the weights
 * (as Megatron does), exact over each period of 65536 samples; the window within the
 * source is the number of samples this source gave before i.  Epochs are counted per
 * source.  Where a run goes on with another mix, each source goes on where it stands
 * (data/position.h).
 *
 * Validation and test samples are those of the first file, from shift 0, then those of
 * the second, and so on: each once, whatever the weights of the files. */
#ifndef MDS_DATA_DATASET_H
#define MDS_DATA_DATASET_H

#include "base/status.h"
#include "base/str.h"
#include "config/config.h"
#include "data/position.h"
#include "data/sample.h"
#include "data/tokenizer.h"

#include <stdint.h>

enum mds_split { MDS_SPLIT_TRAIN, MDS_SPLIT_VALID, MDS_SPLIT_TEST, MDS_SPLITS };

struct mds_dataset;

/* MDS_EUSER if a file is missing or broken, or the training split is shorter than
 * seq_length + 1 tokens.  Call mds_dataset_set_vocab before reading samples. */
enum mds_rc mds_dataset_open(const struct mds_data_config *c, int64_t seq_length,
                             uint64_t seed, struct mds_dataset **out);
void mds_dataset_close(struct mds_dataset *d); /* NULL is fine */

/* Scan the sources that state no vocabulary for their largest token id: part `part` of
 * `parts`, so that ranks can share the work.  -1 if there is no such source. */
enum mds_rc mds_dataset_largest_id(struct mds_dataset *d, int part, int parts,
                                   int64_t *largest);

/* Fix the vocabulary size.  Call it once, with the largest id of all parts.  MDS_EUSER
 * if the sources have different vocabularies. */
enum mds_rc mds_dataset_set_vocab(struct mds_dataset *d, int64_t largest);

/* The vocabulary size, without padding. */
int64_t mds_dataset_vocab(const struct mds_dataset *d);
/* The tokenizer and <eod> id that all sources agree on; MDS_TOKENIZER_IDS and -1 if
 * they do not state one. */
struct mds_vocabulary mds_dataset_vocabulary(const struct mds_dataset *d);
/* The kinds of tokens, of all sources; lives as long as the data set. */
struct mds_kind_table mds_dataset_kinds(const struct mds_dataset *d);
/* Tokens in split s, over all sources. */
int64_t mds_dataset_tokens(const struct mds_dataset *d, enum mds_split s);
/* Samples (windows or packed rows) per epoch over all sources; 0 if any of the sources
 * has none. */
int64_t mds_dataset_samples(const struct mds_dataset *d, enum mds_split s);
/* The files of split s: their number, the path of file k, and its samples. */
int mds_dataset_files(const struct mds_dataset *d, enum mds_split s);
const char *mds_dataset_file(const struct mds_dataset *d, enum mds_split s, int k);
int64_t mds_dataset_file_samples(const struct mds_dataset *d, enum mds_split s, int k);
/* MDS_EUSER if mds_dataset_samples is 0; the message names the file that is too short
 * and what would fit. */
enum mds_rc mds_dataset_require(const struct mds_dataset *d, enum mds_split s);

/* For training and validation; if both are too short, the shorter is named, so that the
 * length that is advised suits both. */
enum mds_rc mds_dataset_require_both(const struct mds_dataset *d);
/* MDS_EUSER if a split that a run with this configuration reads has no sample. */
enum mds_rc mds_dataset_check(const struct mds_dataset *d, const struct mds_config *c);
/* Samples of split s that each evaluation reads: all, or those of --eval-iters
 * batches. */
int64_t mds_dataset_evaluated(const struct mds_dataset *d, enum mds_split s,
                              const struct mds_config *c);
/* Log the splits of a run that trains, or only evaluates.  After mds_dataset_set_vocab.
 */
enum mds_rc mds_dataset_log(const struct mds_dataset *d, int trains);
/* Log the epochs of a run of so many samples, including those of earlier jobs. */
enum mds_rc mds_dataset_log_epochs(const struct mds_dataset *d, int64_t samples);
/* Unigram entropy of split s in nats per token; for a mix, of the weighted token
 * distribution.  Reads the whole split. */
enum mds_rc mds_dataset_entropy(struct mds_dataset *d, enum mds_split s, double *nats);
/* Go on from a checkpoint that was saved before sample `sample` of the run.  text: the
 * position of then, as mds_dataset_position gives it; NULL: unknown, nothing changes.
 * Each file goes on where it stood, new ones from their beginning; a mix that has not
 * changed in the same order.  MDS_EUSER if another file has the name of one of them.
 * name: of the checkpoint, for messages.  After mds_dataset_set_vocab, on rank 0; the
 * others get the bytes of mds_dataset_order. */
enum mds_rc mds_dataset_resume(struct mds_dataset *d, const char *text,
                               const char *name, int64_t sample);
void *mds_dataset_order(struct mds_dataset *d, int64_t *bytes);
/* Find out what a checkpoint stores of the files, unless that is known from resuming;
 * and append it to a text. */
enum mds_rc mds_dataset_describe(struct mds_dataset *d);
void mds_dataset_position(const struct mds_dataset *d, struct mds_str *text);
/* Warn of files that are others now than when they were described.  Looks only at their
 * times, unless one has changed. */
void mds_dataset_warn_changed(struct mds_dataset *d);
/* Read sample `index` into *out: of the run in training (0, 1, 2, ... without end; not
 * from before a change of the mix), of mds_dataset_samples in the other splits.  A
 * token id outside the vocabulary is MDS_EUSER naming file and position. */
enum mds_rc mds_dataset_sample(struct mds_dataset *d, enum mds_split s, int64_t index,
                               const struct mds_sample *out);
/* The (query, key) pairs that attention computes in a packed row; of a sample that is
 * no packed row, those of one document. */
enum mds_rc mds_dataset_pairs(const struct mds_dataset *d, enum mds_split s,
                              int64_t index, double *pairs);

/* For plans and dry runs: the shares of pairs that attention sees in samples for
 * training, in layers without and with the window.  0 if it crosses documents, or they
 * are not here. */
struct mds_pairs mds_data_seen(const struct mds_data_config *c, int64_t seq_length,
                               int64_t window);

#endif
