/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/muon.h"
#include "base/alloc.h"
#include "base/minmax.h"
#include "kernels/table.h"
#include "tensor/op.h"

#include <math.h>
#include <stdlib.h>

/* Rounds hand out the matrices, not ranges of them. */
const struct zero_rule mds_muon = {.op = MDS_OP_MUON_STEP};

struct zero_matrix {
    int id, unit; /* of the parameter */
    int window;
    double flops;
    int64_t rows;
};

/* ---- where the elements are ---- */

/* The part of a matrix that a rank has: n elements from `first` on of its block, which
 * are elements `at` .. at + n - 1 of all blocks, one after the other. */
struct piece {
    int64_t first, n, at;
};

static const struct mds_param *param_of(const struct zero_muon *mu,
                                        const struct zero_matrix *x)
{
    return mds_params_get(mu->parts->params, x->id);
}

static int is_cut(const struct mds_param *p)
{
    return p->spec.parts > 1;
}

static int has_cut_rows(const struct mds_param *p)
{
    return is_cut(p) && p->spec.shard == MDS_SHARD_COLS;
}

static int64_t elements(const struct mds_param *p)
{
    return p->spec.rows * p->spec.cols;
}

static struct piece piece_of(const struct zero_muon *mu, const struct mds_param *p,
                             int rank)
{
    const struct zero_partition *parts = mu->parts;
    int64_t first = 0, n = mds_partition_unit(parts, p->unit)->count;
    struct mds_param_overlap o;

    if (parts->sharded)
        mds_comm_shard(n, mds_comm_size(mu->units), rank / mu->tensor, &first, &n);
    o = mds_param_overlap(parts->params, p, first, n);
    return (struct piece){.first = o.first,
                          .n = o.n,
                          .at =
                              o.first + (is_cut(p) ? rank % mu->tensor * p->count : 0)};
}

/* Of several ranks that have the same piece, the one that sends it to the owner: the
 * owner itself, or its neighbour along the other axis. */
static int sends(const struct zero_muon *mu, const struct mds_param *p, int rank,
                 int owner)
{
    return (mu->parts->sharded || rank / mu->tensor == owner / mu->tensor) &&
           (is_cut(p) || rank % mu->tensor == owner % mu->tensor);
}

/* Elements from `first` on of this rank's block, as a range of its unit. */
static struct zero_range range_of(const struct zero_muon *mu, const struct mds_param *p,
                                  int64_t first, int64_t n)
{
    const struct mds_param_unit *u = mds_partition_unit(mu->parts, p->unit);

    return (struct zero_range){.unit = p->unit,
                               .first = p->offset - u->first + first,
                               .n = n,
                               .by = {&mds_muon, 1}};
}

/* ---- rounds ---- */

struct round {
    int first, end; /* matrices of the list; the owner of first + r is rank r */
    int slot;       /* of its batch: where owners have its matrices in `work` */
};

/* A round of the batch that begins at a matrix. */
static struct round round_of(const struct zero_muon *mu, int batch, int slot)
{
    int first = batch + slot * mu->size;

    return (struct round){first, (int)mds_min(first + mu->size, mu->n), slot};
}

/* This rank's matrix of a round; NULL: it has none. */
static const struct mds_param *own_matrix(const struct zero_muon *mu, struct round r)
{
    return r.first + mu->rank < r.end ? param_of(mu, &mu->list[r.first + mu->rank])
                                      : NULL;
}

/* Pieces lie in a parcel as far apart as kernels like it. */
static int64_t spaced(int64_t n)
{
    return mds_round_up(n, MDS_UNIT_ALIGN);
}

/* Elements that an owner orthogonalises together, at most: this fills a GPU. */
enum { BATCH_ELEMENTS = 1 << 23 };

static int same_shape(const struct zero_muon *mu, int i, int j)
{
    const struct mds_param_spec *a = &param_of(mu, &mu->list[i])->spec,
                                *b = &param_of(mu, &mu->list[j])->spec;

    return a->rows == b->rows && a->cols == b->cols;
}

/* The rounds of the batch that begins at a matrix.  Every rank has a matrix in each of
 * them, unless the batch is a single round. */
