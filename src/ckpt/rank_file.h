/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank's file of a checkpoint: lists of numbers, each in one piece, with a checksum
 * for every block of them.
 *
 *     attributes     mds_checkpoint (the format), save, rank, iteration
 *     /weight/NAME   f32; attribute `checksum`: which of them is its first block's
 *     /adam_m/NAME, /adam_v/NAME
 *                    the same
 *     /checksums     u64: XXH64 of each block of MDS_RANK_FILE_BLOCK elements; the last
 *                    block of a list is shorter
 *     /index/parts   what of which tensor the lists are, as in index.h5
 *
 * HDF5 lays the file out and closes it; then the numbers are written to their places
 * without HDF5, which knows one thread only, by any thread. */
#ifndef MDS_CKPT_RANKFILE_H
#define MDS_CKPT_RANKFILE_H

#include "ckpt/index.h"
#include "io/worker.h"

enum { MDS_RANK_FILE_BLOCK = 1 << 18 }; /* elements: 1 MiB */
enum { MDS_RANK_FILE_FETCHES = 8 };     /* blocks that an open file has in memory */

/* ---- what is in it ---- */

/* Where a rank's values come from. */
struct mds_ckpt_source {
    void *ctx;
    /* The elements of a unit that are this rank's to write; n may be 0. */
    void (*share)(void *ctx, int unit, int64_t *first, int64_t *n);
    /* Some of them, in f32. */
    enum mds_rc (*read)(void *ctx, enum mds_ckpt_what what, int unit, int64_t first,
                        int64_t n, float *out);
};

struct mds_rank_file_list {
    enum mds_ckpt_what what;
    const struct mds_param *param; /* borrowed */
    int64_t first, n;              /* elements of its unit */
    int64_t place, checksum; /* first byte in the file; its first block's number */
};

struct mds_rank_file_plan {
    struct mds_rank_file_list *list; /* [lists], in the order of the file */
    struct mds_part *part;           /* [parts] */
    int64_t lists, parts;
    int64_t elements; /* of all lists */
};

/* What a rank writes of its registry, local; duplicates are another rank's.  Weights
 * first, then each of the moments: in the order in which they are loaded. */
enum mds_rc mds_rank_file_plan(const struct mds_params *local,
                               const struct mds_params *whole, int64_t rank,
                               const struct mds_ckpt_source *source,
                               struct mds_rank_file_plan *out);
void mds_rank_file_plan_fini(struct mds_rank_file_plan *p); /* a zeroed one is fine */

/* ---- writing ---- */

struct mds_rank_file_id {
    int64_t save, rank, iteration;
};

struct mds_rank_file;

/* Lay out `path` for a plan that is borrowed, and whose lists get their places. *bytes:
 * what the file will have. */
enum mds_rc mds_rank_file_create(const char *path, const struct mds_rank_file_id *id,
                                 struct mds_rank_file_plan *plan,
                                 struct mds_rank_file **out, int64_t *bytes);
void mds_rank_file_destroy(struct mds_rank_file *f); /* NULL is fine */

/* Elements at .. at + n - 1 of a list; at is a multiple of the block, n too unless it
 * reaches the end.  Any thread, but one at a time; so seal. */
enum mds_rc mds_rank_file_put(struct mds_rank_file *f,
                              const struct mds_rank_file_list *list, int64_t at,
                              int64_t n, const float *values);

/* All is written: add the checksums, and let it reach the disk. */
enum mds_rc mds_rank_file_seal(struct mds_rank_file *f);

/* ---- reading ---- */

struct mds_rank_file_reader;

/* Who fetches what will be read next (borrowed).  cached, of one thread: the kernel
 * reads ahead of one reader.  around, of several: what is read from front to back,
 * around the page cache where that can be; NULL if other processes read the same now.
 */
struct mds_rank_file_workers {
    struct mds_worker *cached, *around;
};

/* MDS_EUSER if it is damaged, or not the one of that id. */
enum mds_rc mds_rank_file_open(const char *path, const struct mds_rank_file_id *id,
                               struct mds_rank_file_workers workers,
                               struct mds_rank_file_reader **out);
void mds_rank_file_close(struct mds_rank_file_reader *r); /* NULL is fine */

/* `runs` runs of n elements, each beginning `step` >= n elements after the one before.
 */
struct mds_runs {
    int64_t first, n, step, runs;
};

/* out's elements `to` become the list's elements `from`; as many runs of as many.  What
 * is read is compared with its checksums.  MDS_EUSER names file and list. */
enum mds_rc mds_rank_file_read(struct mds_rank_file_reader *r, const char *list,
                               const struct mds_runs *from, float *out,
                               const struct mds_runs *to);

/* Compare all of a list of `count` elements with its checksums. */
enum mds_rc mds_rank_file_verify(struct mds_rank_file_reader *r, const char *list,
                                 int64_t count);

#endif
