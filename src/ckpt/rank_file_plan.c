/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank's file contains: parts of the registry's parameters. */
#include "base/alloc.h"
#include "ckpt/rank_file.h"

#include <stdlib.h>

struct planning {
    const struct mds_params *whole;
    int64_t rank;
    struct mds_rank_file_plan *plan;
    int64_t parts_capacity;
};

static enum mds_rc add_parts(struct planning *w, const struct mds_param *p,
                             int64_t first, int64_t n)
{
    int tensor = mds_params_find(w->whole, p->spec.name), count;
    struct mds_rank_file_plan *plan = w->plan;

    if (tensor < 0)
        return mds_fail(MDS_EBUG, "checkpoint: the whole model has no %s",
                        p->spec.name);
    MDS_TRY(mds_reserve(&plan->part, &w->parts_capacity, plan->parts + MDS_PART_SPLIT,
                        sizeof *plan->part));
    count = mds_part_split(p, first, n, plan->part + plan->parts);
    for (int i = 0; i < count; i++, plan->parts++) {
        plan->part[plan->parts].tensor = tensor;
        plan->part[plan->parts].file = w->rank;
    }
    return MDS_OK;
}

/* A parameter's elements among elements first .. first + n - 1 of its unit. */
static enum mds_rc add_param(struct planning *w, const struct mds_params *local,
                             const struct mds_param *p, int64_t first, int64_t n)
{
    struct mds_param_overlap here = mds_param_overlap(local, p, first, n);
    struct mds_rank_file_plan *plan = w->plan;

    if (here.n == 0 || p->spec.duplicate)
        return MDS_OK;
    plan->list[plan->lists++] = (struct mds_rank_file_list){
        .what = MDS_CKPT_WEIGHT, .param = p, .first = first + here.at, .n = here.n};
    plan->elements += MDS_CKPT_STATES * here.n;
    return add_parts(w, p, here.first, here.n);
}

/* The moments have the weights' lists. */
static void add_moments(struct mds_rank_file_plan *plan)
{
    int64_t n = plan->lists;

    for (int what = MDS_CKPT_M; what < MDS_CKPT_STATES; what++)
        for (int64_t i = 0; i < n; i++) {
            plan->list[plan->lists] = plan->list[i];
            plan->list[plan->lists++].what = (enum mds_ckpt_what)what;
        }
}

enum mds_rc mds_rank_file_plan(const struct mds_params *local,
                               const struct mds_params *whole, int64_t rank,
                               const struct mds_ckpt_source *source,
                               struct mds_rank_file_plan *out)
{
    struct mds_rank_file_plan plan = {
        .list = mds_zalloc((size_t)mds_params_n(local) * MDS_CKPT_STATES,
                           sizeof *plan.list)};
    struct planning w = {.whole = whole, .rank = rank, .plan = &plan};
    enum mds_rc rc = plan.list ? MDS_OK : MDS_EMEM;

    for (int u = 0; !rc && u < mds_params_units(local); u++) {
        const struct mds_param_unit *unit = mds_params_unit(local, u);
        int64_t first, n;

        source->share(source->ctx, u, &first, &n);
        for (int i = 0; !rc && i < unit->params; i++)
            rc = add_param(&w, local, mds_params_get(local, unit->first_param + i),
                           first, n);
    }
    if (rc) {
        mds_rank_file_plan_fini(&plan);
        return rc;
    }
    add_moments(&plan);
    *out = plan;
    return MDS_OK;
}

void mds_rank_file_plan_fini(struct mds_rank_file_plan *p)
{
    free(p->list);
    free(p->part);
    *p = (struct mds_rank_file_plan){0};
}
