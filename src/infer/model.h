/* SPDX-License-Identifier: BSD-3-Clause */
/* A trained model on these ranks, for reading: weights alone, steps of one shape. */
#ifndef MDS_INFER_MODEL_H
#define MDS_INFER_MODEL_H

#include "base/host.h"
#include "ckpt/hf.h"
#include "ckpt/index.h"
#include "config/options.h"
#include "config/pairs.h"
#include "data/tokenizer.h"
#include "engine/engine.h"
#include "infer/records.h"
#include "transport/world.h"

struct mds_infer_model {
    char path[MDS_PATH_SIZE];   /* of the checkpoint, or Hugging Face's folder */
    struct mds_config_run *run; /* owned */
    struct mds_ckpt_index *ix;  /* owned; NULL: the folder is Hugging Face's */
    struct mds_hf_source hf;
    struct mds_vocabulary vocabulary; /* size: words of the model */
    int64_t trained;                  /* tokens of a sequence in training; 0: unknown */
    int64_t layer;  /* whose hidden states are asked for; 0: scores are */
    int64_t layers; /* of the whole model */
    int generates;
    int marginal_bases; /* a token's score is the sum of its bases', each by itself */
    int left;           /* a signal ended it before its end: what failed is no error */
    /* from start on */
    struct mds_world world;
    struct mds_groups groups;
    struct mds_dev *dev, *host;
    struct mds_engine_need need;
    struct mds_engine *engine;
};

/* Read what `load` names: a checkpoint, a folder of checkpoints (its newest) or a
 * folder of Hugging Face's.  argc, argv: options of mds_pretrain, of layout, memory
 * and numbers (argv[0] is skipped).  tokenizer: its name, where the checkpoint does not
 * say; or NULL.  *m is zeroed by the caller, who closes it in any case. */
enum mds_rc mds_infer_model_find(struct mds_infer_model *m, const char *load,
                                 const char *tokenizer, int argc, char *const *argv);

/* Between find and resolve: ask for hidden states, behind block `layer` (0: the last,
 * and the final norm), in place of scores.  The model then ends there. */
enum mds_rc mds_infer_model_want_hidden(struct mds_infer_model *m, int64_t layer);

/* Likewise: ask for logits beside scores, where the vocabulary is small
 * (infer/words.h). */
void mds_infer_model_want_logits(struct mds_infer_model *m);

/* Likewise: ask for the likelihood of each base by itself, whatever the others of its
 * token are (infer/marginals.h).  MDS_EUSER where tokens are not words of bases. */
enum mds_rc mds_infer_model_want_marginals(struct mds_infer_model *m);

/* Likewise: ask for generation.  MDS_EUSER for options that it cannot heed. */
enum mds_rc mds_infer_model_want_generation(struct mds_infer_model *m);

/* What is to be evaluated. */
struct mds_infer_need {
    int64_t longest; /* tokens of one sequence */
    int64_t tokens;  /* of all; 0: many */
    int64_t row;     /* that a row should have for several that share a prefix
                        (mds_infer_batch_add_beside); 0: none do */
    /* Pairs that attention sees, in so many tokens: of all sequences, or of such a row;
     * for plans. */
    struct mds_pairs pairs;
    int64_t pair_tokens;
    /* Of --vcf, for plans: alleles, if all of the file was read in time, or 0; strands
     * that each is read on; and alleles in such a row. */
    int64_t alleles, strands, row_alleles;
    /* of generation, instead of tokens; tokens of all prompts, and behind them */
    int64_t sequences, longest_prompt;
    int64_t prompt_tokens, new_tokens;
    int64_t batch_tokens; /* of a micro-batch, unless options say --micro-batch-size */
    /* reading ends at this time of mds_clock_s (0: at the inputs' end); whether it
     * did before that, and how many bytes of the files, as stored, it then read */
    double until_s;
    int cut;
    int64_t read_bytes;
};

/* Read the inputs once: `visit` adds each record to *need.  Standard input is read once
 * only, so it may have as much as the model takes.  Before resolving. */
enum mds_rc mds_infer_model_measure(const struct mds_infer_model *m,
                                    const struct mds_infer_inputs *inputs,
                                    mds_infer_visit_fn *visit, void *ctx,
                                    struct mds_infer_need *need);

/* Choose the shape of a step, and resolve the configuration for so many ranks; the
 * smallest number that the layout allows if ranks is 0. */
enum mds_rc mds_infer_model_resolve(struct mds_infer_model *m,
                                    const struct mds_infer_need *need, int64_t ranks);

/* Tokens that a sequence of this model may have: rows of its position table, or
 * --seq-length if that was given, for scores one more; INT64_MAX: any number.  Before
 * resolving. */
int64_t mds_infer_model_limit(const struct mds_infer_model *m);

/* Between steps: MDS_EUSER, and m->left, if a rank was told to leave by a signal
 * (transport/stop.h).  Collective. */
enum mds_rc mds_infer_model_may_leave(struct mds_infer_model *m);

/* MDS_EUSER for a sequence that has more. */
enum mds_rc mds_infer_model_check_length(const struct mds_infer_model *m,
                                         const char *input, const char *name,
                                         int64_t tokens, int64_t limit);

/* Open the device, build the model and load its weights.  Collective. */
enum mds_rc mds_infer_model_start(struct mds_infer_model *m,
                                  const struct mds_world *world);
/* Log what this rank's device memory held at most, by purpose. */
void mds_infer_model_log_memory(const struct mds_infer_model *m);
void mds_infer_model_close(struct mds_infer_model *m);

#endif
