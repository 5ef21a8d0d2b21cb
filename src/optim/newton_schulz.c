/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/newton_schulz.h"
#include "base/minmax.h"
#include "kernels/table.h"
#include "tensor/op.h"

/* Of an iteration x = (a + b xx^T + c (xx^T)^2) x. */
static const float quintic[3] = {3.4445f, -4.7750f, 2.0315f};

char *mds_newton_schulz_lay_out(struct newton_schulz *w, char *at, int64_t n, int64_t m,
                                enum mdsk_dtype dtype)
{
    int64_t elem = (int64_t)mdsk_dtype_size(dtype);
    const int64_t bytes[] = {sizeof(double), 4 * n,        elem * n,    elem * n,
                             4 * m * m,      elem * m * m, elem * m * m};
    char *part[7];

    for (int i = 0; i < 7; i++) {
        part[i] = at;
        at += mds_round_up(bytes[i], 256);
    }
    *w = (struct newton_schulz){.dtype = dtype,
                                .squares = (void *)part[0],
                                .direction = (void *)part[1],
                                .x = part[2],
                                .y = part[3],
                                .sums = (void *)part[4],
                                .gram = part[5],
                                .mix = part[6]};
    return at;
}

/* y = a x + b y */
static enum mds_rc combine(struct mds_dev *dev, int64_t n, enum mdsk_dtype dtype,
                           float a, const void *x, float b, void *y)
{
    const struct mdsk_axpby args = {
        .n = n, .from = dtype, .to = dtype, .a = a, .b = b, .x = x, .y = y};

    return mds_op_axpby(dev, &args);
}

/* gram = x x^T of a wide matrix [R, C], x^T x of a tall one */
static enum mds_rc make_gram(struct mds_dev *dev, const struct newton_schulz *w,
                             int64_t R, int64_t C)
{
    enum mdsk_dtype dtype = w->dtype;
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
    const struct mdsk_axpby narrow = {
        .n = C * C, .from = MDSK_F32, .to = dtype, .a = 1, .x = w->sums, .y = w->gram};

    if (R <= C)
        return mds_op_linear_fwd(dev, &wide);
    MDS_TRY(mds_op_linear_bwd_weight(dev, &tall));
    return mds_op_axpby(dev, &narrow);
}

/* y = mix x of a wide matrix, x mix of a tall one; mix is symmetric */
static enum mds_rc multiply(struct mds_dev *dev, const struct newton_schulz *w,
                            int64_t R, int64_t C)
{
    enum mdsk_dtype dtype = w->dtype;
    const struct mdsk_linear_bwd_input wide = {
        .R = R, .in = C, .out = R, .dtype = dtype, .dy = w->mix, .w = w->x, .dx = w->y};
    const struct mdsk_linear_fwd tall = {
        .R = R, .in = C, .out = C, .dtype = dtype, .x = w->x, .w = w->mix, .y = w->y};

    return R <= C ? mds_op_linear_bwd_input(dev, &wide) : mds_op_linear_fwd(dev, &tall);
}

static enum mds_rc iterate(struct mds_dev *dev, struct newton_schulz *w, int64_t R,
                           int64_t C)
{
    enum mdsk_dtype dtype = w->dtype;
    int64_t m = mds_min(R, C);
    const struct mdsk_linear_fwd square = {.R = m,
                                           .in = m,
                                           .out = m,
                                           .dtype = dtype,
                                           .x = w->gram,
                                           .w = w->gram,
                                           .y = w->mix};
    void *x = w->x;

    MDS_TRY(make_gram(dev, w, R, C));
    MDS_TRY(mds_op_linear_fwd(dev, &square));
    MDS_TRY(combine(dev, m * m, dtype, quintic[1], w->gram, quintic[2], w->mix));
    MDS_TRY(multiply(dev, w, R, C));
    MDS_TRY(combine(dev, R * C, dtype, quintic[0], w->x, 1, w->y));
    w->x = w->y;
    w->y = x;
    return MDS_OK;
}

enum mds_rc mds_newton_schulz(struct mds_dev *dev, struct newton_schulz *w, int64_t R,
                              int64_t C, int64_t steps)
{
    const struct mdsk_sum_squares squares = {
        .n = R * C, .x = w->direction, .sum = w->squares};
    const struct mdsk_axpby normalise = {.n = R * C,
                                         .from = MDSK_F32,
                                         .to = w->dtype,
                                         .a = 1,
                                         .squares = w->squares,
                                         .x = w->direction,
                                         .y = w->x};

    mds_dev_zero(dev, w->squares, sizeof *w->squares);
    MDS_TRY(mds_op_sum_squares(dev, &squares));
    MDS_TRY(mds_op_axpby(dev, &normalise));
    for (int64_t i = 0; i < steps; i++)
        MDS_TRY(iterate(dev, w, R, C));
    return MDS_OK;
}

double mds_newton_schulz_flops(int64_t R, int64_t C)
{
    double m = (double)mds_min(R, C), n = (double)mds_max(R, C);

    return 4 * m * m * n + 2 * m * m * m;
}
