/* SPDX-License-Identifier: BSD-3-Clause */
/* parallel, tensor, optim: gradients are summed over the axes that their parameters are
 * not sharded over, by a table with an axis that the program does not have.  Eight
 * ranks, two along each of three axes: a bit of a rank's number is its place along one.
 */
#include "optim/zero.h"
#include "parallel/par.h"
#include "tests/mpi/ranks.h"

#include <stdio.h>
#include <string.h>

enum { TENSOR = 3, EXPERT = 3 << 2, DATA = 3 << 4, STAGE = 3 << 6 };

static const struct mds_axis table[] = {{"tensor", "tp", "parallel.tensor", 0},
                                        {"expert", "expert", "parallel.expert", 0},
                                        {"data", "dp", NULL, 0},
                                        {"pipeline", "pipe", "parallel.pipeline", 0},
                                        {0}};

/* Ranks of data and of experts see other tokens.  sum: as one would say it by hand. */
static const struct {
    const char *name;
    int unit;
    enum mds_shard shard;
    unsigned axes, partial, sum;
} params[] = {
    {"matrix", 0, MDS_SHARD_ROWS, TENSOR, DATA | EXPERT, DATA | EXPERT},
    {"norm of slices", 0, MDS_SHARD_NONE, 0, DATA | EXPERT | TENSOR,
     DATA | EXPERT | TENSOR},
    {"norm of rows", 0, MDS_SHARD_NONE, 0, DATA | EXPERT, DATA | EXPERT},
    {"expert", 1, MDS_SHARD_ROWS, EXPERT, DATA | EXPERT, DATA},
    {"expert's matrix", 1, MDS_SHARD_COLS, TENSOR | EXPERT, DATA | EXPERT, DATA},
};

enum { PARAMS = sizeof params / sizeof *params, UNITS = 2, ROWS = 12, COLS = 40 };

static struct mds_params *make_params(const struct mds_groups *g)
{
    struct mds_params *ps = NULL;
    int id;

    must(mds_params_create(MDSK_F32, &ps), "params");
    for (int i = 0; i < PARAMS; i++) {
        struct mds_param_spec s = {.rows = ROWS,
                                   .cols = COLS,
                                   .shard = params[i].shard,
                                   .axes = params[i].axes,
                                   .partial = params[i].partial,
                                   .parts = mds_groups_size(g, params[i].axes),
                                   .part = mds_groups_rank(g, params[i].axes)};

        if (params[i].unit == mds_params_units(ps))
            must(mds_params_add_unit(ps, params[i].name, &id), "unit");
        snprintf(s.name, sizeof s.name, "%s", params[i].name);
        must(mds_params_add(ps, &s, &id), "param");
    }
    return ps;
}

static int is_member(unsigned axes, int rank, int r)
{
    for (int i = 0; i < 3; i++)
        if ((r ^ rank) >> i & 1 && !(axes & mds_axis_bits(table, i)))
            return 0;
    return 1;
}

/* Each rank's gradient is its bit: a sum says whose are in it. */
static float bits_of(unsigned axes, int rank)
{
    unsigned bits = 0;

    for (int r = 0; r < world.ranks; r++)
        if (is_member(axes, rank, r))
            bits |= 1u << r;
    return (float)bits;
}

static void backward(const struct mds_par *p, struct mds_params *ps)
{
    for (int id = 0; id < PARAMS; id++) {
        int64_t n = mds_params_get(ps, id)->count;
        unsigned early = mds_params_early_axes(ps, id);
        float *grad;

        if (id == 0 || params[id].unit > params[id - 1].unit)
            must(mds_params_grad_begin(ps, params[id].unit), "grad_begin");
        grad = mds_param_grad(ps, id);
        for (int64_t i = 0; i < n; i++)
            grad[i] = (float)(1u << world.rank);
        if (early)
            must(mds_par_sum(p, early, grad, n), "sum");
        if (id + 1 == PARAMS || params[id + 1].unit > params[id].unit)
            must(mds_params_grad_ready(ps, params[id].unit), "grad_ready");
    }
}

