/* SPDX-License-Identifier: BSD-3-Clause */
/* The data set's structs, for the dataset*.c only. */
#ifndef MDS_DATA_DATASET_IMPL_H
#define MDS_DATA_DATASET_IMPL_H

#include "base/str.h"
#include "data/dataset.h"
#include "data/mix.h"
#include "data/packing.h"
#include "data/paths.h"
#include "data/source.h"
#include "data/split.h"

/* The files that an option names; sources[first + k] of the data set is file k. */
struct files {
    struct mds_paths paths;
    struct mds_mix *mix;
    int first;
};

/* The part of one source that belongs to a split. */
struct member {
    struct mds_part part;
    struct mds_packing *packing; /* NULL: samples are windows across documents */
    int64_t samples;             /* packed rows, or windows in all spans */
};

struct blend {
    struct files *files;    /* borrowed from the data set */
    struct member *members; /* [files->paths.n] */
};

/* Sample i >= began of the run is sample i - began of the mix; sample n of the mix that
 * comes from file k is its sample start + n. */
struct data_order {
    int64_t began;
    struct {
        int64_t key, start;
    } file[]; /* of the training blend */
};

struct mds_dataset {
    int64_t seq_length, vocab;
    uint64_t seed;
    int packs;             /* samples are rows of whole documents */
    int64_t window_stride; /* as of mds_packing_create */
    int reverses;          /* half of the training samples of DNA */
    int documents_apart;   /* attention does not cross from one document to another */
    char *split;           /* as the user wrote it, for messages */
    struct files files[MDS_SPLITS]; /* of --data-path: only the first */
    struct mds_source **sources;    /* [n_sources] of all lists */
    int n_sources;
    struct blend blends[MDS_SPLITS];
    struct data_order *order;
    struct mds_position position; /* the same with the files' names; n is 0 if that was
                                     not asked for, as on other ranks than 0 */
    struct mds_kind kind[MDS_KINDS_MAX]; /* of all sources */
    int n_kinds;
    unsigned char *kind_of;  /* [n_sources, MDS_KINDS_MAX]: their numbers there */
    struct mds_str describe; /* "ecoli.h5: codon, 1.65 M tokens, 66 words" */
};

/* dataset_resume.c: the order of a new run. */
enum mds_rc mds_dataset_start_order(struct mds_dataset *d);

/* dataset_kinds.c: make the table of kinds; and replace a source's numbers in
 * kind[seq_length + 1] by those of the table. */
enum mds_rc mds_dataset_merge_kinds(struct mds_dataset *d);
void mds_dataset_renumber_kinds(const struct mds_dataset *d, int source,
                                unsigned char *kind);

/* Whether the splits divide the same files (--data-path), or have files of their own.
 */
static inline int mds_dataset_has_shared_files(const struct mds_dataset *d)
{
    return d->blends[MDS_SPLIT_VALID].files == d->blends[MDS_SPLIT_TRAIN].files;
}

static inline int mds_blend_members(const struct blend *b)
{
    return b->files->paths.n;
}

static inline struct mds_source *mds_blend_source(const struct mds_dataset *d,
                                                  const struct blend *b, int k)
{
    return d->sources[b->files->first + k];
}

static inline double mds_blend_weight(const struct blend *b)
{
    double total = 0;

    for (int k = 0; k < mds_blend_members(b); k++)
        total += b->files->paths.weight[k];
    return total;
}

#endif
