/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: Muon on as many ranks as it is started with, cut by tensor ranks and by ZeRO
 * in all ways, against one rank, to the bit.
 *
 *   muon [FOLDER]      where states in files go; default: the current one */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/zero.h"
#include "tests/mpi/ranks.h"

enum { UNITS = 3, KINDS = 8, STEPS = 3 };

static const char *folder = ".";

/* Of each unit.  Sides that are cut divide by 2, 3 and 4 ranks; the longest one is cut
 * by columns.  The last two are AdamW's. */
static const struct {
    int64_t rows, cols;
    enum mds_shard shard;
    int packed, in_block;
} kinds[KINDS] = {
    {24, 36, MDS_SHARD_ROWS, 0, 1},  {12, 36, MDS_SHARD_ROWS, 1, 1},
    {12, 120, MDS_SHARD_COLS, 0, 1}, {7, 60, MDS_SHARD_COLS, 1, 1},
    {1, 12, MDS_SHARD_COLS, 0, 1},   {10, 9, MDS_SHARD_NONE, 0, 1},
    {48, 5, MDS_SHARD_ROWS, 0, 0},   {33, 0, MDS_SHARD_NONE, 0, 0},
};

static struct mds_params *make_params(enum mdsk_dtype dtype, int tensor, int part)
{
    struct mds_params *ps = NULL;
    int id;

    must(mds_params_create(dtype, &ps), "params");
    for (int i = 0; i < UNITS * KINDS; i++) {
        struct mds_param_spec s = {.rows = kinds[i % KINDS].rows,
                                   .cols = kinds[i % KINDS].cols,
                                   .shard = kinds[i % KINDS].shard,
                                   .packed = kinds[i % KINDS].packed,
                                   .in_block = kinds[i % KINDS].in_block,
                                   .init = MDS_INIT_NORMAL,
                                   .std = 0.5,
                                   .decay = i % 3 > 0};

        s.parts = s.shard == MDS_SHARD_NONE ? 1 : tensor;
        s.part = s.shard == MDS_SHARD_NONE ? 0 : part;
        snprintf(s.name, sizeof s.name, "p%d", i);
        if (i % KINDS == 0)
            must(mds_params_add_unit(ps, s.name, &id), "unit");
        must(mds_params_add(ps, &s, &id), "param");
    }
    return ps;
}

struct how {
    int tensor, stage;
    enum mds_place_kind optimizer, weights;
    enum mdsk_dtype dtype;
};

struct run {
    struct mds_dev *dev;
    struct mds_arena arena;
    struct mds_params *ps;
    struct mds_comm *group, *stage_group;
    struct mds_zero *z;
};

static struct mds_comm *make_group(int first, int n, int stride)
{
    struct mds_comm *c = NULL;
    int members[64];

    for (int i = 0; i < n; i++)
        members[i] = first + i * stride;
    must(mds_comm_create_mpi(members, n, "group", &c), "group");
    return c;
}

static void open_run(struct run *r, const struct how *h, int alone)
{
    static const struct mds_optim_config optim = {.kind = MDS_MUON,
                                                  .beta1 = 0.9,
                                                  .beta2 = 0.95,
                                                  .eps = 1e-3,
                                                  .weight_decay = 0.1,
                                                  .muon_momentum = 0.95,
                                                  .muon_nesterov = 1,
                                                  .muon_steps = 5,
                                                  .muon_extra_scale = 0.2};
    const struct mds_dev_spec spec = {.name = "cpu", .threads = 1};
    int part = world.rank % h->tensor;
    struct mds_zero_spec zspec = {.optim = &optim,
                                  .stage = h->stage,
                                  .optimizer = h->optimizer,
                                  .weights = h->weights,
                                  .nvme_path = folder,
                                  .bucket_bytes = 4000,
                                  .overlap = 1,
                                  .threads = 1};

    *r = (struct run){0};
    must(mds_dev_create(&spec, &r->dev), "device");
    must(mds_arena_init(&r->arena, r->dev, "muon", 32 << 20), "arena");
    r->ps = make_params(h->dtype, h->tensor, alone ? 0 : part);
    r->group = alone ? make_group(world.rank, 1, 1)
                     : make_group(part, world.ranks / h->tensor, h->tensor);
    r->stage_group =
        alone ? make_group(world.rank, 1, 1) : make_group(0, world.ranks, 1);
    zspec.params = r->ps;
    zspec.dev = r->dev;
    zspec.group = r->group;
    zspec.stage_group = r->stage_group;
    must(mds_zero_create(&zspec, &r->arena, &r->z), "create");
    must(mds_zero_init_weights(r->z, 7), "start");
}

static void close_run(struct run *r)
{
    mds_zero_destroy(r->z);
    mds_comm_destroy(r->group);
    mds_comm_destroy(r->stage_group);
    mds_params_destroy(r->ps);
    mds_arena_fini(&r->arena);
    mds_dev_destroy(r->dev);
}

/* Of an element of the whole parameter, all from the first rank of a ZeRO group, so
 * that their sum is exact. */
static float gradient(int id, int64_t whole, int step)
{
    return (float)sin(1.7 * (double)((whole + 1) * (whole + 2 + step) + id));
}

