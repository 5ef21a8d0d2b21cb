/* SPDX-License-Identifier: BSD-3-Clause */
/* optim: every stage, place of the states and type of the weights, on as many ranks as
 * it is started with.  A made-up model reads its weights and leaves gradients that
 * depend on them, the rank, the step and the pass; five steps are compared with the
 * definition in double, and with each other to the bit.
 *
 *   zero [FOLDER]      where states in files go; default: the current one */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optim/zero.h"
#include "tests/mpi/ranks.h"

enum { UNITS = 6, STEPS = 5, PARAMS = 14, BIG = 601 };

static const char *folder = ".";

/* ---- the model ---- */

/* Units of odd sizes: an embedding, layers, one larger than what passes through host
 * memory at a time (alone) or is summed at a time, and one smaller than the ranks'
 * smallest slices. */
static const struct {
    int unit;
    int64_t rows, cols;
    int decay, packed, duplicate;
} shapes[PARAMS] = {
    {0, 37, 5, 1, 0, 1},     {0, 11, 0, 0, 0, 1}, {1, 23, 0, 0, 0, 0},
    {1, 23, 17, 1, 0, 0},    {1, 17, 0, 0, 1, 0}, {2, 23, 0, 0, 0, 0},
    {2, 23, 17, 1, 0, 0},    {2, 17, 0, 0, 1, 0}, {3, 23, 0, 0, 0, 0},
    {3, 23, 17, 1, 0, 0},    {3, 17, 0, 0, 1, 0}, {4, 9, 0, 0, 0, 0},
    {4, BIG, 1000, 1, 0, 0}, {5, 13, 0, 1, 0, 0},
};

static struct mds_params *make_params(enum mdsk_dtype dtype)
{
    struct mds_params *ps = NULL;
    int last = -1, id;

    must(mds_params_create(dtype, &ps), "params");
    for (int i = 0; i < PARAMS; i++) {
        int64_t rows =
            shapes[i].rows == BIG && world.ranks > 1 ? BIG / 2 : shapes[i].rows;
        struct mds_param_spec s = {.rows = rows,
                                   .cols = shapes[i].cols,
                                   .init = MDS_INIT_NORMAL,
                                   .std = 0.5,
                                   .decay = shapes[i].decay,
                                   .packed = shapes[i].packed,
                                   .duplicate = shapes[i].duplicate};

        snprintf(s.name, sizeof s.name, "p%d", i);
        if (shapes[i].unit != last)
            must(mds_params_add_unit(ps, s.name, &last), "unit");
        must(mds_params_add(ps, &s, &id), "param");
    }
    return ps;
}

struct how {
    int stage;
    enum mds_place_kind optimizer, weights;
    enum mdsk_dtype dtype;
    int overlap;
    int passes;
    int chunks; /* each pass meets half of the units only */
};

/* -0.5 .. 0.5 */
static double pull_of(int rank, int unit, int64_t i, int step, int pass)
{
    uint32_t x = (uint32_t)i * 2654435761u +
                 (uint32_t)(((rank * 16 + unit) * 16 + step) * 16 + pass) * 40503u;

    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (double)x / 4294967296.0 - 0.5;
}

static double as_bf16(double x)
{
    float f = (float)x;
    uint32_t u;

    memcpy(&u, &f, 4);
    u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
    memcpy(&f, &u, 4);
    return f;
}

static float weight_at(const void *w, enum mdsk_dtype dtype, int64_t i)
{
    uint32_t u;
    float f;

    if (dtype == MDSK_F32)
        return ((const float *)w)[i];
    u = (uint32_t)((const uint16_t *)w)[i] << 16;
    memcpy(&f, &u, 4);
    return f;
}

/* Parameters only: gaps have no gradient. */
static void add_grads(const struct mds_params *ps, int unit, int step, int pass)
{
    const struct mds_param_unit *u = mds_params_unit(ps, unit);

    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(ps, id);
        int64_t at = p->offset - u->first;

        for (int64_t i = at; i < at + p->count; i++)
            u->grad[i] += (float)pull_of(world.rank, unit, i, step, pass) +
                          0.1f * weight_at(u->weight, mds_params_dtype(ps), i);
    }
}

/* ---- the definition ---- */

/* Of one element: weight, moments, and the last gradient. */
struct element {
    double w, m, v, g;
};

static double reference_grad(const struct how *h, double w, int unit, int64_t i,
                             int step)
{
    double seen = h->dtype == MDSK_F32 ? w : as_bf16(w), g = 0;

    for (int r = 0; r < world.ranks; r++)
        for (int pass = 0; pass < h->passes; pass++)
            g += pull_of(r, unit, i, step, pass) + 0.1 * seen;
    return g;
}

