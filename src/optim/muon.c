/* SPDX-License-Identifier: BSD-3-Clause */
/* Muon: a matrix moves along its momentum, made orthogonal.
 * Sources: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; scale and
 * decoupled decay: Liu et al. 2025, arXiv:2502.16982. */
#include "base/minmax.h"
#include "kernels/table.h"
#include "optim/rules.h"
#include "tensor/op.h"

#include <math.h>

/* Of a Newton-Schulz iteration x = (a + b xx^T + c (xx^T)^2) x. */
static const float quintic[3] = {3.4445f, -4.7750f, 2.0315f};

/* Working memory for a matrix of n elements, whose shorter side is m. */
struct work {
    double *squares;
    float *direction; /* [n] */
    void *x, *y;      /* [n] of dtype: the iterate and the next one */
    float *sums;      /* [m, m]: the Gram matrix of a tall one, before it is rounded */
    void *gram, *mix; /* [m, m] of dtype: Gram matrix; b gram + c gram^2 */
    void *comm;       /* scratch of an all-reduce of x */
};

/* Lay it out from `at` on; returns where it ends. */
static char *lay_out(struct work *w, char *at, const struct zero_partition *parts,
                     int64_t n, int64_t m)
{
    enum mdsk_dtype dtype = mds_params_dtype(parts->params);
    int64_t elem = (int64_t)mdsk_dtype_size(dtype);
    const int64_t bytes[] = {
        sizeof(double), 4 * n,
        elem * n,       elem * n,
        4 * m * m,      elem * m * m,
        elem * m * m,   mds_comm_all_reduce_work(parts->group, n, dtype)};
    char *part[8];

    for (int i = 0; i < 8; i++) {
        part[i] = at;
        at += mds_round_up(bytes[i], 256);
    }
    *w = (struct work){.squares = (void *)part[0],
                       .direction = (void *)part[1],
                       .x = part[2],
                       .y = part[3],
                       .sums = (void *)part[4],
                       .gram = part[5],
                       .mix = part[6],
                       .comm = part[7]};
    return at;
}

static int64_t work_bytes(const struct zero_partition *parts)
{
    int64_t n = 0, m = 0;
    struct work w;

    for (int i = 0; i < mds_params_n(parts->params); i++) {
        const struct mds_param *p = mds_params_get(parts->params, i);

        if (!p->spec.in_block)
            continue;
        n = mds_max(n, p->count);
        m = mds_max(m, mds_min(p->rows, p->cols));
    }
    return lay_out(&w, NULL, parts, n, m) - (char *)NULL;
}

/* ---- Newton-Schulz ---- */

/* y = a x + b y */
static enum mds_rc combine(struct mds_dev *dev, int64_t n, enum mdsk_dtype dtype,
                           float a, const void *x, float b, void *y)
{
    const struct mdsk_muon_combine args = {
        .n = n, .from = dtype, .to = dtype, .a = a, .b = b, .x = x, .y = y};

    return mds_op_muon_combine(dev, &args);
}

/* gram = x x^T of a wide matrix [R, C], x^T x of a tall one */
static enum mds_rc make_gram(struct mds_dev *dev, const struct work *w, int64_t R,
                             int64_t C, enum mdsk_dtype dtype)
{
    const struct mdsk_linear_fwd wide = {
        .R = R, .in = C, .out = R, .dtype = dtype, .x = w->x, .w = w->x, .y = w->gram};
    const struct mdsk_linear_bwd_weight tall = {.R = R,
                                                .in = C,
                                                .out = C,
                                                .dtype = dtype,
                                                .write = 1,
                                                .x = w->x,
                                                .dy = w->x,
                                                .dw = w->sums};
    const struct mdsk_muon_combine narrow = {
        .n = C * C, .from = MDSK_F32, .to = dtype, .a = 1, .x = w->sums, .y = w->gram};

    if (R <= C)
        return mds_op_linear_fwd(dev, &wide);
    MDS_TRY(mds_op_linear_bwd_weight(dev, &tall));
    return mds_op_muon_combine(dev, &narrow);
}

/* y = mix x of a wide matrix, x mix of a tall one; mix is symmetric */
static enum mds_rc multiply(struct mds_dev *dev, const struct work *w, int64_t R,
                            int64_t C, enum mdsk_dtype dtype)
{
    const struct mdsk_linear_bwd_input wide = {
        .R = R, .in = C, .out = R, .dtype = dtype, .dy = w->mix, .w = w->x, .dx = w->y};
    const struct mdsk_linear_fwd tall = {
        .R = R, .in = C, .out = C, .dtype = dtype, .x = w->x, .w = w->mix, .y = w->y};

    return R <= C ? mds_op_linear_bwd_input(dev, &wide) : mds_op_linear_fwd(dev, &tall);
}

static enum mds_rc iterate(struct mds_dev *dev, struct work *w, int64_t R, int64_t C,
                           enum mdsk_dtype dtype)
{
    int64_t m = mds_min(R, C);
    const struct mdsk_linear_fwd square = {.R = m,
                                           .in = m,
                                           .out = m,
                                           .dtype = dtype,
                                           .x = w->gram,
                                           .w = w->gram,
                                           .y = w->mix};
    void *x = w->x;

    MDS_TRY(make_gram(dev, w, R, C, dtype));
    MDS_TRY(mds_op_linear_fwd(dev, &square));
    MDS_TRY(combine(dev, m * m, dtype, quintic[1], w->gram, quintic[2], w->mix));
    MDS_TRY(multiply(dev, w, R, C, dtype));
    MDS_TRY(combine(dev, R * C, dtype, quintic[0], w->x, 1, w->y));
    w->x = w->y;
    w->y = x;
    return MDS_OK;
}

