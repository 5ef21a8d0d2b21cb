/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/balance.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct row {
    double cost;
    int64_t number;
};

struct mds_balance {
    double *cost;
    int64_t *order;
    struct row *row, *divided; /* divided, sum, filled: scratch of divide() */
    double *sum;
    int64_t *filled;
};

/* By falling cost; equal ones by their number. */
static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    if (x->cost != y->cost)
        return x->cost < y->cost ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int64_t smallest_factor(int64_t n)
{
    int64_t p = 2;

    while (n % p != 0)
        p = p * p > n ? n : p + 1;
    return p;
}

/* The part with the smallest sum that is not full. */
static int64_t choose_part(const double *sum, const int64_t *filled, int64_t parts,
                           int64_t size)
{
    int64_t best = -1;

    for (int64_t k = 0; k < parts; k++)
        if (filled[k] < size && (best < 0 || sum[k] < sum[best]))
            best = k;
    return best;
}

/* Distribute row[n], in falling cost, among equal parts, each row to the part that has
 * least so far; then the rows of each part. */
static void divide(struct row *row, int64_t n, const struct mds_balance *s)
{
    int64_t parts = smallest_factor(n), size = n / parts;

    memset(s->sum, 0, (size_t)parts * sizeof *s->sum);
    memset(s->filled, 0, (size_t)parts * sizeof *s->filled);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = choose_part(s->sum, s->filled, parts, size);

        s->divided[k * size + s->filled[k]++] = row[i];
        s->sum[k] += row[i].cost;
    }
    memcpy(row, s->divided, (size_t)n * sizeof *row);
    for (int64_t k = 0; k < parts && size > 1; k++)
        divide(row + k * size, size, s);
}

static int all_equal(const double *cost, int64_t n)
{
    for (int64_t i = 1; i < n; i++)
        if (cost[i] != cost[0])
            return 0;
    return 1;
}

enum mds_rc mds_balance_create(int64_t most, struct mds_balance **out)
{
    struct mds_balance *b = mds_zalloc(1, sizeof *b);

    if (!b)
        return MDS_EMEM;
    b->cost = mds_zalloc((size_t)most, sizeof *b->cost);
    b->order = mds_zalloc((size_t)most, sizeof *b->order);
    b->row = mds_zalloc((size_t)most, sizeof *b->row);
    b->divided = mds_zalloc((size_t)most, sizeof *b->divided);
    b->sum = mds_zalloc((size_t)most, sizeof *b->sum);
    b->filled = mds_zalloc((size_t)most, sizeof *b->filled);
    if (!b->cost || !b->order || !b->row || !b->divided || !b->sum || !b->filled) {
        mds_balance_destroy(b);
        return MDS_EMEM;
    }
    *out = b;
    return MDS_OK;
}

void mds_balance_destroy(struct mds_balance *b)
{
    if (!b)
        return;
    free(b->cost);
    free(b->order);
    free(b->row);
    free(b->divided);
    free(b->sum);
    free(b->filled);
    free(b);
}

double *mds_balance_costs(struct mds_balance *b)
{
    return b->cost;
}

const int64_t *mds_balance_order(struct mds_balance *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        b->row[i] = (struct row){b->cost[i], i};
    if (n > 1 && !all_equal(b->cost, n)) {
        qsort(b->row, (size_t)n, sizeof *b->row, compare_rows);
        divide(b->row, n, b);
    }
    for (int64_t i = 0; i < n; i++)
        b->order[i] = b->row[i].number;
    return b->order;
}