static void reference_step(const struct how *h, struct element *e, int unit, int64_t i,
                           int decay, int step)
{
    double g;

    e->g = reference_grad(h, e->w, unit, i, step);
    g = 0.5 * e->g;
    e->m = 0.9 * e->m + 0.1 * g;
    e->v = 0.95 * e->v + 0.05 * g * g;
    e->w -= 0.01 * (decay ? 0.1 : 0) * e->w;
    e->w -= 0.01 * (e->m / (1 - pow(0.9, step))) /
            (sqrt(e->v / (1 - pow(0.95, step))) + 1e-3);
}

/* ---- a run ---- */

struct run {
    const struct how *how;
    struct mds_dev *dev;
    struct mds_arena arena;
    struct mds_params *ps;
    struct mds_zero *z;
    double *squares;
};

static int64_t count_of(const struct run *r, int unit)
{
    return mds_params_unit(r->ps, unit)->count;
}

static void open_run(struct run *r, const struct how *h, struct mds_comm *group)
{
    static const struct mds_optim_config optim = {
        .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.1};
    const struct mds_dev_spec spec = {.name = "cpu", .threads = 1};
    struct mds_zero_spec zspec = {.optim = &optim,
                                  .group = group,
                                  .stage = h->stage,
                                  .optimizer = h->optimizer,
                                  .weights = h->weights,
                                  .nvme_path = folder,
                                  .bucket_bytes = 4000,
                                  .overlap = h->overlap,
                                  .threads = 1};
    void *p = NULL;

    *r = (struct run){.how = h};
    must(mds_dev_create(&spec, &r->dev), "device");
    must(mds_arena_init(&r->arena, r->dev, "zero", 64 << 20), "arena");
    r->ps = make_params(h->dtype);
    for (int i = 0; i <= h->chunks; i++) /* backward's `to` */
        mds_params_set_encloses(r->ps, 3 * i);
    zspec.params = r->ps;
    zspec.dev = r->dev;
    must(mds_zero_create(&zspec, &r->arena, &r->z), "create");
    must(mds_arena_alloc(&r->arena, MDS_MEM_WORK, 8, &p), "scalar");
    r->squares = p;
    must(mds_zero_init_weights(r->z, 7), "start");
}

static void close_run(struct run *r)
{
    mds_zero_destroy(r->z);
    mds_params_destroy(r->ps);
    mds_arena_fini(&r->arena);
    mds_dev_destroy(r->dev);
}

static void forward(struct run *r)
{
    for (int u = 0; u < UNITS; u++) {
        must(mds_params_acquire(r->ps, u), "acquire");
        must(mds_params_release(r->ps, u), "release");
    }
}

static void backward_unit(struct run *r, int unit, int step, int pass)
{
    must(mds_params_acquire(r->ps, unit), "acquire");
    must(mds_params_acquire(r->ps, unit), "acquire for recomputation");
    must(mds_params_grad_begin(r->ps, unit), "grad_begin");
    must(mds_params_release(r->ps, unit), "release");
    add_grads(r->ps, unit, step, pass);
    must(mds_params_grad_ready(r->ps, unit), "grad_ready");
    must(mds_params_release(r->ps, unit), "release");
}

/* The embedding's gradient begins with the head's, which is the same weights. */
static void backward(struct run *r, int from, int to, int step, int pass)
{
    must(mds_params_acquire(r->ps, to), "acquire");
    must(mds_params_grad_begin(r->ps, to), "grad_begin");
    for (int u = from; u > to; u--)
        backward_unit(r, u, step, pass);
    must(mds_params_release(r->ps, to), "release");
    backward_unit(r, to, step, pass);
}

static void gradients(struct run *r, int step)
{
    const struct how *h = r->how;

    mds_zero_step_begin(r->z);
    for (int pass = 0; pass < h->passes; pass++) {
        int last = pass == h->passes - 1;

        forward(r);
        mds_zero_pass_begin(r->z, last);
        backward(r, UNITS - 1, h->chunks ? 3 : 0, step, pass);
        if (!h->chunks)
            continue;
        mds_zero_pass_begin(r->z, last);
        backward(r, 2, 0, step, pass);
    }
    must(mds_zero_finish(r->z), "finish");
}

/* ---- comparisons ---- */

static uint64_t hash_more(uint64_t hash, const void *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const unsigned char *)p)[i]) * 0x100000001b3u;
    return hash;
}

static int far(double got, double want, double tolerance)
{
    return !(fabs(got - want) <= tolerance * (1 + fabs(want)));
}

/* What the definition makes of a unit, read as `what`; elements that are far from it.
 */
