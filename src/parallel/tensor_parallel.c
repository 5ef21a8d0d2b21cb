#include "parallel/tensor_parallel.h"
#include "tensor/op.h"

/* Whether rows between products are others than in them. */
static int is_cut(const struct mds_par *p)
{
    return p->sequence_parallel && mds_comm_size(p->groups->tp) > 1;
}

/* ---- in ---- */

enum mds_rc mds_tp_enter_start(const struct mds_par *p, const void *x, int64_t width,
                               struct mds_tp_flow *in)
{
    int64_t bytes = mds_par_slice_rows(p) * width * (int64_t)mdsk_dtype_size(p->dtype);

    *in = (struct mds_tp_flow){.rows = (void *)x, .width = width};
    if (!is_cut(p))
        return MDS_OK;
    MDS_TRY(mds_par_take(p, MDS_MEM_WORK, mds_par_rows(p) * width, &in->rows));
    return mds_comm_all_gather_start(p->groups->tp, x, in->rows, bytes, &in->req);
}

enum mds_rc mds_tp_enter_wait(struct mds_tp_flow *in)
{
    return mds_comm_wait(&in->req);
}

enum mds_rc mds_tp_enter(const struct mds_par *p, const void *x, int64_t width,
                         struct mds_tp_flow *in)
{
    MDS_TRY(mds_tp_enter_start(p, x, width, in));
    return mds_tp_enter_wait(in);
}

/* ---- out ---- */

/* Bytes that a sum of the flow's rows works in. */
static int64_t work_bytes(const struct mds_par *p, int64_t width)
{
    struct mds_comm *tp = p->groups->tp;

    if (is_cut(p))
        return mds_comm_reduce_scatter_typed_work(tp, mds_par_slice_rows(p) * width,
                                                  p->dtype);
    return mds_comm_all_reduce_typed_work(tp, mds_par_rows(p) * width, p->dtype);
}

enum mds_rc mds_tp_leave_open(const struct mds_par *p, void *y, int64_t width,
                              struct mds_tp_flow *out)
{
    *out = (struct mds_tp_flow){.rows = y, .y = y, .width = width};
    if (mds_comm_size(p->groups->tp) == 1)
        return MDS_OK;
    if (is_cut(p))
        MDS_TRY(mds_par_take(p, MDS_MEM_WORK, mds_par_rows(p) * width, &out->rows));
    return mds_arena_take(p->arena, MDS_MEM_COMM, work_bytes(p, width), &out->work);
}

enum mds_rc mds_tp_leave_start(const struct mds_par *p, struct mds_tp_flow *out)
{
    struct mds_comm *tp = p->groups->tp;

    if (mds_comm_size(tp) == 1)
        return MDS_OK;
    if (is_cut(p))
        return mds_comm_reduce_scatter_start(
            tp, out->rows, out->y, mds_par_slice_rows(p) * out->width, p->dtype,
            MDS_COMM_SUM, out->work, &out->req);
    return mds_comm_all_reduce_typed_start(tp, out->rows, mds_par_rows(p) * out->width,
                                           p->dtype, MDS_COMM_SUM, out->work,
                                           &out->req);
}

enum mds_rc mds_tp_leave_wait(struct mds_tp_flow *out)
{
    return mds_comm_wait(&out->req);
}

enum mds_rc mds_tp_leave(const struct mds_par *p, struct mds_tp_flow *out)
{
    MDS_TRY(mds_tp_leave_start(p, out));
    return mds_tp_leave_wait(out);
}

/* ---- shared parameters ---- */

static enum mds_rc sum_up(const struct mds_par *p, float *x, int64_t n)
{
    struct mds_comm *tp = p->groups->tp;
    int64_t bytes = mds_comm_all_reduce_work(tp, n) * (int64_t)sizeof *x;
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    void *work = NULL;

    MDS_TRY(mds_arena_take(p->arena, MDS_MEM_COMM, bytes, &work));
    MDS_TRY(mds_comm_all_reduce(tp, x, n, MDS_COMM_SUM, work));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_tp_add_shared_grad(const struct mds_par *p, float *fresh, int64_t n,
                                   float *grad)
{
    struct mdsk_add add = {.n = n, .x = fresh, .y = grad};

    MDS_TRY(sum_up(p, fresh, n));
    return mds_op_add(p->dev, &add);
}
