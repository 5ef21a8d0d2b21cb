/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/newton_schulz.h"
#include "base/minmax.h"
#include "kernels/table.h"
#include "tensor/op.h"

/* Of an iteration x = (a + b xx^T + c (xx^T)^2) x. */
static const float quintic[3] = {3.4445f, -4.7750f, 2.0315f};

char *mds_newton_schulz_lay_out(struct newton_schulz *w, char *at, int64_t n, int64_t g,
                                enum mdsk_dtype dtype)
{
    int64_t elem = (int64_t)mdsk_dtype_size(dtype);
    const int64_t bytes[] = {sizeof(double), 4 * n,    elem * n,
                             elem * n,       elem * g, elem * g};
    char *part[6];

    for (int i = 0; i < 6; i++) {
        part[i] = at;
        at += mds_round_up(bytes[i], 256);
    }
    *w = (struct newton_schulz){.dtype = dtype,
                                .squares = (void *)part[0],
                                .direction = (void *)part[1],
                                .x = part[2],
                                .y = part[3],
                                .pair = part[2],
                                .gram = part[4],
                                .mix = part[5]};
    return at;
}

/* Of a wide matrix gram = x x^T, and x becomes mix x; of a tall one gram = x^T x, and x
 * becomes x mix.  gram and mix are symmetric, so that they need no flips. */
static enum mds_rc iterate(struct mds_dev *dev, struct newton_schulz *w, int64_t batch,
                           int64_t R, int64_t C)
{
    int64_t m = mds_min(R, C);
    int wide = R <= C;
    const struct mdsk_muon_product gram = {.batch = batch,
                                           .m = m,
                                           .n = m,
                                           .k = mds_max(R, C),
                                           .flip_x = !wide,
                                           .flip_w = wide,
                                           .dtype = w->dtype,
                                           .alpha = 1,
                                           .x = w->x,
                                           .w = w->x,
                                           .y = w->gram};
    const struct mdsk_muon_product mix = {.batch = batch,
                                          .m = m,
                                          .n = m,
                                          .k = m,
                                          .dtype = w->dtype,
                                          .alpha = quintic[2],
                                          .beta = quintic[1],
                                          .x = w->gram,
                                          .w = w->gram,
                                          .z = w->gram,
                                          .y = w->mix};
    const struct mdsk_muon_product next = {.batch = batch,
                                           .m = R,
                                           .n = C,
                                           .k = m,
                                           .dtype = w->dtype,
                                           .alpha = 1,
                                           .beta = quintic[0],
                                           .x = wide ? w->mix : w->x,
                                           .w = wide ? w->x : w->mix,
                                           .z = w->x,
                                           .y = w->y};
    void *x = w->x;

    MDS_TRY(mds_op_muon_product(dev, &gram));
    MDS_TRY(mds_op_muon_product(dev, &mix));
    MDS_TRY(mds_op_muon_product(dev, &next));
    w->x = w->y;
    w->y = x;
    return MDS_OK;
}

/* w->x = matrix i divided by its norm */
static enum mds_rc normalise(struct mds_dev *dev, const struct newton_schulz *w,
                             int64_t i, int64_t n)
{
    const struct mdsk_sum_squares squares = {
        .n = n, .x = w->direction + i * n, .sum = w->squares};
    const struct mdsk_axpby a = {.n = n,
                                 .from = MDSK_F32,
                                 .to = w->dtype,
                                 .a = 1,
                                 .squares = w->squares,
                                 .x = squares.x,
                                 .y = (char *)w->x +
                                      i * n * (int64_t)mdsk_dtype_size(w->dtype)};

    mds_dev_zero(dev, w->squares, sizeof *w->squares);
    MDS_TRY(mds_op_sum_squares(dev, &squares));
    return mds_op_axpby(dev, &a);
}

enum mds_rc mds_newton_schulz(struct mds_dev *dev, struct newton_schulz *w,
                              int64_t batch, int64_t R, int64_t C, int64_t steps)
{
    for (int64_t i = 0; i < batch; i++)
        MDS_TRY(normalise(dev, w, i, R * C));
    for (int64_t i = 0; i < steps; i++)
        MDS_TRY(iterate(dev, w, batch, R, C));
    return MDS_OK;
}

double mds_newton_schulz_flops(int64_t R, int64_t C)
{
    double m = (double)mds_min(R, C), n = (double)mds_max(R, C);

    return 4 * m * m * n + 2 * m * m * m;
}
