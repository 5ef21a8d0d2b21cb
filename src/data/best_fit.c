/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/best_fit.h"

#include "base/alloc.h"

#include <stdlib.h>

/* ---- a set of integers with a fast search for the next one ---- */

enum { LEVELS = 6 }; /* 64^6 numbers */

/* Bit i of level 0 is set if i is in the set; bit i of a higher level is set if any bit
 * of 64-bit word i of the level below is. */
struct number_set {
    uint64_t *level[LEVELS];
};

static void number_set_fini(struct number_set *s)
{
    for (int l = 0; l < LEVELS; l++)
        free(s->level[l]);
}

static enum mds_rc number_set_init(struct number_set *s, int64_t n)
{
    *s = (struct number_set){{NULL}};
    for (int l = 0; l < LEVELS; l++) {
        n = n / 64 + 2; /* number_set_next may read one word past the last; it is 0 */
        s->level[l] = mds_zalloc((size_t)n, sizeof *s->level[l]);
        if (!s->level[l]) {
            number_set_fini(s);
            return MDS_EMEM;
        }
    }
    return MDS_OK;
}

static void number_set_add(struct number_set *s, int64_t i)
{
    for (int l = 0; l < LEVELS; l++, i /= 64)
        s->level[l][i / 64] |= UINT64_C(1) << i % 64;
}

static void number_set_remove(struct number_set *s, int64_t i)
{
    for (int l = 0; l < LEVELS; l++, i /= 64) {
        s->level[l][i / 64] &= ~(UINT64_C(1) << i % 64);
        if (s->level[l][i / 64])
            return;
    }
}

/* The smallest number >= i in the set; -1 if there is none. */
static int64_t number_set_next(const struct number_set *s, int64_t i)
{
    for (int l = 0; l < LEVELS; l++, i = i / 64 + 1) {
        uint64_t word = s->level[l][i / 64] >> i % 64;

        if (!word)
            continue;
        i += __builtin_ctzll(word);
        while (l-- > 0)
            i = i * 64 + __builtin_ctzll(s->level[l][i]);
        return i;
    }
    return -1;
}

/* ---- packing ---- */

/* The bins, and for each free space a linked list of the bins that have it. */
struct bins {
    struct number_set spaces; /* the free spaces that some bin has */
    int64_t *newest;          /* [size + 1] head of a space's list; -1: empty */
    int64_t *older;           /* [bins] the next bin in the list; -1: the last */
    int64_t n;
};

static void bins_fini(struct bins *b)
{
    number_set_fini(&b->spaces);
    free(b->newest);
    free(b->older);
}

/* Allocate for up to n bins. */
static enum mds_rc bins_init(struct bins *b, int64_t n, int64_t size)
{
    *b = (struct bins){.n = 0};
    MDS_TRY(number_set_init(&b->spaces, size + 1));
    b->newest = mds_zalloc((size_t)size + 1, sizeof *b->newest);
    b->older = mds_zalloc((size_t)n, sizeof *b->older);
    if (!b->newest || !b->older) {
        bins_fini(b);
        return MDS_EMEM;
    }
    for (int64_t i = 0; i <= size; i++)
        b->newest[i] = -1;
    return MDS_OK;
}

static void push_bin(struct bins *b, int64_t space, int64_t bin)
{
    b->older[bin] = b->newest[space];
    b->newest[space] = bin;
    number_set_add(&b->spaces, space);
}

static int64_t pop_bin(struct bins *b, int64_t space)
{
    int64_t bin = b->newest[space];

    b->newest[space] = b->older[bin];
    if (b->newest[space] < 0)
        number_set_remove(&b->spaces, space);
    return bin;
}

static int64_t place_item(struct bins *b, int64_t length, int64_t size)
{
    int64_t space = number_set_next(&b->spaces, length);
    int64_t bin = space < 0 ? b->n++ : pop_bin(b, space);

    push_bin(b, (space < 0 ? size : space) - length, bin);
    return bin;
}

/* Counting sort: order[n] = items by falling length.  before[size + 2] is scratch
 * memory, zeroed by the caller. */
static void sort_by_length(const int32_t *length, int64_t n, int64_t size,
                           int64_t *before, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        before[size - length[i] + 1]++;
    for (int64_t k = 1; k <= size; k++)
        before[k] += before[k - 1];
    for (int64_t i = 0; i < n; i++)
        order[before[size - length[i]]++] = i;
}

enum mds_rc mds_best_fit(const int32_t *length, int64_t n, int64_t size, int64_t *bin,
                         int64_t *bins)
{
    int64_t *before = mds_zalloc((size_t)size + 2, sizeof *before);
    int64_t *order = mds_zalloc((size_t)n, sizeof *order);
    struct bins b = {.n = 0};
    enum mds_rc rc = before && order ? MDS_OK : MDS_EMEM;

    if (!rc)
        sort_by_length(length, n, size, before, order);
    free(before);
    if (!rc)
        rc = bins_init(&b, n, size);
    if (!rc) {
        for (int64_t i = 0; i < n; i++)
            bin[order[i]] = place_item(&b, length[order[i]], size);
        *bins = b.n;
        bins_fini(&b);
    }
    free(order);
    return rc;
}
