/* SPDX-License-Identifier: BSD-3-Clause */
/* What a checkpoint holds, and in which file: the contents of index.h5 but for the
 * virtual data sets, which are there for other readers. */
#ifndef MDS_CKPT_INDEX_H
#define MDS_CKPT_INDEX_H

#include "ckpt/folder.h"
#include "ckpt/part.h"
#include "comm/comm.h"

/* Of every parameter: master weights and Adam's moments. */
enum mds_ckpt_what { MDS_CKPT_WEIGHT, MDS_CKPT_M, MDS_CKPT_V, MDS_CKPT_STATES };

/* "weight", "adam_m", "adam_v": the groups in files. */
const char *mds_ckpt_group(enum mds_ckpt_what what);

enum { MDS_CKPT_NAME = 64 };

/* The name of a tensor's data set: "/weight/NAME". */
void mds_ckpt_set_name(enum mds_ckpt_what what, const char *tensor, char name[96]);

/* What a run took of the checkpoint that it began from. */
enum mds_ckpt_begun {
    MDS_BEGUN_FROM_ALL,
    MDS_BEGUN_WITHOUT_MOMENTS,
    MDS_BEGUN_FINETUNE
};

/* Where the run was.  Everything else follows from the configuration. */
struct mds_ckpt_state {
    int64_t iteration;
    int64_t samples; /* consumed */
    int64_t updates; /* of the optimizer: iterations but for those left out */
    double loss_scale;
    int64_t scale_dynamic, scale_good, scale_left; /* as in optim/loss_scale.h */
    int64_t vocab, padded_vocab;                   /* rows behind vocab do not count */
    int64_t origin; /* `save` of the checkpoint that the run began from; 0: of none */
    int64_t begun;  /* enum mds_ckpt_begun */
    int64_t tokenizer; /* of the data: 1 + enum mds_tokenizer; 0: nobody knows */
    int64_t eod;       /* its word that ends a document, unless that is 0; -1: none */
};

struct mds_ckpt_tensor {
    char name[MDS_CKPT_NAME];
    int64_t rows, cols;   /* cols 0: a vector */
    int64_t first, parts; /* of the index's parts */
};

struct mds_ckpt_index {
    char path[MDS_PATH_SIZE]; /* of the checkpoint */
    struct mds_ckpt_state state;
    int64_t save; /* a number of this save, the same in all its files */
    int64_t ranks, tensors, parts;
    int64_t *bytes; /* [ranks] of each rank's file; 0: it has none */
    struct mds_ckpt_tensor *tensor;
    struct mds_part *part; /* by tensor */
};

/* Format of what this version writes. */
enum { MDS_CKPT_FORMAT = 2 };

/* Tensors from a registry of the whole model.  Parts are the caller's to add. */
enum mds_rc mds_ckpt_index_begin(const char *path, const struct mds_params *whole,
                                 int64_t ranks, struct mds_ckpt_index **out);
void mds_ckpt_index_destroy(struct mds_ckpt_index *ix); /* NULL is fine */

/* Order ix->part by tensor; MDS_EUSER unless they make up every tensor. */
enum mds_rc mds_ckpt_index_arrange(struct mds_ckpt_index *ix);

/* Once they are in order: MDS_EUSER if parts of a tensor overlap, or do not lie one
 * behind the other in their rank's list. */
enum mds_rc mds_ckpt_index_check_parts(const struct mds_ckpt_index *ix);

/* Write index.h5 into folder.  configuration and provenance are texts of lines. */
enum mds_rc mds_ckpt_index_write(const struct mds_ckpt_index *ix, const char *folder,
                                 const char *configuration, const char *provenance);

/* Read path/index.h5.  MDS_EUSER: missing, damaged, or of another format. */
enum mds_rc mds_ckpt_index_read(const char *path, struct mds_ckpt_index **out);

/* Of it the state and `save` alone, which is quick however large it is. */
enum mds_rc mds_ckpt_state_read(const char *path, struct mds_ckpt_state *state,
                                int64_t *save);

/* The texts in it; the caller's to free. */
enum mds_rc mds_ckpt_index_texts(const char *path, char **configuration,
                                 char **provenance);

/* The first rank's index reaches all (theirs is NULL before).  Collective. */
enum mds_rc mds_ckpt_index_share(struct mds_comm *world, struct mds_ckpt_index **ix);

/* -1 if there is none of that name. */
int64_t mds_ckpt_index_find(const struct mds_ckpt_index *ix, const char *name);

/* MDS_EUSER names the first parameter that makes it another model's.  Numbers of rows
 * may differ by the padding of the vocabulary. */
enum mds_rc mds_ckpt_index_check_model(const struct mds_ckpt_index *ix,
                                       const struct mds_params *whole, int64_t vocab,
                                       int64_t padded_vocab);

/* MDS_EUSER names the first file that is missing or has not the size it was written
 * with. */
enum mds_rc mds_ckpt_index_check_files(const struct mds_ckpt_index *ix);

#endif
