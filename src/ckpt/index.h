/* SPDX-License-Identifier: BSD-3-Clause */
/* What a checkpoint holds and which file has which part: the contents of index.h5
 * (without its virtual data sets, which exist for other programs). */
#ifndef MDS_CKPT_INDEX_H
#define MDS_CKPT_INDEX_H

#include "ckpt/folder.h"
#include "ckpt/part.h"
#include "comm/comm.h"

/* What is stored for every parameter: master weight and Adam's two moments. */
enum mds_ckpt_what { MDS_CKPT_WEIGHT, MDS_CKPT_M, MDS_CKPT_V, MDS_CKPT_STATES };

/* "weight", "adam_m", "adam_v": the groups in files. */
const char *mds_ckpt_group(enum mds_ckpt_what what);

enum { MDS_CKPT_NAME = 64 };

/* The name of a tensor's data set: "/weight/NAME". */
void mds_ckpt_set_name(enum mds_ckpt_what what, const char *tensor, char name[96]);

/* What a run took over from the checkpoint that it started from. */
enum mds_ckpt_begun {
    MDS_BEGUN_FROM_ALL,
    MDS_BEGUN_WITHOUT_MOMENTS,
    MDS_BEGUN_FINETUNE
};

/* The run's progress.  Everything else follows from the configuration. */
struct mds_ckpt_state {
    int64_t iteration;
    int64_t samples, tokens; /* consumed */
    int64_t updates;         /* of the optimizer: iterations without skipped ones */
    double loss_scale;
    int64_t scale_dynamic, scale_good, scale_left; /* as in optim/loss_scale.h */
    int64_t vocab, padded_vocab;                   /* rows behind vocab do not count */
    int64_t origin; /* `save` of the checkpoint that the run started from; 0 if none */
    int64_t begun;  /* enum mds_ckpt_begun */
    int64_t tokenizer; /* of the data: 1 + enum mds_tokenizer; 0: unknown */
    int64_t eod;       /* its token that ends a document, unless that is 0; -1: none */
    int64_t expert_biases; /* 0: the model has none */
    /* [blocks, experts], borrowed; that of an index that was read lives as long as the
     * index.  NULL from mds_ckpt_state_read. */
    const double *expert_bias;
};

struct mds_ckpt_tensor {
    char name[MDS_CKPT_NAME];
    int64_t rows, cols;   /* cols 0: a vector */
    int64_t first, parts; /* of the index's parts */
};

struct mds_ckpt_index {
    char path[MDS_PATH_SIZE]; /* of the checkpoint */
    struct mds_ckpt_state state;
    int64_t save; /* identifies this save; the same number in all its files */
    int64_t ranks, tensors, parts;
    int64_t *bytes; /* [ranks] of each rank's file; 0: it has none */
    double *bias;   /* state.expert_bias, if it was read */
    struct mds_ckpt_tensor *tensor;
    struct mds_ckpt_part *part; /* by tensor */
};

/* Format of what this version writes. */
enum { MDS_CKPT_FORMAT = 2 };

/* Create an index with the tensors of `whole`, the registry of the unsharded model.
 * The caller adds the parts. */
enum mds_rc mds_ckpt_index_begin(const char *path, const struct mds_params *whole,
                                 int64_t ranks, struct mds_ckpt_index **out);
void mds_ckpt_index_destroy(struct mds_ckpt_index *ix); /* NULL is fine */

/* Sort ix->part by tensor; MDS_EUSER unless the parts make up every tensor. */
enum mds_rc mds_ckpt_index_sort_parts(struct mds_ckpt_index *ix);

/* For sorted parts: MDS_EUSER if parts of a tensor overlap, or are not contiguous in
 * their rank's list. */
enum mds_rc mds_ckpt_index_check_parts(const struct mds_ckpt_index *ix);

/* Write index.h5 into folder.  configuration, provenance and data are texts of lines;
 * data may be NULL. */
enum mds_rc mds_ckpt_index_write(const struct mds_ckpt_index *ix, const char *folder,
                                 const char *configuration, const char *provenance,
                                 const char *data);

/* Read path/index.h5.  MDS_EUSER: missing, damaged, or of another format. */
enum mds_rc mds_ckpt_index_read(const char *path, struct mds_ckpt_index **out);

/* Read only state and `save`, which is fast for any size of index. */
enum mds_rc mds_ckpt_state_read(const char *path, struct mds_ckpt_state *state,
                                int64_t *save);

/* The texts stored in path/index.h5; owned by the caller. */
enum mds_rc mds_ckpt_index_texts(const char *path, char **configuration,
                                 char **provenance);

/* Where the run that saved it stands in its data; NULL if that is not stored, as by
 * older versions.  Owned by the caller. */
enum mds_rc mds_ckpt_index_data(const char *path, char **text);

/* Broadcast rank 0's index; the other ranks' *ix is NULL before and owned by them
 * after. Collective. */
enum mds_rc mds_ckpt_index_broadcast(struct mds_comm *world,
                                     struct mds_ckpt_index **ix);

/* Whether a tensor has a row for each word: that of the embedding or of the head. */
int mds_ckpt_is_by_word(const char *name);

/* -1 if there is none of that name. */
int64_t mds_ckpt_index_find(const struct mds_ckpt_index *ix, const char *name);

/* MDS_EUSER names the first parameter that does not match this model.  Numbers of rows
 * may differ by the padding of the vocabulary, and by words that only this model has.
 */
enum mds_rc mds_ckpt_index_check_model(const struct mds_ckpt_index *ix,
                                       const struct mds_params *whole, int64_t vocab,
                                       int64_t padded_vocab);

/* MDS_EUSER names the first file that is missing or has another size than was written.
 */
enum mds_rc mds_ckpt_index_check_files(const struct mds_ckpt_index *ix);

#endif
