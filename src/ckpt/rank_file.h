/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's file of a checkpoint: contiguous lists of f32, with a checksum for every
 * block of elements.
 *
 *     attributes     mds_checkpoint (the format), save, rank, iteration
 *     /weight/NAME   f32; attribute `checksum`: index of its first block's checksum
 *     /adam_m/NAME, /adam_v/NAME
 *                    the same
 *     /checksums     u64: XXH64 of each block of MDS_RANK_FILE_BLOCK elements; the last
 *                    block of a list is shorter
 *     /index/parts   which parts of which tensors the lists are, as in index.h5
 *
 * HDF5 creates the layout and closes the file.  Then any thread writes the numbers at
 * their offsets with pwrite, since HDF5 is not thread-safe. */
#ifndef MDS_CKPT_RANKFILE_H
#define MDS_CKPT_RANKFILE_H

#include "ckpt/index.h"
#include "io/worker.h"

enum { MDS_RANK_FILE_BLOCK = 1 << 18 }; /* elements: 1 MiB */
enum { MDS_RANK_FILE_FETCHES = 8 };     /* blocks read ahead for an open file */

/* ---- contents ---- */

/* Where a rank gets the values to write. */
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
    int64_t first, n;              /* elements, counted in the parameter's unit */
    int64_t offset, checksum; /* first byte in the file; its first block's number */
};

struct mds_rank_file_plan {
    struct mds_rank_file_list *list; /* [lists], in the order of the file */
    struct mds_ckpt_part *part;      /* [parts] */
    int64_t lists, parts;
    int64_t elements; /* of all lists */
};

/* Plan what a rank writes of `local`, its registry; duplicates are left to another
 * rank. All weights first, then each moment: the order in which they are loaded. */
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

/* Create `path` with the layout for a plan (borrowed) and set the offsets of its lists.
 * *bytes: the size of the file. */
enum mds_rc mds_rank_file_create(const char *path, const struct mds_rank_file_id *id,
                                 struct mds_rank_file_plan *plan,
                                 struct mds_rank_file **out, int64_t *bytes);
void mds_rank_file_destroy(struct mds_rank_file *f); /* NULL is fine */

/* Write elements at .. at + n - 1 of a list; at is a multiple of the block, and so is n
 * unless it reaches the end.  Any thread may call put and seal, one at a time. */
enum mds_rc mds_rank_file_put(struct mds_rank_file *f,
                              const struct mds_rank_file_list *list, int64_t at,
                              int64_t n, const float *values);

/* After everything is written: add the checksums and fsync. */
enum mds_rc mds_rank_file_seal(struct mds_rank_file *f);

/* ---- reading ---- */

struct mds_rank_file_reader;

/* Threads that read ahead; borrowed.  cached, one thread: reads through the page cache,
 * which the kernel fills ahead of a single reader.  direct, several threads: read lists
 * from front to back with O_DIRECT; NULL if other processes read the same files now. */
struct mds_rank_file_workers {
    struct mds_worker *cached, *direct;
};

/* MDS_EUSER if the file is damaged or does not have this id. */
enum mds_rc mds_rank_file_open(const char *path, const struct mds_rank_file_id *id,
                               struct mds_rank_file_workers workers,
                               struct mds_rank_file_reader **out);
void mds_rank_file_close(struct mds_rank_file_reader *r); /* NULL is fine */

/* `count` rows of n elements, each beginning `step` >= n elements after the one before;
 * the first begins at element `first`. */
struct mds_strided_rows {
    int64_t first, n, step, count;
};

/* Copy rows `from` of the list to rows `to` of out; both have the same count and n.
 * The blocks read are compared with their checksums; MDS_EUSER names file and list. */
enum mds_rc mds_rank_file_read(struct mds_rank_file_reader *r, const char *list,
                               const struct mds_strided_rows *from, float *out,
                               const struct mds_strided_rows *to);

/* Compare all of a list of `count` elements with its checksums. */
enum mds_rc mds_rank_file_verify(struct mds_rank_file_reader *r, const char *list,
                                 int64_t count);

#endif
