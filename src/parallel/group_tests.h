/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives that --preflight times over the groups of a layout, and that mds_launch
 * check predicts by running them on dry groups. */
#ifndef MDS_PARALLEL_GROUP_TESTS_H
#define MDS_PARALLEL_GROUP_TESTS_H

#include "parallel/groups.h"

/* What a test sends, where it receives, and scratch memory of mds_group_test_work
 * bytes. */
struct mds_group_buffers {
    char *in, *out, *work;
};

struct mds_group_test {
    unsigned axes; /* the group */
    const char *name;
    enum mds_rc (*run)(struct mds_comm *c, const struct mds_group_buffers *b,
                       int64_t bytes);
};

/* All of them; the last one's name is NULL. */
extern const struct mds_group_test mds_group_tests[];
enum { MDS_GROUP_TESTS = 7 };

/* Bytes of a short and of a long message. */
enum { MDS_GROUP_TEST_SHORT = 64 << 10 };
static inline int64_t mds_group_test_long(int on_gpus)
{
    return on_gpus ? 64 << 20 : 4 << 20;
}

int64_t mds_group_test_work(const struct mds_groups *g, int64_t bytes);

#endif