static int compare(const struct run *r, int unit, struct element *const *ref,
                   float *const got[4])
{
    const struct mds_param_unit *u = mds_params_unit(r->ps, unit);
    double tol = r->how->dtype == MDSK_F32 ? 2e-5 : 5e-3;
    int bad = 0;

    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(r->ps, id);

        for (int64_t i = p->offset - u->first; i < p->offset - u->first + p->count;
             i++) {
            const struct element *e = &ref[unit][i];

            bad += far((double)got[MDS_ZERO_WEIGHT][i], e->w, tol);
            bad += far((double)got[MDS_ZERO_GRAD][i], e->g, tol);
            bad += far((double)got[MDS_ZERO_M][i], e->m, tol);
            bad += far((double)got[MDS_ZERO_V][i], e->v, tol);
        }
    }
    return bad;
}

static int read_and_compare(struct run *r, struct element *const *ref, uint64_t *hash)
{
    int bad = 0;

    *hash = 0xcbf29ce484222325u;
    for (int unit = 0; unit < UNITS; unit++) {
        size_t n = (size_t)count_of(r, unit);
        float *got[4];

        for (int what = 0; what < 4; what++) {
            got[what] = calloc(n, sizeof(float));
            must(mds_zero_read(r->z, (enum mds_zero_what)what, unit, got[what]),
                 "read");
            *hash = hash_more(*hash, got[what], n * sizeof(float));
        }
        bad += compare(r, unit, ref, got);
        for (int what = 0; what < 4; what++)
            free(got[what]);
    }
    return bad;
}

/* Each rank sees the same weights, and they are the masters'. */
static int weights_differ(struct run *r)
{
    int bad = 0;

    for (int unit = 0; unit < UNITS; unit++) {
        int64_t n = count_of(r, unit);
        float *master = calloc((size_t)n, sizeof *master);

        must(mds_zero_read(r->z, MDS_ZERO_WEIGHT, unit, master), "read");
        must(mds_params_acquire(r->ps, unit), "acquire");
        for (int64_t i = 0; i < n; i++) {
            double want = (double)master[i];

            if (r->how->dtype != MDSK_F32)
                want = as_bf16(want);
            bad += (double)weight_at(mds_params_unit(r->ps, unit)->weight,
                                     r->how->dtype, i) != want;
        }
        must(mds_params_release(r->ps, unit), "release");
        free(master);
    }
    return bad;
}

static struct element **make_reference(const struct run *r)
{
    struct element **ref = calloc(UNITS, sizeof(struct element *));

    for (int unit = 0; unit < UNITS; unit++) {
        int64_t n = count_of(r, unit);
        float *w = calloc((size_t)n, sizeof *w);

        ref[unit] = calloc((size_t)n, sizeof *ref[unit]);
        mds_unit_init_values(r->ps, unit, 7, 0, n, w);
        for (int64_t i = 0; i < n; i++)
            ref[unit][i].w = (double)w[i];
        free(w);
    }
    return ref;
}

/* One step of all elements; returns the squares of the gradient. */
static double step_reference(const struct run *r, struct element **ref, int step)
{
    double squares = 0;

    for (int id = 0; id < PARAMS; id++) {
        const struct mds_param *p = mds_params_get(r->ps, id);
        int64_t at = p->offset - mds_params_unit(r->ps, p->unit)->first;

        for (int64_t i = at; i < at + p->count; i++) {
            struct element *e = &ref[p->unit][i];

            reference_step(r->how, e, p->unit, i, p->spec.decay, step);
            squares += p->spec.duplicate ? 0 : e->g * e->g;
        }
    }
    return squares;
}

static double group_squares(struct run *r)
{
    double s;

    must(mds_zero_grad_squares(r->z, r->squares), "squares");
    s = *r->squares;
    must(mds_comm_all_reduce_f64(all, &s, 1, MDS_COMM_SUM), "squares");
    return s;
}

/* The definition is the same for all runs of one type and number of passes. */
struct answer {
    struct element **ref;
    double squares[STEPS + 1];
};

static struct answer *answer_to(const struct run *r)
{
    static struct answer known[2][4];
    struct answer *a = &known[r->how->dtype != MDSK_F32][r->how->passes];

    if (a->ref)
        return a;
    a->ref = make_reference(r);
    for (int step = 1; step <= STEPS; step++)
        a->squares[step] = step_reference(r, a->ref, step);
    return a;
}

static void name_of(const struct how *h, char *name, size_t size)
{
    static const char *const places[] = {"device", "cpu", "file"};

    snprintf(name, size, "stage %d, states %s, weights %s, %s, %d pass%s%s%s", h->stage,
             places[h->optimizer], places[h->weights],
             h->dtype == MDSK_F32 ? "f32" : "bf16", h->passes,
             h->passes > 1 ? "es" : "", h->chunks ? " of 2 chunks" : "",
             h->overlap ? "" : ", no overlap");
}

