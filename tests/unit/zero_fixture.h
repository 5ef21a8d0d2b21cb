/* SPDX-License-Identifier: BSD-3-Clause */
/* What mds_zero needs, for its tests: rank `rank` of `size`, alone. */
#ifndef MDS_TESTS_UNIT_ZERO_FIXTURE_H
#define MDS_TESTS_UNIT_ZERO_FIXTURE_H

#include "scratch.h"

#include "optim/internal.h"

struct fixture {
    struct mds_dev *dev;
    struct mds_arena arena;
    struct mds_params *ps;
    struct mds_comm *comm;
    struct mds_zero *z;
    double *squares; /* of zero.c's */
};

static const struct mds_optim_config optim = {
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

/* All but z, without a parameter.  What the other ranks would send stays as it is. */
static void open_parts(struct fixture *f, const char *device, int64_t arena_bytes,
                       enum mdsk_dtype dtype, int rank, int size)
{
    struct mds_dev_spec spec = {.name = device, .threads = 1};

    memset(f, 0, sizeof *f);
    assert_int_equal(mds_dev_create(&spec, &f->dev), MDS_OK);
    assert_int_equal(mds_arena_init(&f->arena, f->dev, "test", arena_bytes), MDS_OK);
    assert_int_equal(mds_params_create(dtype, &f->ps), MDS_OK);
    assert_int_equal(mds_comm_create_dry(rank, size, "dp", &f->comm), MDS_OK);
}

/* Of its parts. */
static struct mds_zero_spec spec_of(const struct fixture *f, int stage)
{
    return (struct mds_zero_spec){.optim = &optim,
                                  .params = f->ps,
                                  .dev = f->dev,
                                  .group = f->comm,
                                  .stage = stage,
                                  .nvme_path = ".",
                                  .bucket_bytes = 8000,
                                  .overlap = 1,
                                  .threads = 1};
}

static void close_fixture(struct fixture *f)
{
    mds_zero_destroy(f->z);
    mds_comm_destroy(f->comm);
    mds_params_destroy(f->ps);
    mds_arena_fini(&f->arena);
    mds_dev_destroy(f->dev);
}

#endif