static int batch_rounds(const struct zero_muon *mu, int first)
{
    int64_t most = BATCH_ELEMENTS / elements(param_of(mu, &mu->list[first]));
    int n = 1;

    while (first + n < mu->n && n < most * mu->size &&
           same_shape(mu, first, first + n) &&
           mu->list[first + n].window == mu->list[first].window)
        n++;
    return (int)mds_max(n / mu->size, 1);
}

/* What a rank has in its parcel: pieces of directions for their owners, or one that
 * nobody needs; then its pieces of results, or one result. */
static int64_t round_bytes(const struct zero_muon *mu, struct round r)
{
    int64_t out = 0, most = 0, in = 0, elem = (int64_t)mdsk_dtype_size(mu->work.dtype);

    for (int i = r.first; i < r.end; i++) {
        const struct mds_param *p = param_of(mu, &mu->list[i]);
        int64_t n = spaced(piece_of(mu, p, mu->rank).n);

        if (i - r.first == mu->rank)
            continue;
        most = mds_max(most, 4 * (out + n));
        out += sends(mu, p, mu->rank, i - r.first) ? n : 0;
        in = mu->parts->sharded ? in + n : mds_max(in, elements(p));
    }
    return mds_max(most, elem * in);
}

/* ---- creation ---- */

static int compare_matrices(const void *a, const void *b)
{
    const struct zero_matrix *x = a, *y = b;

    if (x->window != y->window)
        return x->window < y->window ? -1 : 1;
    if (x->flops != y->flops)
        return x->flops > y->flops ? -1 : 1;
    if (x->rows != y->rows)
        return x->rows > y->rows ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static enum mds_rc list_matrices(struct zero_muon *mu)
{
    int params = mds_params_n(mu->parts->params), units = 0;

    mu->list = mds_zalloc((size_t)mds_max(params, 1), sizeof *mu->list);
    if (!mu->list)
        return MDS_EMEM;
    for (int id = 0; id < params; id++) {
        const struct mds_param *p = mds_params_get(mu->parts->params, id);
        struct zero_matrix *x = &mu->list[mu->n];

        if (!mds_muon_takes(&p->spec) || mu->parts->shard[p->unit].group != mu->units)
            continue;
        if (is_cut(p) && p->spec.parts != mu->tensor)
            return mds_fail(MDS_EBUG, "%s is on %d ranks, and Muon's group has %d",
                            p->spec.name, p->spec.parts, mu->tensor);
        units += mu->n == 0 || x[-1].unit != p->unit;
        *x = (struct zero_matrix){
            .id = id,
            .unit = p->unit,
            .window = (units - 1) / (int)mds_muon_window(mu->size),
            .flops = mds_newton_schulz_flops(p->spec.rows, p->spec.cols),
            .rows = p->spec.rows};
        mu->n++;
    }
    qsort(mu->list, (size_t)mu->n, sizeof *mu->list, compare_matrices);
    return MDS_OK;
}

static enum mds_rc alloc_work(struct zero_muon *mu, struct mds_arena *arena)
{
    enum mdsk_dtype dtype = mds_params_dtype(mu->parts->params);
    int64_t n = 0, g = 0, bytes;
    int64_t parcel = 1; /* so that it is an address of the device */
    void *at = NULL;

    mu->work.dtype = dtype;
    for (int i = 0, rounds; i < mu->n; i += rounds * mu->size) {
        rounds = batch_rounds(mu, i);
        for (int k = i; k < i + mu->size && k < mu->n; k++) {
            const struct mds_param *p = param_of(mu, &mu->list[k]);
            int64_t m = mds_min(p->spec.rows, p->spec.cols);

            n = mds_max(n, rounds * elements(p));
            g = mds_max(g, rounds * m * m);
        }
        for (int k = 0; k < rounds; k++)
            parcel = mds_max(parcel, round_bytes(mu, round_of(mu, i, k)));
    }
    bytes = mds_newton_schulz_lay_out(&mu->work, NULL, n, g, dtype) - (char *)NULL;
    MDS_TRY(mds_arena_alloc(arena, MDS_MEM_OPTIM, bytes + parcel, &at));
    mu->parcel = mds_newton_schulz_lay_out(&mu->work, at, n, g, dtype);
    return MDS_OK;
}

enum mds_rc mds_muon_init(struct zero_muon *mu, struct zero_states *states,
                          const struct zero_array *gradients, struct mds_comm *units,
                          struct mds_comm *group, struct mds_arena *arena)
{
    *mu = (struct zero_muon){.states = states,
                             .gradients = gradients,
                             .parts = states->parts,
                             .units = units,
                             .group = group,
                             .rank = mds_comm_rank(group),
                             .size = mds_comm_size(group)};
    mu->tensor = mu->size / mds_comm_size(units);
    if (mu->tensor * mds_comm_size(units) != mu->size ||
        mu->rank / mu->tensor != mds_comm_rank(units))
        return mds_fail(MDS_EBUG, "%s: not the ranks of %s and their tensor ranks",
                        mds_comm_tag(group), mds_comm_tag(units));
    mu->send = mds_zalloc((size_t)mu->size, sizeof *mu->send);
    mu->recv = mds_zalloc((size_t)mu->size, sizeof *mu->recv);
    if (!mu->send || !mu->recv)
        return MDS_EMEM;
    MDS_TRY(list_matrices(mu));
    return alloc_work(mu, arena);
}

void mds_muon_fini(struct zero_muon *mu)
{
    free(mu->list);
    free(mu->send);
    free(mu->recv);
}

/* ---- momentum ---- */

/* Update the momentum of a piece; d = its direction. */
static enum mds_rc update_momentum(struct zero_muon *mu, const struct mds_param *p,
                                   const struct piece *x, float *d)
{
    struct zero_states *st = mu->states;
    const struct mds_optim_config *c = &st->step.optim;
    int64_t end = x->first + x->n;
    struct zero_range r;

    for (int64_t i = x->first; i < end; i += r.n) {
        struct mdsk_muon_momentum a = {.beta = (float)c->muon_momentum,
                                       .grad_scale = (float)st->step.grad_scale,
                                       .nesterov = c->muon_nesterov,
                                       .d = d + (i - x->first)};

        r = range_of(mu, p, i, mds_min(end - i, st->longest));
        a.n = r.n;
        a.grad = mds_storage_at(st->storage, mu->gradients, &r);
        MDS_TRY(mds_states_fetch(st, ZERO_M, &r, &a.m));
        MDS_TRY(mds_op_muon_momentum(st->storage->dev, &a));
        MDS_TRY(mds_states_store(st, ZERO_M, &r));
    }
    return MDS_OK;
}

/* A round's matrix in an array [batch, ...] of numbers of so many bytes. */
static char *in_slot(struct round r, const struct mds_param *p, void *batch,
                     int64_t elem)
{
    return (char *)batch + r.slot * elements(p) * elem;
}

/* Where an owner collects the blocks of its matrix; those of cut rows are put together
 * afterwards. */
static float *blocks_of(struct zero_muon *mu, struct round r, const struct mds_param *p)
{
    return has_cut_rows(p) ? mu->work.pair
                           : (float *)in_slot(r, p, mu->work.direction, 4);
}

static void clear_blocks(struct zero_muon *mu)
{
    for (int i = 0; i < mu->size; i++)
        mu->send[i] = mu->recv[i] = (struct mds_comm_block){0};
}

static enum mds_rc gather_directions(struct zero_muon *mu, struct round r)
{
    const struct mds_param *own = own_matrix(mu, r);
    float *parcel = (float *)mu->parcel, *blocks = own ? blocks_of(mu, r, own) : parcel;
    int64_t at = 0;

    clear_blocks(mu);
    for (int i = r.first; i < r.end; i++) {
        const struct mds_param *p = param_of(mu, &mu->list[i]);
        struct piece mine = piece_of(mu, p, mu->rank);
        int owner = i - r.first;

        if (owner == mu->rank) {
            MDS_TRY(update_momentum(mu, p, &mine, blocks + mine.at));
            continue;
        }
        MDS_TRY(update_momentum(mu, p, &mine, parcel + at));
        if (!sends(mu, p, mu->rank, owner))
            continue;
        mu->send[owner] = (struct mds_comm_block){4 * at, 4 * mine.n};
        at += spaced(mine.n);
    }
    for (int rank = 0; own && rank < mu->size; rank++) {
        struct piece theirs = piece_of(mu, own, rank);

        if (sends(mu, own, rank, mu->rank))
            mu->recv[rank] = (struct mds_comm_block){4 * theirs.at, 4 * theirs.n};
    }
    if (!mu->parts->sharded && mu->tensor == 1) /* each has all of them */
        return MDS_OK;
    return mds_comm_exchange(mu->group, 1, parcel, mu->send, blocks, mu->recv);
}

/* ---- the owner's part ---- */

/* Put blocks of columns [tensor, R, C / tensor] together to [R, C], or apart again. */
static enum mds_rc copy_columns(const struct zero_muon *mu, const struct mds_param *p,
                                enum mdsk_dtype dtype, int apart, const void *x,
                                void *y)
{
    int64_t elem = (int64_t)mdsk_dtype_size(dtype);

    for (int t = 0; t < mu->tensor; t++) {
        const char *block = (const char *)x + t * p->count * elem;
        char *columns = (char *)y + t * p->cols * elem;
        struct mdsk_copy_rows a = {.R = p->rows,
                                   .C = p->cols,
                                   .ldx = p->cols,
                                   .ldy = p->spec.cols,
                                   .dtype = dtype,
                                   .x = block,
                                   .y = columns};

        if (apart) {
            a.ldx = p->spec.cols;
            a.ldy = p->cols;
            a.x = (const char *)x + t * p->cols * elem;
            a.y = (char *)y + t * p->count * elem;
        }
        MDS_TRY(mds_op_copy_rows(mu->states->storage->dev, &a));
    }
    return MDS_OK;
}

/* The direction of the round's matrix, of which blocks were collected. */
static enum mds_rc put_together(struct zero_muon *mu, struct round r,
                                const struct mds_param *p)
{
    if (!has_cut_rows(p))
        return MDS_OK;
    return copy_columns(mu, p, MDSK_F32, 0, mu->work.pair,
                        in_slot(r, p, mu->work.direction, 4));
}

/* *blocks = those of the round's result, of the type of the weights. */
static enum mds_rc take_apart(struct zero_muon *mu, struct round r,
                              const struct mds_param *p, void **blocks)
{
    struct newton_schulz *w = &mu->work;
    void *result = in_slot(r, p, w->x, (int64_t)mdsk_dtype_size(w->dtype));

    *blocks = has_cut_rows(p) ? w->y : result;
    return has_cut_rows(p) ? copy_columns(mu, p, w->dtype, 1, result, w->y) : MDS_OK;
}

/* ---- the step ---- */

/* In muP a step changes what a matrix computes by as much at all widths, so its largest
 * singular value is as sqrt(rows / cols): of these scales only spectral's grows. */
static double scale_of(const struct mds_optim_config *c,
                       const struct mds_param_spec *spec)
{
    double rows = (double)spec->rows, cols = (double)spec->cols;
    double scale = c->muon_scale == MDS_MUON_SPECTRAL ? fmax(rows, cols)
                   : c->muon_scale == MDS_MUON_SHAPE  ? fmax(1, rows / cols)
                                                      : rows / cols;

    if (spec->width > 0 && c->muon_scale == MDS_MUON_SPECTRAL)
        scale /= spec->width;
    return c->muon_extra_scale * sqrt(scale);
}

/* Move the weights of a piece along o, its part of the result. */
static enum mds_rc move(struct zero_muon *mu, const struct mds_param *p,
                        const struct piece *x, const char *o)
{
    struct zero_states *st = mu->states;
    const struct mds_optim_config *c = &st->step.optim;
    enum mdsk_dtype dtype = mu->work.dtype;
    int64_t end = x->first + x->n;
    double scale = scale_of(c, &p->spec);
    struct zero_range r;

    for (int64_t i = x->first; i < end; i += r.n) {
        struct mdsk_muon_step a = {
            .lr = (float)st->step.lr,
            .weight_decay = p->spec.decay ? (float)c->weight_decay : 0,
            .rate = (float)(st->step.lr * scale),
            .o = o + (i - x->first) * (int64_t)mdsk_dtype_size(dtype),
            .o_dtype = dtype,
            .dtype = dtype};

        r = range_of(mu, p, i, mds_min(end - i, st->longest));
        a.n = r.n;
        a.weight = mds_states_weight(st, &r);
        MDS_TRY(mds_states_fetch(st, ZERO_MASTER, &r, &a.master));
        MDS_TRY(mds_op_muon_step(st->storage->dev, &a));
        MDS_TRY(mds_heads_scale(&st->step, st->parts,
                                &(struct zero_operands){.dev = st->storage->dev,
                                                        .range = r,
                                                        .state = {a.master},
                                                        .weight = a.weight,
                                                        .dtype = dtype}));
        MDS_TRY(mds_states_store(st, ZERO_MASTER, &r));
        MDS_TRY(mds_states_store_weight(st, &r));
    }
    return MDS_OK;
}

/* Each rank receives its pieces of all results; blocks: the owner's. */
static enum mds_rc exchange_results(struct zero_muon *mu, struct round r,
                                    const void *blocks)
{
    int64_t elem = (int64_t)mdsk_dtype_size(mu->work.dtype), at = 0;

    clear_blocks(mu);
    for (int i = r.first; i < r.end; i++) {
        const struct mds_param *p = param_of(mu, &mu->list[i]);
        int64_t n = piece_of(mu, p, mu->rank).n;
        int owner = i - r.first;

        for (int rank = 0; owner == mu->rank && rank < mu->size; rank++) {
            struct piece theirs = piece_of(mu, p, rank);

            mu->send[rank] = (struct mds_comm_block){elem * theirs.at, elem * theirs.n};
        }
        if (owner == mu->rank)
            continue;
        mu->recv[owner] = (struct mds_comm_block){elem * at, elem * n};
        at += spaced(n);
    }
    return mds_comm_exchange(mu->group, 1, blocks, mu->send, mu->parcel, mu->recv);
}

/* *o = this rank's piece of the result of matrix i. */
static enum mds_rc take_result(struct zero_muon *mu, struct round r, int i,
                               char *blocks, const char **o)
{
    const struct mds_param *p = param_of(mu, &mu->list[i]);
    int64_t elem = (int64_t)mdsk_dtype_size(mu->work.dtype);
    int owner = i - r.first, mine = owner == mu->rank;
    char *whole = mine ? blocks : mu->parcel; /* unless pieces were exchanged */

    if (!mu->parts->sharded)
        MDS_TRY(mds_comm_broadcast(mu->group, whole, elem * elements(p), owner));
    *o = whole + elem * piece_of(mu, p, mu->rank).at;
    if (mu->parts->sharded && !mine)
        *o = mu->parcel + mu->recv[owner].at;
    return MDS_OK;
}

/* Give each rank its pieces of a round's results, and move its weights. */
static enum mds_rc move_round(struct zero_muon *mu, struct round r)
{
    const struct mds_param *own = own_matrix(mu, r);
    void *blocks = mu->parcel;

    if (own)
        MDS_TRY(take_apart(mu, r, own, &blocks));
    if (mu->parts->sharded)
        MDS_TRY(exchange_results(mu, r, blocks));
    for (int i = r.first; i < r.end; i++) {
        const struct mds_param *p = param_of(mu, &mu->list[i]);
        struct piece mine = piece_of(mu, p, mu->rank);
        const char *o;

        MDS_TRY(take_result(mu, r, i, blocks, &o));
        MDS_TRY(move(mu, p, &mine, o));
    }
    return MDS_OK;
}

/* The rounds of a batch, from a matrix on. */
static enum mds_rc update_rounds(struct zero_muon *mu, int first, int rounds)
{
    const struct mds_param *own = own_matrix(mu, round_of(mu, first, 0));

    for (int i = 0; i < rounds; i++) {
        struct round r = round_of(mu, first, i);

        MDS_TRY(gather_directions(mu, r));
        if (own)
            MDS_TRY(put_together(mu, r, own_matrix(mu, r)));
    }
    if (own)
        MDS_TRY(mds_newton_schulz(mu->states->storage->dev, &mu->work, rounds,
                                  own->spec.rows, own->spec.cols,
                                  mu->states->step.optim.muon_steps));
    for (int i = 0; i < rounds; i++)
        MDS_TRY(move_round(mu, round_of(mu, first, i)));
    return MDS_OK;
}

/* Behind the last matrix of a unit in the list. */
static int end_of_unit(const struct zero_muon *mu, int unit)
{
    int end = mu->n;

    while (end > 0 && mu->list[end - 1].unit != unit)
        end--;
    return end;
}

enum mds_rc mds_muon_update_unit(struct zero_muon *mu, int unit)
{
    int end = end_of_unit(mu, unit);

    if (unit == 0)
        mu->done = 0;
    while (mu->done < end) {
        int first = mu->done, rounds = batch_rounds(mu, first);

        MDS_TRY(update_rounds(mu, first, rounds));
        mu->done = (int)mds_min(first + rounds * mu->size, mu->n);
    }
    return MDS_OK;
}
