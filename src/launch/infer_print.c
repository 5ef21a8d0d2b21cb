/* SPDX-License-Identifier: BSD-3-Clause */
/* What is said of a plan for mds_infer. */
#include "base/units.h"
#include "launch/infer_impl.h"

#include <stdlib.h>

static void describe(const struct mds_infer_layout *y, struct mds_str *out)
{
    mds_str_add(out, "data %lld", (long long)y->data);
    if (y->tensor > 1)
        mds_str_add(out, ", tensor %lld", (long long)y->tensor);
    if (y->ulysses > 1)
        mds_str_add(out, ", Ulysses %lld", (long long)y->ulysses);
    if (y->ring > 1)
        mds_str_add(out, ", ring %lld", (long long)y->ring);
    if (y->pipeline > 1)
        mds_str_add(out, ", pipeline %lld", (long long)y->pipeline);
}

enum mds_rc mds_infer_plan_check(const struct mds_launch *l, struct mds_infer_plan *p)
{
    const struct mds_infer_layout *least = mds_infer_layout_smallest(p);
    struct mds_str text = {0};
    char need[32], have[32];
    enum mds_rc rc;

    if (p->best >= 0)
        return MDS_OK;
    if (!least)
        return mds_fail(MDS_EUSER, "no layout of %lld rank%s is possible: %s",
                        (long long)l->ranks, mds_plural(l->ranks),
                        p->n > 0 ? p->tried[0].why : "none was tried");
    describe(least, &text);
    mds_estimate_memory_text(&least->estimate, need, have);
    rc = mds_fail(
        MDS_EUSER,
        "a sequence of %lld tokens does not fit on %lld rank%s of %s: with %s, which "
        "needs least, a rank needs %s of %s; use more nodes, %s (behind the files), "
        "or shorter sequences",
        (long long)least->tokens, (long long)l->ranks, mds_plural(l->ranks),
        l->machine->name, text.s ? text.s : "", need, have,
        p->generates ? "--cpu-offloading-num-layers" : "--sequence-tile");
    mds_str_fini(&text);
    return rc;
}

static void print_row(const struct mds_infer_layout *y, FILE *f)
{
    char need[32], have[32], step[32], all[32] = "-";

    mds_estimate_memory_text(&y->estimate, need, have);
    if (y->all_s > 0)
        mds_format_seconds(y->all_s, all, sizeof all);
    fprintf(f, "  %5lld %6lld %7lld %4lld %8lld %4lld x %-9lld %10s of %-10s %9s %s\n",
            (long long)y->data, (long long)y->tensor, (long long)y->ulysses,
            (long long)y->ring, (long long)y->pipeline, (long long)y->micro,
            (long long)y->tokens, need, have,
            mds_format_step(y->estimate.step_s, step, sizeof step),
            y->estimate.fits ? all : "does not fit");
}

void mds_infer_plan_length(const struct mds_launch *l, const struct mds_infer_plan *p,
                           double job_s, const char *job, struct mds_str *out)
{
    const struct mds_infer_layout *y = p->best < 0 ? NULL : &p->tried[p->best];
    double n = p->generates          ? p->new_tokens
               : p->need.alleles > 0 ? (double)p->need.alleles
                                     : p->tokens;
    char tokens[32];

    if (!y || y->all_s == 0)
        return;
    mds_str_add(out, "%s%s %s", p->need.cut ? "about " : "",
                mds_format_count(n, tokens, sizeof tokens),
                p->generates           ? "new tokens, or fewer"
                : p->need.alleles == 1 ? "allele"
                : p->need.alleles > 0  ? "alleles"
                                       : "tokens");
    if (p->jobs > 1)
        mds_str_add(out, " in %lld jobs of an array: each", (long long)p->jobs);
    mds_launch_hours(l, y->all_s, job_s, job, out);
}

/* Fastest first, and then those that do not fit. */
static int by_time(const void *a, const void *b)
{
    const struct mds_infer_layout *const *x = a, *const *y = b;
    double s = mds_infer_layout_cost(*x), t = mds_infer_layout_cost(*y);

    if ((*x)->estimate.fits != (*y)->estimate.fits)
        return (*y)->estimate.fits - (*x)->estimate.fits;
    return (s > t) - (s < t);
}

void mds_infer_plan_print(const struct mds_launch *l, const struct mds_infer_plan *p,
                          FILE *f)
{
    const struct mds_infer_layout *row[MDS_INFER_LAYOUTS], *best;
    struct mds_str text = {0};
    int n = 0;

    best = p->best < 0 ? NULL : &p->tried[p->best];
    for (int i = 0; i < p->n; i++)
        if (!p->tried[i].why[0] && i != p->best)
            row[n++] = &p->tried[i];
    qsort(row, (size_t)n, sizeof *row, by_time);
    fprintf(f, "   %-4s %6s %7s %4s %8s %-16s %-24s %9s in all\n", "data", "tensor",
            "Ulysses", "ring", "pipeline", "rows x tokens", "  a rank needs",
            p->generates ? "a token" : "a step");
    if (best)
        print_row(best, f);
    for (int i = 0; i < n && i + (best != NULL) < l->options->rows; i++)
        print_row(row[i], f);
    mds_infer_plan_length(l, p, 0, NULL, &text);
    if (text.len)
        fprintf(f, "%s\n", text.s);
    fflush(f);
    mds_str_fini(&text);
}
