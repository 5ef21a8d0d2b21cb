/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/tensor_parallel.h"

/* Whether each rank has only a slice of the rows between GEMMs. */
static int splits_sequence(const struct mds_par *p)
{
    return p->sequence_parallel && mds_groups_size(p->groups, MDS_AXIS_TENSOR) > 1;
}

/* Whether GEMMs produce partial sums. */
static int has_partial_sums(const struct mds_par *p)
{
    return mds_groups_size(p->groups, MDS_AXIS_TENSOR) > 1;
}

/* ---- chunks ---- */

int mds_tp_chunks(int64_t wanted, int64_t bytes)
{
    const int64_t worth_it = 16 << 20;

    if (wanted > 0)
        return (int)wanted;
    return bytes < worth_it ? 1 : 2;
}

/* A chunk: first row and number of rows, in GEMMs and in this rank's slice. */
struct chunk {
    int64_t at, rows, slice_at, slice_rows;
};

static struct chunk chunk_of(const struct mds_par *p, int i)
{
    int64_t at = mds_par_chunk(p, i), rows = mds_par_chunk(p, i + 1) - at;
    int parts = splits_sequence(p) ? mds_groups_size(p->groups, MDS_AXIS_TENSOR) : 1;

    return (struct chunk){at, rows, at / parts, rows / parts};
}

/* ---- gather ---- */

enum mds_rc mds_tp_gather_start(const struct mds_par *p, const void *x, int64_t width,
                                struct mds_tp_handle *in)
{
    int64_t row_bytes = width * (int64_t)mdsk_dtype_size(p->dtype);

    *in = (struct mds_tp_handle){.rows = (void *)x, .width = width};
    if (!splits_sequence(p))
        return MDS_OK;
    MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, mds_par_rows(p) * width, &in->rows));
    for (; in->started < p->chunks; in->started++) {
        struct chunk c = chunk_of(p, in->started);

        MDS_TRY(mds_comm_all_gather_start(
            mds_group(p->groups, MDS_AXIS_TENSOR), mds_par_at(p, x, c.slice_at * width),
            mds_par_at(p, in->rows, c.at * width), c.slice_rows * row_bytes,
            &in->req[in->started]));
    }
    return MDS_OK;
}

enum mds_rc mds_tp_gather_wait(const struct mds_par *p, struct mds_tp_handle *in,
                               int64_t rows)
{
    while (in->waited < in->started && mds_par_chunk(p, in->waited) < rows)
        MDS_TRY(mds_comm_wait(&in->req[in->waited++]));
    return MDS_OK;
}

enum mds_rc mds_tp_gather(const struct mds_par *p, const void *x, int64_t width,
                          struct mds_tp_handle *in)
{
    MDS_TRY(mds_tp_gather_start(p, x, width, in));
    return mds_tp_gather_wait(p, in, mds_par_rows(p));
}

/* ---- reduce ---- */

/* Scratch for the sum of a chunk. */
static int64_t work_bytes(const struct mds_par *p, int i, int64_t width)
{
    struct mds_comm *tp = mds_group(p->groups, MDS_AXIS_TENSOR);
    int64_t n = chunk_of(p, i).slice_rows * width;

    return splits_sequence(p) ? mds_comm_reduce_scatter_work(tp, n, p->dtype)
                              : mds_comm_all_reduce_work(tp, n, p->dtype);
}

enum mds_rc mds_tp_reduce_open(const struct mds_par *p, void *y, int64_t width,
                               struct mds_tp_handle *out)
{
    *out = (struct mds_tp_handle){.rows = y, .y = y, .width = width};
    if (splits_sequence(p))
        MDS_TRY(mds_par_alloc(p, MDS_MEM_WORK, mds_par_rows(p) * width, &out->rows));
    for (int i = 0; has_partial_sums(p) && i < p->chunks; i++)
        MDS_TRY(mds_arena_alloc(p->arena, MDS_MEM_COMM, work_bytes(p, i, width),
                                &out->work[i]));
    return MDS_OK;
}

static enum mds_rc start_chunk(const struct mds_par *p, struct mds_tp_handle *out,
                               int i)
{
    struct mds_comm *tp = mds_group(p->groups, MDS_AXIS_TENSOR);
    struct chunk c = chunk_of(p, i);
    void *part = mds_par_at(p, out->rows, c.at * out->width);
    void *sum = mds_par_at(p, out->y, c.slice_at * out->width);
    int64_t n = c.slice_rows * out->width;

    if (splits_sequence(p))
        return mds_comm_reduce_scatter_start(tp, part, sum, n, p->dtype, out->work[i],
                                             &out->req[i]);
    return mds_comm_all_reduce_start(tp, part, n, p->dtype, out->work[i], &out->req[i]);
}

enum mds_rc mds_tp_reduce_start(const struct mds_par *p, struct mds_tp_handle *out,
                                int64_t rows)
{
    for (; has_partial_sums(p) && out->started < p->chunks; out->started++) {
        if (mds_par_chunk(p, out->started + 1) > rows)
            break;
        MDS_TRY(start_chunk(p, out, out->started));
    }
    return MDS_OK;
}

enum mds_rc mds_tp_reduce_wait(struct mds_tp_handle *out)
{
    while (out->waited < out->started)
        MDS_TRY(mds_comm_wait(&out->req[out->waited++]));
    return MDS_OK;
}

enum mds_rc mds_tp_reduce(const struct mds_par *p, struct mds_tp_handle *out)
{
    MDS_TRY(mds_tp_reduce_start(p, out, mds_par_rows(p)));
    return mds_tp_reduce_wait(out);
}
