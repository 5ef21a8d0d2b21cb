/* SPDX-License-Identifier: BSD-3-Clause */
#include "parallel/group_tests.h"
#include "base/minmax.h"

static enum mds_rc all_reduce(struct mds_comm *c, const struct mds_group_buffers *b,
                              int64_t bytes)
{
    return mds_comm_all_reduce(c, b->in, bytes / (int64_t)sizeof(float), MDSK_F32,
                               b->work);
}

static enum mds_rc all_to_all(struct mds_comm *c, const struct mds_group_buffers *b,
                              int64_t bytes)
{
    return mds_comm_all_to_all(c, b->in, b->out, bytes / mds_comm_size(c));
}

static enum mds_rc ring(struct mds_comm *c, const struct mds_group_buffers *b,
                        int64_t bytes)
{
    int n = mds_comm_size(c), me = mds_comm_rank(c);
    struct mds_comm_p2p out = {0}, in = {0};

    MDS_TRY(mds_comm_send_start(c, b->in, bytes, (me + 1) % n, 0, &out));
    MDS_TRY(mds_comm_recv_start(c, b->out, bytes, (me + n - 1) % n, 0, &in));
    MDS_TRY(mds_comm_p2p_wait(&out));
    return mds_comm_p2p_wait(&in);
}

const struct mds_group_test mds_group_tests[] = {
    {MDS_AXIS_TENSOR, "all_reduce", all_reduce},
    {MDS_AXIS_TENSOR, "all_to_all", all_to_all},
    {MDS_AXIS_ULYSSES, "all_to_all", all_to_all},
    {MDS_AXIS_RING, "ring", ring},
    {MDS_AXES_TOKENS, "all_reduce", all_reduce},
    {MDS_AXES_TOKENS, "all_to_all", all_to_all},
    {MDS_AXIS_PIPELINE, "ring", ring},
    {0},
};

_Static_assert(sizeof mds_group_tests / sizeof *mds_group_tests == MDS_GROUP_TESTS + 1,
               "a row for each test");

int64_t mds_group_test_work(const struct mds_groups *g, int64_t bytes)
{
    int64_t most = 0;

    for (int i = 0; i < g->n; i++)
        most = mds_max(most, mds_comm_all_reduce_work(g->made[i].comm,
                                                      bytes / (int64_t)sizeof(float),
                                                      MDSK_F32));
    return most;
}