static void backward(struct run *r, int unit, int step)
{
    const struct mds_param_unit *u = mds_params_unit(r->ps, unit);

    must(mds_params_acquire(r->ps, unit), "acquire");
    must(mds_params_grad_begin(r->ps, unit), "grad_begin");
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(r->ps, id);
        float *g = u->grad + (p->offset - u->first);

        for (int64_t i = 0; i < p->count && mds_comm_rank(r->group) == 0; i++)
            g[i] += gradient(id, mds_param_whole_index(p, i), step);
    }
    must(mds_params_grad_ready(r->ps, unit), "grad_ready");
    must(mds_params_release(r->ps, unit), "release");
}

static void make_steps(struct run *r)
{
    for (int step = 0; step < STEPS; step++) {
        for (int u = 0; u < UNITS; u++) {
            must(mds_params_acquire(r->ps, u), "acquire");
            must(mds_params_release(r->ps, u), "release");
        }
        mds_zero_step_begin(r->z);
        mds_zero_pass_begin(r->z, 1);
        for (int u = UNITS - 1; u >= 0; u--)
            backward(r, u, step);
        must(mds_zero_finish(r->z), "finish");
        must(mds_zero_update(r->z, 0.01, 0.5), "update");
    }
}

/* Elements of a unit that are not those of one rank. */
static int unit_differs(struct run *r, struct run *one, enum mds_zero_what what,
                        int unit)
{
    static float here[1 << 14], there[1 << 14];
    const struct mds_param_unit *u = mds_params_unit(r->ps, unit),
                                *v = mds_params_unit(one->ps, unit);
    int bad = 0;

    must(mds_zero_read(r->z, what, unit, here), "read");
    must(mds_zero_read(one->z, what, unit, there), "read");
    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(r->ps, id),
                               *q = mds_params_get(one->ps, id);

        for (int64_t i = 0; i < p->count; i++)
            bad += here[p->offset - u->first + i] !=
                   there[q->offset - v->first + mds_param_whole_index(p, i)];
    }
    return bad;
}

/* The weights that the model sees are the masters rounded. */
static int weights_differ(struct run *r, struct run *one, enum mdsk_dtype dtype)
{
    int64_t elem = (int64_t)mdsk_dtype_size(dtype);
    int bad = 0;

    for (int unit = 0; unit < UNITS; unit++) {
        const struct mds_param_unit *u = mds_params_unit(r->ps, unit),
                                    *v = mds_params_unit(one->ps, unit);

        must(mds_params_acquire(r->ps, unit), "acquire");
        must(mds_params_acquire(one->ps, unit), "acquire");
        for (int id = u->first_param; id < u->first_param + u->params; id++) {
            const struct mds_param *p = mds_params_get(r->ps, id),
                                   *q = mds_params_get(one->ps, id);

            for (int64_t i = 0; i < p->count; i++)
                bad +=
                    memcmp((const char *)u->weight + (p->offset - u->first + i) * elem,
                           (const char *)v->weight +
                               (q->offset - v->first + mds_param_whole_index(p, i)) *
                                   elem,
                           (size_t)elem) != 0;
        }
        must(mds_params_release(r->ps, unit), "release");
        must(mds_params_release(one->ps, unit), "release");
    }
    return bad;
}

static int differs_from_one_rank(const struct how *h)
{
    const struct how alone = {.tensor = 1, .dtype = h->dtype};
    struct run r, one;
    int bad = 0;

    open_run(&r, h, 0);
    open_run(&one, &alone, 1);
    make_steps(&r);
    make_steps(&one);
    bad += weights_differ(&r, &one, h->dtype);
    for (int unit = 0; unit < UNITS; unit++) {
        bad += unit_differs(&r, &one, MDS_ZERO_WEIGHT, unit);
        bad += unit_differs(&r, &one, MDS_ZERO_M, unit);
        bad += unit_differs(&r, &one, MDS_ZERO_V, unit);
    }
    close_run(&one);
    close_run(&r);
    return bad;
}

static void check_tensor(int tensor)
{
    static const struct {
        enum mds_place_kind optimizer, weights;
    } places[] = {{MDS_PLACE_DEVICE, MDS_PLACE_DEVICE},
                  {MDS_PLACE_CPU, MDS_PLACE_DEVICE},
                  {MDS_PLACE_NVME, MDS_PLACE_DEVICE},
                  {MDS_PLACE_CPU, MDS_PLACE_CPU},
                  {MDS_PLACE_NVME, MDS_PLACE_CPU}};
    char name[64];

    for (int stage = 0; stage < 4; stage++) {
        int bad = 0;

        for (int i = 0; i < (stage == 3 ? 5 : 3) * 2; i++) {
            const struct how h = {.tensor = tensor,
                                  .stage = stage,
                                  .optimizer = places[i / 2].optimizer,
                                  .weights = places[i / 2].weights,
                                  .dtype = i % 2 ? MDSK_BF16 : MDSK_F32};

            bad += differs_from_one_rank(&h);
        }
        snprintf(name, sizeof name, "tensor %d, ZeRO %d: as one rank", tensor, stage);
        check(bad, name);
    }
}

int main(int argc, char **argv)
{
    ranks_init();
    if (argc > 1)
        folder = argv[1];
    for (int tensor = 1; tensor <= world.ranks && tensor <= 4; tensor++)
        if (world.ranks % tensor == 0)
            check_tensor(tensor);
    return ranks_fini();
}