static uint64_t run_case(const struct how *h)
{
    const struct answer *answer;
    struct run r;
    uint64_t hash;
    char name[128];
    int bad = 0;
    int64_t used;

    open_run(&r, h, all);
    answer = answer_to(&r);
    used = r.arena.now.used;
    for (int step = 1; step <= STEPS; step++) {
        gradients(&r, step);
        bad += far(group_squares(&r), answer->squares[step],
                   h->dtype == MDSK_F32 ? 1e-5 : 1e-3);
        must(mds_zero_update(r.z, 0.01, 0.5), "update");
        if (step == 2)
            forward(&r); /* an evaluation */
    }
    bad += r.arena.now.used != used;
    bad += read_and_compare(&r, answer->ref, &hash);
    bad += weights_differ(&r);
    close_run(&r);
    name_of(h, name, sizeof name);
    check(bad, name);
    return hash;
}

/* ---- the matrix ---- */

static const struct how places[] = {
    {0, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {0, MDS_PLACE_CPU, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {0, MDS_PLACE_NVME, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {1, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 0, 1, 0},
    {1, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {1, MDS_PLACE_CPU, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {1, MDS_PLACE_NVME, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {2, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 0, 1, 0},
    {2, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {2, MDS_PLACE_CPU, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {2, MDS_PLACE_NVME, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {3, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 0, 1, 0},
    {3, MDS_PLACE_DEVICE, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {3, MDS_PLACE_CPU, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {3, MDS_PLACE_NVME, MDS_PLACE_DEVICE, 0, 1, 1, 0},
    {3, MDS_PLACE_CPU, MDS_PLACE_CPU, 0, 1, 1, 0},
    {3, MDS_PLACE_NVME, MDS_PLACE_CPU, 0, 1, 1, 0},
};
enum { PLACES = sizeof places / sizeof places[0] };

static void test_places(enum mdsk_dtype dtype)
{
    uint64_t first = 0;
    int bad = 0;

    for (int i = 0; i < PLACES; i++) {
        struct how h = places[i];
        uint64_t hash;

        h.dtype = dtype;
        hash = run_case(&h);
        if (i == 0)
            first = hash;
        bad += hash != first;
    }
    check(bad, "all the same to the bit");
}

static void test_passes(int stage, int chunks)
{
    struct how h = {.stage = stage, .overlap = 1, .passes = 3, .chunks = chunks};
    uint64_t a = run_case(&h), b;

    h.overlap = 0;
    h.stage++;
    b = run_case(&h);
    check(a != b, "the same to the bit");
}

/* ---- the tied embedding on two stages of a pipeline ---- */

/* Ranks 0 and 1 are the first stage, 2 and 3 the last. */
static int summed_wrong(int stage, struct mds_comm *group, struct mds_comm *embed)
{
    struct how h = {.stage = stage, .overlap = 1, .passes = 1};
    struct run r;
    int64_t n;
    float *got;
    int bad = 0;

    open_run(&r, &h, group);
    n = count_of(&r, 4);
    got = calloc((size_t)n, sizeof *got);
    gradients(&r, 1);
    must(mds_zero_sum_unit(r.z, 4, embed), "sum_unit");
    must(mds_zero_read(r.z, MDS_ZERO_GRAD, 4, got), "read");
    for (int64_t i = 64; i < 64 + BIG / 2 * 1000; i++) {
        const struct mds_param_unit *u = mds_params_unit(r.ps, 4);
        float w;

        mds_unit_init_values(r.ps, 4, 7, i, 1, &w);
        bad += u->count != n ||
               far((double)got[i], reference_grad(&h, (double)w, 4, i, 1), 2e-6);
    }
    free(got);
    close_run(&r);
    return bad;
}

static void test_sum_unit(void)
{
    int stage_of = world.rank / 2, in_stage = world.rank % 2;
    int mine[] = {2 * stage_of, 2 * stage_of + 1}, across[] = {in_stage, 2 + in_stage};
    struct mds_comm *group = NULL, *embed = NULL;
    int bad = 0;

    must(mds_comm_create_mpi(mine, 2, "zero", &group), "group");
    must(mds_comm_create_mpi(across, 2, "embed", &embed), "group");
    for (int stage = 0; stage < 4; stage++)
        bad += summed_wrong(stage, group, embed);
    mds_comm_destroy(embed);
    mds_comm_destroy(group);
    check(bad, "gradients of a unit that two groups have");
}

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    ranks_init();
    mds_comm_set_timeout_s(300); /* files may be slow */
    test_places(MDSK_F32);
    test_places(MDSK_BF16);
    test_passes(0, 0);
    test_passes(2, 0);
    test_passes(0, 1);
    test_passes(2, 1);
    if (world.ranks == 4)
        test_sum_unit();
    return ranks_fini();
}
