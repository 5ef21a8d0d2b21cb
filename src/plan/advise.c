/* SPDX-License-Identifier: BSD-3-Clause */
/* Advice when nothing fits, or not what the user asked for: what would fit. */
#include "base/minmax.h"
#include "base/units.h"
#include "plan/plan.h"

#include <string.h>

/* Whether anything fits on so many ranks. */
static enum mds_plan_answer fits_on_ranks(const struct mds_plan_request *r,
                                          int64_t world)
{
    struct mds_plan_request at = *r;
    struct mds_plan_entry best;
    enum mds_rc rc;

    at.world = world;
    return mds_plan_fits(&at, r->run->config.model.seq_length, &best, &rc);
}

static void advise_node_count(const struct mds_plan_request *r, FILE *f)
{
    int64_t most = r->machine->node.count * r->per_node;
    int known = 1;

    for (int64_t world = 2 * r->world; world <= most && world <= 64 * r->world;
         world *= 2) {
        enum mds_plan_answer answer = fits_on_ranks(r, world);
        int64_t nodes = mds_ceil_div(world, r->per_node);

        known &= answer != MDS_PLAN_UNKNOWN;
        if (answer == MDS_PLAN_YES) {
            fprintf(f, "  it fits on %lld node%s (%lld ranks)\n", (long long)nodes,
                    mds_plural(nodes), (long long)world);
            return;
        }
    }
    if (most < 2 * r->world)
        return;
    if (known)
        fprintf(f, "  it fits on no number of nodes of %s, up to %lld ranks\n",
                r->machine->name, (long long)mds_min(most, 64 * r->world));
    else
        fprintf(f,
                "  how many nodes it needs was not found in time (--plan-seconds)\n");
}

/* The options that are set, one by one: would it fit without? */
static void advise_options_to_drop(const struct mds_plan_request *r,
                                   const struct mds_plan *p, FILE *f)
{
    for (int i = 0; mds_layout_flag(i); i++) {
        struct mds_plan_request at = *r;
        struct mds_plan_entry best;
        enum mds_rc rc;

        at.freed = 1u << i;
        if ((p->fixed & at.freed) && mds_plan_fits(&at, r->run->config.model.seq_length,
                                                   &best, &rc) == MDS_PLAN_YES) {
            struct mds_str text = {0};

            mds_layout_describe(&best.layout, r->world, &text);
            fprintf(f, "  if %s is left to the plan: %s\n", mds_layout_flag(i),
                    text.s ? text.s : "");
            mds_str_fini(&text);
        }
    }
}

static void print_first_layout(const struct mds_plan_request *r,
                               const struct mds_plan *p, FILE *f)
{
    struct mds_str text = {0};
    char step[32];

    mds_layout_describe(&p->fits[0].layout, r->world, &text);
    fprintf(
        f,
        "with the options you set this layout fits, %s a step; --layout plan uses it\n"
        "  %s\n",
        mds_format_step(p->fits[0].estimate.step_s, step, sizeof step),
        text.s ? text.s : "");
    mds_str_fini(&text);
    mds_layout_options(&p->fits[0].layout, r->run->config.train.activation_memory,
                       p->fixed, &text);
    fprintf(f, "  %s\n", text.s ? text.s : "");
    mds_str_fini(&text);
}

enum mds_rc mds_plan_refuse(const struct mds_plan_request *r, const struct mds_plan *p)
{
    struct mds_layout asked;
    struct mds_config c;

    if (p->untried > 0)
        return mds_fail(MDS_EUSER,
                        "no layout that fits was found in %.3g s, and %lld grid%s not "
                        "tried; give a larger --plan-seconds",
                        r->budget_s, (long long)p->untried,
                        p->untried == 1 ? " was" : "s were");
    if (p->reject_count > 0 && !p->rejects[0].divides)
        return mds_fail(MDS_EUSER, "%.*s", (int)strcspn(p->rejects[0].why, "\n"),
                        p->rejects[0].why);
    if (p->reject_count == 0) { /* no grid has the sizes that were set */
        mds_layout_fixed(r->run, r->world, &asked);
        MDS_TRY(mds_layout_apply(r->run, &asked, r->world, &c));
    }
    return mds_fail(MDS_EUSER, "no layout of %lld tokens fits on %lld rank%s of %s",
                    (long long)r->run->config.model.seq_length, (long long)r->world,
                    mds_plural(r->world), r->machine->name);
}

void mds_plan_advise(const struct mds_plan_request *r, const struct mds_plan *p,
                     FILE *f)
{
    struct mds_plan_longest l;

    if (p->fit_count > 0) {
        print_first_layout(r, p, f);
        return;
    }
    if (p->untried > 0) {
        fprintf(f, "nothing that was tried fits, and time ran out before all was tried "
                   "(--plan-seconds)\n");
        return;
    }
    if (p->reject_count == 0 || !p->rejects[0].divides)
        return; /* an error in the settings: mds_plan_refuse reports it */
    fprintf(f, "nothing fits\n");
    if (mds_plan_max_seq(r, &l) != MDS_OK)
        return;
    if (l.seq > 0)
        fprintf(f, "  on these ranks %lld tokens would fit\n", (long long)l.seq);
    else if (l.untried == 0)
        fprintf(f, "  on these ranks not even the shortest sequence fits\n");
    advise_options_to_drop(r, p, f);
    advise_node_count(r, f);
}
