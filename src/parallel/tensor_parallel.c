#include "parallel/tensor_parallel.h"
#include "tensor/op.h"

enum mds_rc mds_tp_enter_fwd(const struct mds_par *p, const void *x, int64_t width,
                             void **full)
{
    int64_t bytes = mds_par_slice_rows(p) * width * (int64_t)mdsk_dtype_size(p->dtype);

    *full = (void *)x;
    if (!p->sequence_parallel || mds_comm_size(p->groups->tp) == 1)
        return MDS_OK;
    MDS_TRY(mds_par_take(p, MDS_MEM_WORK, mds_par_rows(p) * width, full));
    return mds_comm_all_gather(p->groups->tp, x, *full, bytes);
}

enum mds_rc mds_tp_partial(const struct mds_par *p, void *y, int64_t width,
                           void **partial)
{
    *partial = y;
    if (!p->sequence_parallel || mds_comm_size(p->groups->tp) == 1)
        return MDS_OK;
    return mds_par_take(p, MDS_MEM_WORK, mds_par_rows(p) * width, partial);
}

static enum mds_rc reduce_scatter(const struct mds_par *p, const void *partial,
                                  int64_t n, void *y)
{
    struct mds_comm *tp = p->groups->tp;
    int64_t bytes = mds_comm_reduce_scatter_typed_work(tp, n, p->dtype);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    void *work = NULL;

    MDS_TRY(mds_arena_take(p->arena, MDS_MEM_COMM, bytes, &work));
    MDS_TRY(
        mds_comm_reduce_scatter_typed(tp, partial, y, n, p->dtype, MDS_COMM_SUM, work));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

static enum mds_rc all_reduce(const struct mds_par *p, void *y, int64_t n,
                              enum mdsk_dtype dtype)
{
    struct mds_comm *tp = p->groups->tp;
    int64_t bytes = mds_comm_all_reduce_typed_work(tp, n, dtype);
    struct mds_arena_mark mark = mds_arena_mark(p->arena);
    void *work = NULL;

    MDS_TRY(mds_arena_take(p->arena, MDS_MEM_COMM, bytes, &work));
    MDS_TRY(mds_comm_all_reduce_typed(tp, y, n, dtype, MDS_COMM_SUM, work));
    mds_arena_release(p->arena, mark);
    return MDS_OK;
}

enum mds_rc mds_tp_leave_fwd(const struct mds_par *p, void *partial, int64_t width,
                             void *y)
{
    if (mds_comm_size(p->groups->tp) == 1)
        return MDS_OK;
    if (p->sequence_parallel)
        return reduce_scatter(p, partial, mds_par_slice_rows(p) * width, y);
    return all_reduce(p, y, mds_par_rows(p) * width, p->dtype);
}

enum mds_rc mds_tp_add_shared_grad(const struct mds_par *p, float *fresh, int64_t n,
                                   float *grad)
{
    struct mdsk_add add = {.n = n, .x = fresh, .y = grad};

    MDS_TRY(all_reduce(p, fresh, n, MDSK_F32));
    return mds_op_add(p->dev, &add);
}
