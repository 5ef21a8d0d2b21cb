/* What would fit, where nothing does. */
#include "base/units.h"
#include "plan/plan.h"

#include <string.h>

/* Whether anything fits on so many ranks. */
static int fits_on(const struct mds_plan_request *r, int64_t world)
{
    struct mds_plan_request at = *r;
    struct mds_plan_entry best;
    enum mds_rc rc;

    at.world = world;
    return mds_plan_fits(&at, r->run->config.model.seq_length, &best, &rc);
}

static void advise_nodes(const struct mds_plan_request *r, FILE *f)
{
    int64_t most = r->machine->node.count * r->per_node;

    for (int64_t world = 2 * r->world; world <= most && world <= 64 * r->world;
         world *= 2)
        if (fits_on(r, world)) {
            fprintf(f, "  %lld nodes (%lld ranks) would do\n",
                    (long long)((world + r->per_node - 1) / r->per_node),
                    (long long)world);
            return;
        }
    fprintf(f, "  no number of nodes of %s was found that would do, up to %lld ranks\n",
            r->machine->name, (long long)(most < 64 * r->world ? most : 64 * r->world));
}

/* What the user has fixed may be what does not fit. */
static void advise_free(const struct mds_plan_request *r, const struct mds_plan *p,
                        FILE *f)
{
    struct mds_layout now = mds_layout_of(&r->run->config);
    struct mds_layout none = {.global = now.global, .micro = now.micro};
    struct mds_str text = {0};

    now = mds_layout_keep(none, &now, p->fixed);
    mds_layout_options(&now, 0, &text);
    if (p->fixed && text.len)
        fprintf(f, "  what you set stays as it is: %s\n", text.s);
    if (p->fixed)
        fprintf(f, "  leave recompute, offload and sizes to the plan for more room\n");
    mds_str_fini(&text);
}

void mds_plan_advise(const struct mds_plan_request *r, const struct mds_plan *p,
                     FILE *f)
{
    struct mds_plan_entry best;
    int64_t seq = 0;

    fprintf(f, "nothing fits\n");
    if (mds_plan_max_seq(r, &seq, &best) == MDS_OK && seq > 0)
        fprintf(f, "  %lld tokens would, here\n", (long long)seq);
    else
        fprintf(f, "  not even the shortest sequence, here\n");
    advise_nodes(r, f);
    advise_free(r, p, f);
}
