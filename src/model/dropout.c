/* SPDX-License-Identifier: BSD-3-Clause */
/* Dropout, with a key from the position of an element in model and run. */
#include "model/modules.h"
#include "tensor/op.h"

struct mdsk_dropout_key mds_gpt_dropout_key(const struct context *c, int layer,
                                            int site, double prob)
{
    return (struct mdsk_dropout_key){.p = c->run->training ? (float)prob : 0,
                                     .seed = (uint64_t)c->run->train->seed,
                                     .site = (uint32_t)(layer * SITES + site),
                                     .step = c->run->step};
}

enum mds_rc mds_gpt_dropout(const struct context *c, int layer, int site, const void *x,
                            void *y, void **out)
{
    const struct mds_par *p = &c->par;
    struct mdsk_dropout a = {
        .H = c->g->cfg.hidden,
        .dtype = p->dtype,
        .key = mds_gpt_dropout_key(c, layer, site, c->g->cfg.hidden_dropout)};
    int64_t row = 0;

    *out = (void *)x;
    if (!(a.key.p > 0))
        return MDS_OK;
    *out = y;
    for (int i = 0; i < p->slice.runs; i++) {
        a.rows = (struct mdsk_rows){p->B, p->slice.run[i].n, p->first_sample,
                                    p->slice.run[i].first};
        a.x = mds_par_at(p, x, row * a.H);
        a.y = mds_par_at(p, y, row * a.H);
        MDS_TRY(mds_op_dropout(p->dev, &a));
        row += p->slice.run[i].n * p->B;
    }
    return MDS_OK;
}
