/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/part.h"
#include "base/minmax.h"

int mds_part_split(const struct mds_param *p, int64_t first, int64_t n,
                   struct mds_ckpt_part out[MDS_PART_SPLIT])
{
    int64_t width = p->cols ? p->cols : 1, done = 0;
    int64_t row0 = p->spec.shard == MDS_SHARD_ROWS ? p->spec.part * p->rows : 0;
    int64_t col0 = p->spec.shard == MDS_SHARD_COLS ? p->spec.part * p->cols : 0;
    int parts = 0;

    while (done < n) {
        int64_t at = first + done, col = at % width;
        int whole_rows = col == 0 && n - done >= width;
        int64_t rows = whole_rows ? (n - done) / width : 1;
        int64_t cols = whole_rows ? width : mds_min(width - col, n - done);

        out[parts++] = (struct mds_ckpt_part){.at = done,
                                              .row = row0 + at / width,
                                              .rows = rows,
                                              .col = col0 + col,
                                              .cols = cols};
        done += rows * cols;
    }
    return parts;
}

int mds_part_intersect(const struct mds_ckpt_part *a, const struct mds_ckpt_part *b,
                       struct mds_ckpt_part *out)
{
    int64_t row = mds_max(a->row, b->row), col = mds_max(a->col, b->col);
    int64_t rows = mds_min(a->row + a->rows, b->row + b->rows) - row;
    int64_t cols = mds_min(a->col + a->cols, b->col + b->cols) - col;

    if (rows <= 0 || cols <= 0)
        return 0;
    *out = (struct mds_ckpt_part){.tensor = a->tensor,
                                  .file = a->file,
                                  .row = row,
                                  .rows = rows,
                                  .col = col,
                                  .cols = cols};
    return 1;
}

int64_t mds_part_offset(const struct mds_ckpt_part *whole,
                        const struct mds_ckpt_part *sub)
{
    return whole->at + (sub->row - whole->row) * whole->cols + sub->col - whole->col;
}