/* w->x = w->direction [R, C], its singular values brought near 1 */
static enum mds_rc orthogonalise(struct mds_dev *dev, struct work *w, int64_t R,
                                 int64_t C, enum mdsk_dtype dtype, int64_t steps)
{
    const struct mdsk_sum_squares squares = {
        .n = R * C, .x = w->direction, .sum = w->squares};
    const struct mdsk_muon_combine normalise = {.n = R * C,
                                                .from = MDSK_F32,
                                                .to = dtype,
                                                .a = 1,
                                                .squares = w->squares,
                                                .x = w->direction,
                                                .y = w->x};

    mds_dev_zero(dev, w->squares, sizeof *w->squares);
    MDS_TRY(mds_op_sum_squares(dev, &squares));
    MDS_TRY(mds_op_muon_combine(dev, &normalise));
    for (int64_t i = 0; i < steps; i++)
        MDS_TRY(iterate(dev, w, R, C, dtype));
    return MDS_OK;
}

/* ---- the rule ---- */

static double scale_of(const struct mds_optim_config *c, double rows, double cols)
{
    double scale = c->muon_scale == MDS_MUON_SPECTRAL ? fmax(rows, cols)
                   : c->muon_scale == MDS_MUON_SHAPE  ? fmax(1, rows / cols)
                                                      : rows / cols;

    return c->muon_extra_scale * sqrt(scale);
}

/* The rank of the group that orthogonalises parameter `id`.  If all did, each with the
 * kernels that it found fastest, their weights would drift apart.  The shift from round
 * to round gives each rank matrices of all shapes. */
static int owner_of(const struct zero_partition *parts, int id)
{
    return (id + id / parts->size) % parts->size;
}

/* On all ranks: w->x = w->direction [R, C] orthogonalised, as its owner has it: the
 * others add zeros. */
static enum mds_rc orthogonalise_at_owner(struct mds_dev *dev, struct work *w,
                                          const struct zero_partition *parts, int id,
                                          int64_t steps)
{
    const struct mds_param *p = mds_params_get(parts->params, id);
    enum mdsk_dtype dtype = mds_params_dtype(parts->params);

    if (owner_of(parts, id) == parts->rank)
        MDS_TRY(orthogonalise(dev, w, p->rows, p->cols, dtype, steps));
    else
        mds_dev_zero(dev, w->x, p->count * (int64_t)mdsk_dtype_size(dtype));
    return mds_comm_all_reduce(parts->group, w->x, p->count, dtype, w->comm);
}

/* Parameter `id`, whose elements begin at `skip` of a range. */
static enum mds_rc update_matrix(const struct zero_step *step,
                                 const struct zero_partition *parts,
                                 const struct zero_operands *x, int64_t skip, int id)
{
    const struct mds_param *p = mds_params_get(parts->params, id);
    const struct mds_optim_config *c = &step->optim;
    struct work w;
    struct mdsk_muon_momentum momentum;
    struct mdsk_muon_step move;

    lay_out(&w, step->work, parts, p->count, mds_min(p->rows, p->cols));
    momentum = (struct mdsk_muon_momentum){.n = p->count,
                                           .beta = (float)c->muon_momentum,
                                           .grad_scale = (float)step->grad_scale,
                                           .nesterov = c->muon_nesterov,
                                           .m = x->state[ZERO_M] + skip,
                                           .d = w.direction,
                                           .grad = x->grad + skip};
    MDS_TRY(mds_op_muon_momentum(x->dev, &momentum));
    MDS_TRY(orthogonalise_at_owner(x->dev, &w, parts, id, c->muon_steps));
    move = (struct mdsk_muon_step){
        .n = p->count,
        .lr = (float)step->lr,
        .weight_decay = p->spec.decay ? (float)c->weight_decay : 0,
        .rate =
            (float)(step->lr * scale_of(c, (double)p->spec.rows, (double)p->spec.cols)),
        .master = x->state[ZERO_MASTER] + skip,
        .o = w.x,
        .o_dtype = x->dtype,
        .dtype = x->dtype,
        .weight = mds_operand_weight(x, skip)};
    return mds_op_muon_step(x->dev, &move);
}

static enum mds_rc update(const struct zero_step *step,
                          const struct zero_partition *parts,
                          const struct zero_operands *x)
{
    const struct mds_param_unit *u = mds_partition_unit(parts, x->range.unit);

    for (int id = u->first_param; id < u->first_param + u->params; id++) {
        const struct mds_param *p = mds_params_get(parts->params, id);
        struct mds_param_overlap o =
            mds_param_overlap(parts->params, p, x->range.first, x->range.n);

        if (o.n == 0)
            continue;
        if (!x->dev || o.n < p->count || p->count < p->spec.rows * p->spec.cols)
            return mds_fail(MDS_EBUG, "%s: Muon needs all of it, on the device",
                            p->spec.name);
        MDS_TRY(update_matrix(step, parts, x, o.at, id));
    }
    return MDS_OK;
}

static struct mdsk_cost cost(const struct zero_operands *x)
{
    return mdsk_muon_step_cost(&(struct mdsk_muon_step){.n = x->range.n});
}

const struct zero_rule mds_muon = {MDS_OP_MUON_STEP, update, cost, work_bytes};