static int wrong_in(struct mds_zero *z, const struct mds_params *ps)
{
    float got[PARAMS * ROWS * COLS + MDS_UNIT_ALIGN * PARAMS];
    int bad = 0;

    for (int id = 0; id < PARAMS; id++) {
        const struct mds_param *p = mds_params_get(ps, id);
        int64_t at = p->offset - mds_params_unit(ps, p->unit)->first;

        must(mds_zero_read(z, MDS_ZERO_GRAD, p->unit, got), "read");
        for (int64_t i = 0; i < p->count; i++)
            bad += got[at + i] != bits_of(params[id].sum, world.rank);
    }
    return bad;
}

static int sums_are_wrong(const struct mds_groups *g, struct mds_dev *dev, int stage)
{
    static const struct mds_optim_config optim = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1};
    struct mds_params *ps = make_params(g);
    struct mds_comm *groups[UNITS];
    struct mds_arena arena = {0};
    struct mds_par p = {.dev = dev, .groups = g, .arena = &arena};
    struct mds_zero_spec spec = {.optim = &optim,
                                 .params = ps,
                                 .dev = dev,
                                 .group = mds_group(g, DATA | EXPERT),
                                 .unit_group = groups,
                                 .stage = stage,
                                 .threads = 1};
    struct mds_zero *z = NULL;
    int bad;

    for (int u = 0; u < UNITS; u++) {
        groups[u] = mds_group(g, mds_params_sum_axes(ps, u));
        if (!groups[u])
            quit("no group for what a unit's parameters have in common");
    }
    must(mds_arena_init(&arena, dev, "axes", 4 << 20), "arena");
    must(mds_zero_create(&spec, &arena, &z), "create");
    must(mds_zero_init_weights(z, 7), "start");
    mds_zero_step_begin(z);
    mds_zero_pass_begin(z, 1);
    backward(&p, ps);
    must(mds_zero_finish(z), "finish");
    bad = wrong_in(z, ps);
    mds_zero_destroy(z);
    mds_params_destroy(ps);
    mds_arena_fini(&arena);
    return bad;
}

static int groups_are_wrong(const struct mds_groups *g)
{
    int bad = 0;

    for (int i = 0; i < g->n; i++) {
        const struct mds_group *is = &g->made[i];
        double bits = 1u << world.rank;

        must(mds_comm_all_reduce_f64(is->comm, &bits, 1, MDS_COMM_SUM), "sum");
        bad += bits != (double)bits_of(is->axes, world.rank);
        bad += mds_comm_size(is->comm) != mds_groups_size(g, is->axes);
        bad += mds_comm_rank(is->comm) != mds_groups_rank(g, is->axes);
    }
    return bad;
}

int main(void)
{
    static const unsigned sets[] = {DATA,   DATA | EXPERT,   TENSOR | EXPERT,
                                    TENSOR, TENSOR | DATA,   STAGE,
                                    0,      EXPERT | TENSOR, MDS_AXES_ALL};
    const int64_t size[] = {2, 2, 0, 1};
    const struct mds_dev_spec cpu = {.name = "cpu", .threads = 1};
    struct mds_dev *dev = NULL;
    struct mds_groups g;
    struct mds_grid grid;

    ranks_init();
    must(mds_grid_init(&grid, table, size, world.ranks), "grid");
    must(mds_dev_create(&cpu, &dev), "device");
    mds_groups_init(&g, &grid, world.rank, dev);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        must(mds_groups_add(&g, sets[i]), "group");
    check(g.n != 8, "a set of axes has one group");
    check(groups_are_wrong(&g), "groups have their ranks");
    check(strcmp(mds_comm_tag(mds_group(&g, TENSOR | EXPERT)), "tp-expert") != 0,
          "a group is called after its axes");
    check(mds_comm_size(mds_group(&g, STAGE)) != 1, "an axis of one rank");
    for (int stage = 0; stage <= 3; stage++)
        check(sums_are_wrong(&g, dev, stage), "sums of gradients");
    mds_groups_fini(&g);
    mds_dev_destroy(dev);
    return ranks_fini();
}
