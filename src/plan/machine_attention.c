/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast attention is, by head size and length: a profile's section `attention`. */
#include "base/alloc.h"
#include "base/units.h"
#include "plan/machine_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static void fault_bad_row(const struct mds_tree *t, const struct mds_node *n,
                          struct mds_diag *diag, const char *what)
{
    char origin[512];

    snprintf(origin, sizeof origin, "%.480s:%d", t->name, n->line);
    mds_diag_fault(diag, origin, "attention: %s: %s", n->key, what);
}

static int read_count(const struct mds_node *row, const char *key, int64_t *out)
{
    const struct mds_node *n = mds_node_get(row, key);

    return n && n->text && mds_parse_count(n->text, out) == 0 && *out > 0;
}

static int read_rate(const struct mds_node *row, const char *key, double *out)
{
    const struct mds_node *n = mds_node_get(row, key);

    return n && n->text && mds_parse_real(n->text, out) == 0 && *out > 1e6;
}

static int by_head_and_length(const void *a, const void *b)
{
    const struct mds_attention_rate *x = a, *y = b;

    if (x->head != y->head)
        return x->head < y->head ? -1 : 1;
    return (x->seq > y->seq) - (x->seq < y->seq);
}

enum mds_rc mds_machine_read_attention(const struct mds_tree *t,
                                       const struct mds_node *section,
                                       struct mds_machine *m, struct mds_diag *diag)
{
    for (const struct mds_node *n = section->first; n; n = n->next) {
        struct mds_attention_rate row;

        if (strcmp(n->key, "source") == 0 || strcmp(n->key, "date") == 0)
            continue;
        if (!read_count(n, "head", &row.head) || !read_count(n, "seq", &row.seq) ||
            !read_rate(n, "forward", &row.forward) ||
            !read_rate(n, "backward", &row.backward)) {
            fault_bad_row(
                t, n, diag,
                "must be {head: 128, seq: 8192, forward: FLOP/s, backward: FLOP/s}");
            continue;
        }
        MDS_TRY(mds_grow(&m->attention, m->attention_count, sizeof *m->attention));
        m->attention[m->attention_count++] = row;
    }
    if (m->attention_count > 0)
        qsort(m->attention, m->attention_count, sizeof *m->attention,
              by_head_and_length);
    return MDS_OK;
}

/* ---- looking up ---- */

static double rate_of(const struct mds_attention_rate *row, int backward)
{
    return backward ? row->backward : row->forward;
}

/* The first row of the head size that is nearest, and how many there are of it. */
static const struct mds_attention_rate *
rows_of_nearest_head(const struct mds_machine *m, double head, size_t *count)
{
    const struct mds_attention_rate *best = NULL;

    *count = 0;
    for (size_t i = 0; i < m->attention_count; i++) {
        const struct mds_attention_rate *row = &m->attention[i];

        if (!best || fabs(log2((double)row->head / head)) <
                         fabs(log2((double)best->head / head))) {
            best = row;
            *count = 0;
        }
        *count += row->head == best->head;
    }
    return best;
}

/* Of a length that is shorter than any row's.  Published rates of fused attention grow
 * as S / (S + 1000), from 512 to 16384 tokens: Shah et al. 2024, arXiv:2407.08608,
 * figure 5.
 */
static double scale_by_length(double rate, double row_seq, double seq)
{
    return rate * (seq / (seq + 1000)) / (row_seq / (row_seq + 1000));
}

double mds_machine_attention_flops(const struct mds_machine *m, double head, double seq,
                                   int backward)
{
    size_t count;
    const struct mds_attention_rate *row = rows_of_nearest_head(m, head, &count);
    double below, above, part;

    if (!row)
        return m->rates.attention_flops;
    if (seq <= (double)row->seq)
        return scale_by_length(rate_of(row, backward), (double)row->seq, seq);
    while (count > 1 && seq > (double)row[1].seq) {
        row++;
        count--;
    }
    if (count == 1)
        return rate_of(row, backward);
    below = rate_of(row, backward);
    above = rate_of(row + 1, backward);
    part = log2(seq / (double)row->seq) / log2((double)row[1].seq / (double)row->seq);
    return below + part * (above - below);
}
